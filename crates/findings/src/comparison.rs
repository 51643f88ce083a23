//! Results of the comparison of two recordings. These types are the JSON of `numamma compare`, field for field
//! (`docs/COMPARE.md` documents it).
//!
//! Differences are B - A. Every `error` is the half-width of a 95 % interval: from the number of samples and, with several
//! recordings of a side, from how much these differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Accesses, CallSite, Cost, Loss, Sampler};

/// Version of the JSON comparison. Within it fields are added, never renamed or removed.
pub const COMPARISON_VERSION: u32 = 1;

/// Everything that a comparison shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// The first recording.
    pub a: Recording,
    /// The second one.
    pub b: Recording,
    /// Folders of further recordings of the first program; its numbers are means over all of them.
    #[serde(default)]
    pub more_a: Vec<String>,
    /// The same of the second.
    #[serde(default)]
    pub more_b: Vec<String>,
    /// Numbers of the two that can be compared.
    pub comparable: Comparable,
    /// Facts to know before believing a difference.
    pub notes: Vec<Note>,
    /// The runs as a whole.
    pub total: TotalChange,
    /// Objects of both, the largest share of the cost in either first.
    pub objects: Vec<ObjectChange>,
    /// Objects of the first alone, the largest share first.
    pub only_a: Vec<Unmatched>,
    /// Objects of the second alone.
    pub only_b: Vec<Unmatched>,
    /// How far both agree on the owners of pages; `None` where pages cannot be compared.
    pub ownership: Option<Ownership>,
    /// The promise of a plan beside the result; `None` unless a plan was named that has a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
}

/// The promise of a plan for recording B, and the result of B. Times are parts of the time of A.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The machine that it was predicted for.
    pub machine: String,
    /// Promised time, as a part of the time without the plan; `None` where no time of the whole run was predicted.
    pub time: Option<f64>,
    /// Lower end of its 95 % interval.
    pub time_low: Option<f64>,
    /// Upper end.
    pub time_high: Option<f64>,
    /// Wall time of B as a part of that of A.
    pub time_reached: Option<f64>,
    /// Half-width of the 95 % interval of `time_reached`; `None` of one recording each.
    pub time_error: Option<f64>,
    /// True if what was reached is in the promised interval, or its error reaches there; `None` where one is not known.
    pub time_kept: Option<bool>,
    /// Promised remote part of the accesses to memory, 0..1.
    pub remote: f64,
    /// Remote part of the accesses of B; `None` where no page's node is known.
    pub remote_reached: Option<f64>,
}

/// One of the two recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first.
    #[default]
    A,
    /// The second.
    B,
}

/// One of the recordings, and the run that it is of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Its folder, as it was named on the command line.
    pub path: String,
    /// The recorded command line.
    pub command: Vec<String>,
    /// True if the recording was finished.
    pub complete: bool,
    /// Wall time of the program, seconds.
    pub wall_s: f64,
    /// Exit status of the program; `None` when the recording ended before it.
    pub exit: Option<i32>,
    /// Threads.
    pub threads: usize,
    /// NUMA nodes of the machine.
    pub nodes: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Host name.
    pub host: String,
    /// How it was sampled.
    pub sampler: Sampler,
    /// Samples taken in user code.
    pub samples: u64,
    /// Samples at data accesses.
    pub data_samples: u64,
    /// Samples that belong to an object.
    pub attributed: u64,
    /// The others, by reason.
    pub unattributed: BTreeMap<String, u64>,
    /// Share of the cost of all data accesses that belongs to objects which the other recording has too.
    pub matched_cost: f64,
    /// The same of accesses.
    pub matched_accesses: f64,
    /// Losses of it.
    pub losses: Vec<Loss>,
}

/// Numbers that can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparable {
    /// Time: both were measured in the same way.
    pub cost: bool,
    /// Shares of the accesses.
    pub accesses: bool,
    /// Numbers of accesses: both count in the same unit.
    pub counts: bool,
    /// Remote accesses: both machines have several nodes.
    pub remote: bool,
    /// Pages.
    pub pages: bool,
}

/// Something that a reader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Name.
    pub kind: String,
    /// In a sentence.
    pub text: String,
}

/// A number in both recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// In the first.
    pub a: f64,
    /// In the second.
    pub b: f64,
}

/// A whole number in both recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// In the first.
    pub a: u64,
    /// In the second.
    pub b: u64,
}

/// A number in both recordings, and how it differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// In the first.
    pub a: f64,
    /// Error of `a`.
    pub a_error: Option<f64>,
    /// In the second.
    pub b: f64,
    /// Error of `b`.
    pub b_error: Option<f64>,
    /// `b - a`; `None` where the two cannot be compared.
    pub difference: Option<f64>,
    /// Error of the difference: of the samples, or of the spread between runs, whichever is larger.
    pub error: Option<f64>,
    /// True if the difference is beyond its error; `None` where that is not known: no error, or a time or a cost of one run
    /// each.
    pub significant: Option<bool>,
}

/// The runs as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalChange {
    /// Thread time of all data accesses, seconds.
    pub cost: Change,
    /// Wall time, seconds: measured, not sampled.
    pub wall: Pair,
    /// Wall time, with the error from the spread between runs.
    #[serde(default)]
    pub wall_time: Change,
    /// Share of remote accesses; `None` where one machine has one node.
    pub remote: Option<Change>,
}

