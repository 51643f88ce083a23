//! The XML files of hwloc, `lstopo machine.xml`: versions 1, 2 and 3 are read, version 2 is written.
//!
//! ```text
//!   version 1             version 2 and 3
//!   Machine               Machine
//!     NUMANode              Package
//!       Package               NUMANode      (a child beside the caches: memory of the parent's CPUs)
//!         L3Cache             L3Cache
//!           ..                  ..
//! ```
//!
//! Latencies and bandwidths between nodes are memory attributes, whole nanoseconds and MB/s.

mod bitmap;
mod read;
mod write;

use std::path::Path;

pub use read::parse;
pub use write::to_xml;

use crate::machine::Machine;
use crate::machines::MachineError;
use crate::model::MachineModel;

/// A machine as a file of hwloc describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Described {
    /// Its nodes, CPUs and caches.
    pub machine: Machine,
    /// Its model, if the file states a latency for every pair of nodes.
    pub model: Option<MachineModel>,
}

/// The machine that a file describes.
///
/// # Errors
/// If it cannot be read, or says something that cannot be meant.
pub fn read(path: &Path) -> Result<Described, MachineError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| MachineError::Unreadable { path: path.to_owned(), source })?;
    parse(&text).map_err(|fault| MachineError::Faulty { path: path.to_owned(), faults: vec![fault] })
}
