//! Accesses that reach memory: no cache of a model has their line (`record --caches`).

use serde::{Deserialize, Serialize};

/// How many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryAccesses {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
    /// Both.
    pub total: f64,
    /// Share of those of the whole run.
    pub share: f64,
}
