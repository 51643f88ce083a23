//! A program that NumaMMA starts: how it begins and ends, what is put into it, where its pages lie.
//!
//! ```text
//!   executable (found as execvp finds it) -> library (on disk, named in the environment) -> start (suspended, then run) -> ended
//! ```

mod ended;
mod error;
mod executable;
mod hooks;
mod huge;
mod library;
mod pages;
pub mod signals;
mod start;
mod stopped;

pub use ended::Ended;
pub use error::StartError;
pub use executable::{Refused, find_executable, library_refused};
pub use hooks::{Hooks, hooks_of};
pub use huge::{HugeMapping, huge_mappings};
pub use library::Library;
pub use pages::{break_up, move_pages, query};
pub use start::{Running, Suspended, suspended};
pub use stopped::{NotStopped, Stopped};
