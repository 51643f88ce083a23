//! Modules, lines, static variables and functions of ELF files.
//!
//! # Design constraints
//! - A module of 30 MB is common, and most runs ask three questions of it: each table is read when the first question
//!   needs it, sorted once, and kept.
//! - Only opening can fail. A damaged or missing table is an empty one, and no input may panic or take long: recordings
//!   contain whatever was mapped.
//! - Addresses are the file's own (`vaddr`): subtract [`Module::bias_for_mapping`] first. The same module then serves
//!   all processes.
//! - Files are read, never mapped: a file that is replaced during a run must not kill the recorder.
//!
//! ```no_run
//! # fn main() -> Result<(), numamma_symbols::Error> {
//! use numamma_symbols::{Access, Module};
//! let module = Module::open("/usr/lib/libfoo.so")?;
//! // 7f0000001000-7f0000003000 r-xp 00001000 ... /usr/lib/libfoo.so
//! let bias = module.bias_for_mapping(0x7f00_0000_1000, 0x1000, Access::Execute).unwrap_or(0);
//! for frame in module.frames_at(0x7f00_0000_1234 - bias) {
//!     println!("{} {:?}:{}", frame.function, frame.file, frame.line);
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod dwarf;
mod elf;
mod error;
mod frame;
mod intervals;
mod module;
mod modules;
mod names;
pub mod origin;
mod scope;
mod variable;
mod variables;

pub use elf::dynamic::CopiedVariable;
pub use elf::functions::{FunctionRange, RangeSource};
pub use elf::mapping::{Access, Mapping, TlsBlock};
pub use error::Error;
pub use frame::Frame;
pub use module::{LineRow, Module, NamedFunction};
pub use modules::Modules;
pub use names::demangle;
pub use scope::{FrameRule, Local, LocalPlace, Location, Returns, Scope};
pub use variable::{Element, Extent, Member, Variable, VariableKind};
