//! Model of a machine, as predictions use it: nodes, latencies, bandwidths, contention.
//!
//! A model is measured (`numamma machine --measure`), read from a machine file (docs/MACHINE.md), or derived from what the
//! firmware says. An unknown value is `None`, never a guess.

use serde::{Deserialize, Serialize};

/// A machine as predictions see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineModel {
    /// Name, such as `amd-8x6`.
    pub name: String,
    /// Where the numbers come from: a publication, or "measured" with the date.
    pub source: String,
    /// The base page in bytes.
    pub page_bytes: u64,
    /// The size of huge pages in bytes, if the machine has them.
    #[serde(default)]
    pub huge_page_bytes: Option<u64>,
    /// Cycles of the clock in a nanosecond, where sources count cycles.
    #[serde(default)]
    pub ghz: Option<f64>,
    /// Bytes of the last level of caches that the CPUs of one node share.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
    /// The nodes, in order of their numbers.
    pub nodes: Vec<ModelNode>,
    /// Nanoseconds that a load which misses all caches takes on an idle machine: `latency_ns[n][m]` from a CPU of node `n` to
    /// memory of node `m`. Rows of nodes without CPUs are empty. All empty: not known.
    #[serde(default)]
    pub latency_ns: Vec<Vec<f64>>,
    /// GB/s that the CPUs of node `n` together read from memory of node `m`: `bandwidth_gbs[n][m]`. Empty: not known.
    #[serde(default)]
    pub bandwidth_gbs: Vec<Vec<f64>>,
    /// How the latency of local memory grows as CPUs load one node, in ascending order of CPUs. Empty: not known.
    #[serde(default)]
    pub contention: Vec<Contention>,
}

/// One node of a [`MachineModel`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelNode {
    /// Number of CPUs (hardware threads); 0 if the node is memory only.
    pub cpus: u32,
    /// Hardware threads of one core: 1 without SMT.
    #[serde(default = "one")]
    pub threads_per_core: u32,
    /// Bytes of its memory; `None`: not known, taken as enough.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// GB/s that its memory delivers to all CPUs of the machine together; `None`: not known.
    #[serde(default)]
    pub bandwidth_gbs: Option<f64>,
}

/// Latency of one node's memory while `cpus` CPUs of the whole machine access it as fast as they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// CPUs that load the node at once.
    pub cpus: u32,
    /// Mean nanoseconds of a load.
    pub latency_ns: f64,
}

fn one() -> u32 {
    1
}
