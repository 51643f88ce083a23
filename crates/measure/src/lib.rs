//! Latencies, bandwidths, contention and caches of the machine that this process runs on.
//!
//! ```text
//!   system (CPUs, memory on a node) -> chase, stream (one sample) -> estimate (repeats until stable) -> measurement -> model, text
//! ```
//!
//! Architecture invariant: only `system.rs` makes system calls, and each CPU and node that it is asked for is one that the process
//! may use: affinity mask and cpuset are respected.

mod caches;
mod chase;
mod error;
mod estimate;
mod measurement;
mod run;
mod stream;
mod system;
mod text;

pub use error::MeasureError;
pub use estimate::Estimate;
pub use measurement::{CacheStep, CoreLatencies, Footprint, Loaded, Measurement};
pub use run::{Effort, measure};
pub use text::render_measurement;
