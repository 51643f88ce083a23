//! Which threads use which pages of which objects, and what that costs: the only input of advice and predictions.
//!
//! ```text
//!   analyze (a recording) -> Usage -> advise -> Plan, predictions
//! ```

use serde::{Deserialize, Serialize};

use crate::{CallSite, FirstTouch};

/// The use of memory in one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time of the recorded part, seconds.
    pub wall_s: f64,
    /// Bytes of a page of the recorded machine, the unit of [`PageUse::page`].
    pub page_bytes: u64,
    /// Nodes of the recorded machine.
    pub nodes: usize,
    /// CPUs that threads were seen on.
    #[serde(default)]
    pub cpus: usize,
    /// Where the number of accesses that reach memory comes from.
    pub memory_source: MemorySource,
    /// Threads in creation order. Those that come one after the other are one of them here: a program that creates its threads anew for
    /// each parallel part has as many as run at a time.
    pub threads: Vec<ThreadUse>,
    /// Objects of which memory accesses or first touches are known, most memory accesses first.
    pub objects: Vec<ObjectUse>,
    /// Parts of the run in which objects are used differently, in order of time. One if the run has no phases that are known.
    pub phases: Vec<PhaseUse>,
}

/// How it is known which accesses reach memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// Not known: placement cannot be predicted.
    #[default]
    Unknown,
    /// Time of samples at accesses: the misses are those whose time is more than a hit takes.
    Time,
    /// A model of the caches counted each miss (`--sampler exact --caches`).
    CacheModel,
    /// Hardware told the level that served each sampled access.
    Hardware,
}

/// One thread, or several that come one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Index in [`Usage::threads`].
    pub thread: usize,
    /// Process of the thread. Predictions cover the process that accesses memory most, and those that run at the same time.
    pub process: usize,
    /// Second of the run at which it began.
    #[serde(default)]
    pub from_s: f64,
    /// Second of the run at which it ended.
    #[serde(default)]
    pub to_s: f64,
    /// Seconds of CPU time, without loops that wait for another thread; of counts (exact sampler) the native time is not known: `None`.
    pub busy_s: Option<f64>,
    /// Seconds of CPU time in loops that wait for another thread.
    pub waiting_s: f64,
    /// Seconds of `busy_s` that loads wait for memory beyond what a hit takes: the best estimate.
    pub stall_s: Option<f64>,
    /// Half-width of the 95 % interval of `stall_s`, including what is not known about hits.
    pub stall_error_s: Option<f64>,
    /// Node on which it ran in the recording, if it ran on one.
    pub node: Option<usize>,
}

/// One object: all instances of one call site, or a variable.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ObjectUse {
    /// Id in [`crate::Findings::objects`].
    pub id: usize,
    /// Name in reports.
    pub name: String,
    /// `heap`, `static`, `mmap`, `stack`, `tls` or `annotated`.
    pub kind: String,
    /// Module (file name) that holds a static object.
    pub module: Option<String>,
    /// Where it was allocated.
    pub site: Option<CallSite>,
    /// First touches of its pages, most pages first.
    pub first_touch: Vec<FirstTouch>,
    /// Its instances, oldest first; behind them one for its blocks of less than a page.
    pub instances: Vec<InstanceUse>,
}

/// One block of memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstanceUse {
    /// Number among the object's instances in its process, by age, from 0: what `instances` of a plan counts.
    pub instance: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes from the start of its first page to the start of the instance.
    pub page_offset: u64,
    /// 0; or the number of the object's blocks that are smaller than a page, for all of which it stands. Its pages are then those of the heap
    /// that hold them, counted in the order of their addresses without those between.
    #[serde(default)]
    pub blocks: u64,
    /// Bytes by which the start of its first page lies behind a multiple of 2 MiB: which pages share a huge page.
    pub huge_offset: u64,
    /// Its pages that were accessed or first touched, ascending.
    pub pages: Vec<PageUse>,
}

/// One page of an instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PageUse {
    /// Pages from the first page of the instance.
    pub page: u64,
    /// Thread that touched it first, if seen.
    pub first_touch: Option<usize>,
    /// Node on which it lay in the recording, if known.
    pub node: Option<usize>,
    /// Its use by thread, in order of the threads.
    pub by_thread: Vec<PageThreadUse>,
}

/// Use of one page by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageThreadUse {
    /// Thread number.
    pub thread: usize,
    /// Phase: index in [`Usage::phases`].
    pub phase: usize,
    /// Samples (of counts: 1), which say how certain the rest is.
    pub samples: u64,
    /// Accesses that reach memory, if a cache model or hardware counted them; else seconds that loads waited there.
    pub memory: f64,
    /// Part of `memory` that is writes, 0..1.
    pub writes: f64,
}

/// A part of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseUse {
    /// The program's own name, or "phase 1".
    pub name: String,
    /// Seconds of wall time in it, all repetitions together.
    pub wall_s: f64,
    /// CPU seconds of each thread in it, without loops that wait, in order of [`Usage::threads`].
    pub busy_s: Vec<f64>,
}
