//! The dataset: a directory with `meta.json` and one Parquet file per table.
//!
//! ```text
//!   NAME.numamma/
//!     meta.json                  format version, command, host, clock, sampler, losses; rewritten (atomically) at each flush
//!     samples.parquet            one file per table once the recording is complete
//!     samples.part-0000.parquet  while it runs: closed files of a few seconds each, merged at the end
//! ```
//!
//! A part is a whole Parquet file, so a recording that is killed half-way leaves readable everything up to its last
//! flush. `meta.json` says whether the recording is complete; parts that lie beside a complete one are left-overs of a
//! merge and are not read.
//!
//! Columns are signed or floating (Spark reads unsigned 64-bit as decimals): addresses are `i64` bit patterns.
//! This is the only crate that names arrow or parquet.
#![forbid(unsafe_code)]

mod cell;
mod dataset;
mod error;
mod folder;
mod losses;
mod meta;
mod schema;
mod table;
mod writer;

pub use dataset::{Dataset, FORMAT, Unread};
pub use error::TraceError;
pub use folder::Folder;
pub use losses::{LossKind, Losses};
pub use meta::{Controls, Cost, Meta, SamplerMeta, Trace, TraceWindows};
pub use schema::{
    ALL_TABLES, ANONYMOUS, Access, BREAK, BasisRow, CodeRow, FirstTouchRow, FrameRow, MarkerRow, ModuleRow, NONE,
    ObjectKind, ObjectRow, PageNodeRow, PartSampleRow, ProcessRow, Rule, SampleRow, SiteRow, TableInfo, ThreadRow,
    TraceRow,
};
pub use table::{Column, Table};
pub use writer::DatasetWriter;