/// How an object of one recording was found in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// By everything: name, call site, and its address in the module. The program is the same.
    #[default]
    Address,
    /// By name and source line, or by the name of a variable in its module. The program was built again.
    Line,
    /// By name, function and file, or by the name of a variable. The source was changed.
    Name,
    /// By function, file and line of the call. The variable was renamed.
    Site,
}

/// Pages on which both agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Pages of the reference that have an owner.
    pub reference: u64,
    /// Those of them that have an owner in the other recording too.
    pub answered: u64,
    /// Those of them that have the same.
    pub same: u64,
    /// Pages that have an owner in the other recording alone.
    pub beyond: u64,
    /// `answered / reference`; `None` without pages.
    pub coverage: Option<f64>,
    /// `same / answered`; `None` if nothing was answered.
    pub accuracy: Option<f64>,
    /// Half-width of the 95 % interval of `accuracy`, as if pages were drawn at random.
    pub accuracy_error: Option<f64>,
    /// `coverage` with each page weighted by its accesses in the reference.
    pub coverage_by_accesses: Option<f64>,
    /// `accuracy` weighted in the same way.
    pub accuracy_by_accesses: Option<f64>,
}

/// An object of both recordings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ObjectChange {
    /// Name, as the report of the first recording has it.
    pub name: String,
    /// `heap`, `static`, `mmap`, `stack`, `tls` or `annotated`.
    pub kind: String,
    /// Module (file name) that holds a static object, if any.
    pub module: Option<String>,
    /// Where it was allocated, in the first recording.
    pub site: Option<CallSite>,
    /// How it was found.
    pub matched: Matched,
    /// Instances that were live during the run.
    pub instances: Count,
    /// Bytes: of the largest instance.
    pub bytes: Count,
    /// Thread time.
    pub cost: CostChange,
    /// Estimated accesses.
    pub accesses: AccessChange,
    /// Share of its accesses that are remote; `None` where one machine has one node.
    pub remote: Option<Change>,
    /// Its pages by thread; `None` where pages cannot be compared.
    pub ownership: Option<Agreement>,
}

/// How the cost of an object differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostChange {
    /// Seconds of thread time.
    pub seconds: Change,
    /// Share of the cost of all data accesses.
    pub share: Change,
}

/// How the accesses of an object differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessChange {
    /// Share of all data accesses.
    pub share: Change,
    /// Reads, if they were counted one by one in both recordings.
    pub reads: Option<Pair>,
    /// Writes, likewise.
    pub writes: Option<Pair>,
    /// Basis of these numbers.
    #[serde(default)]
    pub basis: Bases,
}

impl AccessChange {
    /// True if the first number is more than a guess, and has an error: else no report states it.
    pub fn is_stated_in_a(&self) -> bool {
        !self.basis.is_cost_only_in_a() && self.share.a_error.is_some()
    }

    /// The same of the second one.
    pub fn is_stated_in_b(&self) -> bool {
        !self.basis.is_cost_only_in_b() && self.share.b_error.is_some()
    }

    /// True if both numbers are: else no report states a difference.
    pub fn is_stated(&self) -> bool {
        self.is_stated_in_a() && self.is_stated_in_b()
    }
}

/// The part (0..1) of the accesses whose number stands on more than the time that was spent, in each recording; `None` where
/// that is no question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bases {
    /// In the first.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
}

impl Bases {
    /// True if the first recording knows the cost alone.
    pub fn is_cost_only_in_a(&self) -> bool {
        crate::is_cost_only(self.a)
    }

    /// True if the second one does.
    pub fn is_cost_only_in_b(&self) -> bool {
        crate::is_cost_only(self.b)
    }
}

/// How an object was found, and which it is in the reports of the recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// By what.
    pub by: Match,
    /// Its id in the report of the first recording.
    pub a: usize,
    /// Its id in the report of the second one.
    pub b: usize,
}

/// An object of one recording alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unmatched {
    /// Its id in the report of the recording.
    pub id: usize,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Where it was allocated.
    pub site: Option<CallSite>,
    /// Thread time, and its share in its recording.
    pub cost: Cost,
    /// Estimated accesses, and their share in its recording.
    pub accesses: Accesses,
}

/// How far the recordings agree on the owners of pages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ownership {
    /// The recording that the other one is measured by.
    pub reference: Side,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Owner: the thread with most accesses.
    pub thread: Agreement,
    /// Owner: the node whose CPUs made most accesses; `None` where one machine has one node.
    pub node: Option<Agreement>,
    /// Objects of the reference whose pages are in none of this, by reason.
    pub uncompared: Vec<Uncompared>,
}

/// Objects whose pages cannot be found in the other recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uncompared {
    /// `small_instances`, `several_instances`, `of_a_thread` or `allocations_not_recorded`.
    pub reason: String,
    /// How many objects.
    pub objects: u64,
    /// Share of the cost of all data accesses of the reference that they have.
    #[serde(default)]
    pub cost_share: f64,
    /// Share of all data accesses of the reference that they have; `None` if that of one of them is not stated.
    pub access_share: Option<f64>,
}
