//! Predicted cost of placements on a machine: the result of `numamma predict`.

use serde::{Deserialize, Serialize};

/// Predictions of several placements of one run on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// [`crate::PLACEMENT_VERSION`].
    pub version: u32,
    /// The machine.
    pub machine: String,
    /// Threads of the run.
    pub threads: usize,
    /// True if times hold memory accesses alone, because the native run time is not known: then only ratios mean something.
    pub memory_only: bool,
    /// Wall time of the recorded run, seconds; `None` if it is no native run.
    pub measured_s: Option<f64>,
    /// One for each placement, in the order in which they were asked for.
    pub candidates: Vec<Prediction>,
    /// Assumptions in place of unknown numbers, one sentence each.
    pub assumptions: Vec<String>,
}

/// One placement of objects and threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// How the memory is placed.
    pub name: String,
    /// How the threads are placed: `compact`, `scatter`, `as recorded` or `list`.
    pub threads: String,
    /// Seconds of wall time, or of memory accesses alone ([`Predictions::memory_only`]).
    pub time_s: f64,
    /// Lower end of the 95 % interval of `time_s`.
    pub low_s: f64,
    /// Upper end of the 95 % interval of `time_s`.
    pub high_s: f64,
    /// Accesses to memory from another node than the page's, 0..1 of all.
    pub remote_share: f64,
    /// Sample standard deviation of the nodes' accesses over their mean: 0 is balanced.
    pub imbalance: f64,
    /// Load of each node with memory.
    pub nodes: Vec<NodeLoad>,
    /// Load of the links between nodes that are used, most accesses first.
    pub links: Vec<LinkLoad>,
    /// The parts of the interval.
    pub uncertainty: Vec<Uncertainty>,
}

/// Load of the memory of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// The node.
    pub node: usize,
    /// Share of all accesses to memory.
    pub share: f64,
    /// CPUs that wait for it at a time, on average over the time predicted.
    pub waiting_cpus: f64,
    /// GB/s that it delivers, on average over the time predicted.
    pub gb_s: f64,
}

/// Accesses from the CPUs of one node to the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Node of the CPUs.
    pub from: usize,
    /// Node of the memory.
    pub to: usize,
    /// Share of all accesses to memory.
    pub share: f64,
    /// GB/s, on average over the time predicted.
    pub gb_s: f64,
}

/// One cause of uncertainty and how far it alone moves the predicted time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// `samples`, `stalls`, `overlap` or `bursts`.
    pub cause: String,
    /// Seconds by which the time may be less.
    pub below_s: f64,
    /// Seconds by which the time may be more.
    pub above_s: f64,
}
