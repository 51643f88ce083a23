//! The section about placement in the page of `numamma html`: plan, predictions, and what is drawn beside them.

use serde::{Deserialize, Serialize};

use crate::{PLACEMENT_VERSION, PlanFindings, Predictions};

/// Advice, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementPage {
    /// [`PLACEMENT_VERSION`].
    pub version: u32,
    /// Why there is no advice, without a full stop.
    pub missing: Option<String>,
    /// The advice.
    pub advice: Option<PlacementAdvice>,
}

impl PlacementPage {
    /// A page with advice.
    pub fn new(advice: PlacementAdvice) -> Self {
        Self { version: PLACEMENT_VERSION, missing: None, advice: Some(advice) }
    }

    /// A page without advice.
    pub fn missing(reason: String) -> Self {
        Self { version: PLACEMENT_VERSION, missing: Some(reason), advice: None }
    }
}

/// A plan, predictions with it, and their picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementAdvice {
    /// As `numamma plan --format json`.
    pub plan: PlanFindings,
    /// As `numamma predict --plan --format json` with that plan.
    pub predictions: Predictions,
    /// The machine that both are for.
    pub machine: MachinePicture,
    /// Threads and pages, without the plan and under it.
    pub map: PlacementMap,
    /// Command lines to copy.
    pub commands: Commands,
}

/// Nodes, latencies and bandwidths of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachinePicture {
    /// Name.
    pub name: String,
    /// Where the numbers come from.
    pub source: String,
    /// CPUs of each node; 0: memory only.
    pub cpus: Vec<u32>,
    /// Nanoseconds of a load from a CPU of node `n` to memory of node `m`; the row of a node without CPUs is empty.
    pub latency_ns: Vec<Vec<f64>>,
    /// GB/s that the CPUs of node `n` read from memory of node `m`; empty if it is not known.
    pub bandwidth_gbs: Vec<Vec<f64>>,
    /// Nanoseconds of a load of local memory while so many CPUs load its node; empty if it is not known.
    pub contention: Vec<LoadedLatency>,
}

/// A point of the contention curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadedLatency {
    /// CPUs that load the node at once.
    pub cpus: u32,
    /// Nanoseconds of a load.
    pub latency_ns: f64,
}

/// Nodes of threads and pages, without a plan and under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementMap {
    /// Threads that are placed, by number.
    pub threads: Vec<ThreadNodes>,
    /// Objects with at least 1 % of the accesses to memory, most costly first.
    pub objects: Vec<PageNodes>,
}

/// The node of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadNodes {
    /// Thread number.
    pub thread: usize,
    /// Node without the plan.
    pub now: usize,
    /// Node under the plan.
    pub planned: usize,
}

/// Nodes of the pages of an object, its instances one behind the other. Pages are counted in bins of equal size: no page is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageNodes {
    /// Id in [`crate::Findings::objects`].
    pub id: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of all instances, also those that were neither accessed nor touched.
    pub pages: u64,
    /// Pages in each bin but the last, which may have fewer.
    pub bin_pages: u64,
    /// For each bin: nodes and how many of its pages lie there without the plan. Pages that nobody used are not counted.
    pub now: Vec<Vec<(usize, u64)>>,
    /// The same under the plan.
    pub planned: Vec<Vec<(usize, u64)>>,
}

/// Command lines to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Writes the plan.
    pub plan: String,
    /// Runs the program under it and records that.
    pub apply: String,
    /// Shows what was promised and reached.
    pub compare: String,
    /// Shows what was compared for an object, whose `#ID` goes behind it.
    pub explain: String,
}
