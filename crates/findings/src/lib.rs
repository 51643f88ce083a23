//! Results of the analysis of a recording: the only input of reports and views.
//!
//! The types below are the JSON report, field for field (`docs/REPORT.md` documents it). Within [`VERSION`] fields are
//! added, never renamed or removed. Shares are 0..1 of all data accesses (or of all cost) of the run; every `error` is the
//! half-width of a 95 % confidence interval in the unit of the value beside it, or `None` where there is no basis for one.
#![forbid(unsafe_code)]

mod accesses;
mod comparison;
mod for_comparison;
mod memory;
mod placement;
mod placement_page;
mod prediction;
mod statistics;
mod usage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use accesses::Accesses;
pub use comparison::{
    AccessChange, Agreement, Bases, COMPARISON_VERSION, Change, Comparable, Comparison, CostChange, Count, Match,
    Matched, Note, ObjectChange, Ownership, Pair, Promise, Recording, Side, TotalChange, Uncompared, Unmatched,
};
pub use for_comparison::{ForComparison, Identity, NoPages, ObjectForComparison, OwnedPage, RemoteSamples};
pub use memory::MemoryAccesses;
pub use placement::{LineToChange, ObjectAdvice, PlanFindings, PolicyCost, Verdict};
pub use placement_page::{
    Commands, LoadedLatency, MachinePicture, PageNodes, PlacementAdvice, PlacementMap, PlacementPage, ThreadNodes,
};
pub use prediction::{LinkLoad, NodeLoad, Prediction, Predictions, Uncertainty};
pub use statistics::share_error;
pub use usage::{InstanceUse, MemorySource, ObjectUse, PageThreadUse, PageUse, PhaseUse, ThreadUse, Usage};

/// Version of the JSON report.
pub const VERSION: u32 = 1;

/// Version of the JSON of plans and predictions.
pub const PLACEMENT_VERSION: u32 = 1;

/// Everything that a report or a view shows of one recording.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// [`VERSION`].
    pub version: u32,
    /// The recorded run.
    pub run: Run,
    /// How it was sampled.
    pub sampler: Sampler,
    /// Fate of the samples.
    pub samples: Samples,
    /// Everything that is missing from the recording, by name.
    pub losses: Vec<Loss>,
    /// Objects, grouped by call site (heap, mmap) or variable; highest cost first.
    pub objects: Vec<Object>,
    /// Threads in creation order; 0 is the main thread of the first process.
    pub threads: Vec<Thread>,
    /// Source lines that access memory, highest cost first.
    pub lines: Vec<Line>,
    /// Allocation call sites, also those whose objects were never sampled; most bytes first.
    pub sites: Vec<Site>,
    /// Processes in the order in which they appeared.
    pub processes: Vec<Process>,
    /// Tables of the recording that could not be read, and what is not known without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingTable>,
    /// Time that threads spent in loops that wait for another thread, which is in no other share; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// A table of the recording that is missing or damaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissingTable {
    /// Its name.
    pub table: String,
    /// Facts that cannot be shown without it.
    pub unknown: String,
}

/// Time spent in spin loops.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Waiting {
    /// Thread time.
    pub seconds: f64,
    /// Share of the time of all threads, 0..1.
    pub share: f64,
    /// By thread and place, longest first.
    pub places: Vec<WaitingPlace>,
}

/// Time that one thread spent in one spin loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingPlace {
    /// Thread number.
    pub thread: usize,
    /// Function of the loop.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Thread time.
    pub seconds: f64,
    /// Share of the thread's own time, 0..1.
    pub share: f64,
}

/// The recorded run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    pub command: Vec<String>,
    /// Wall time of the program, seconds.
    pub wall_s: f64,
    /// Threads that were seen.
    pub threads: usize,
    /// Exit status of the program: its code, or 128 + signal. `None` when the recording ended before the program.
    pub exit: Option<i32>,
    /// NUMA nodes of the machine.
    pub nodes: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Host name.
    pub host: String,
    /// Start of the recording, seconds since 1970.
    pub started_unix_s: f64,
    /// Bytes of a page of the machine.
    pub page_bytes: u64,
    /// True if allocations were recorded; else memory of the heap is one object, or a few.
    pub heap_tracked: bool,
}

/// How the run was sampled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sampler {
    /// `clock`, `pebs`, `ibs`, `spe`, `exact` or `import`.
    pub kind: String,
    /// Samples per second of thread time.
    pub rate_hz: f64,
    /// Nanoseconds (clock) or events (hardware) between two samples of a thread.
    pub period: u64,
    /// Share of the threads' time that recording cost: the sum of [`Overhead`], or where that was not measured an estimate from the tick
    /// cost at the start.
    pub overhead_estimate: f64,
    /// Cost of recording, by part; none if that was not measured.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// `read` or `write` if only samples of such accesses were kept.
    pub only: Option<String>,
    /// True if accesses were counted by the program's own hooks: those of code that was compiled without are in no number.
    #[serde(default)]
    pub hooks: bool,
    /// Which part of the run was sampled: shares are of that.
    #[serde(default)]
    pub controls: Controls,
    /// Moments for which threads were followed; none if that was not asked for.
    #[serde(default)]
    pub trace_windows: Option<TraceWindows>,
    /// Accesses that were traced one by one; none if that was not asked for.
    #[serde(default)]
    pub trace: Option<Trace>,
    /// The caches of the model that says which accesses reach memory, in the form of `--caches`; none if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<String>,
}

/// Cost of recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Seconds that threads ran while they were sampled, with what recording took of it.
    pub thread_s: f64,
    /// Seconds that interrupts for samples took.
    pub ticks_s: f64,
    /// Seconds that threads were stopped for.
    pub held_s: f64,
    /// Seconds in the library that tracks allocations.
    pub hooks_s: f64,
    /// Seconds of CPU time that the recorder had until the program ended.
    pub recorder_s: f64,
}

/// The part of a run whose accesses were traced one by one: table `trace` of the dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Most accesses that were wanted.
    pub most: u64,
    /// Accesses that were traced, of all threads.
    pub accesses: u64,
    /// True if as many were made as were wanted: there may have been more.
    pub used_up: bool,
    /// Seconds from the start to when the first was wanted.
    pub after_s: f64,
    /// Seconds from there to when no more were wanted; `None`: to the end.
    pub for_s: Option<f64>,
}

/// Moments for which threads were followed instruction by instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceWindows {
    /// How many.
    pub taken: u64,
    /// Instructions in all of them.
    pub instructions: u64,
    /// Seconds that threads were stopped for, in all.
    pub stopped_s: f64,
    /// True if nothing told how fast instructions were executed: numbers of accesses are ratios, of code that runs together.
    pub assumed: bool,
    /// Numbers of accesses that trace windows tell of may be so many times too small, or too large (95 %): it is not known well how fast code was executed.
    pub factor: Option<f64>,
}

/// Which part of a run was sampled, and how densely in the end. All of it, unless asked otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Seconds from the start to the first sample.
    pub after_s: f64,
    /// Seconds from there to the last; `None`: to the end.
    pub for_s: Option<f64>,
    /// True if samples were only taken where the program said that they are wanted.
    pub marked: bool,
    /// Functions inside which samples were taken; none: everywhere.
    #[serde(rename = "in")]
    pub functions: Vec<String>,
    /// Names of the objects whose samples were kept; none, and no ranges: all.
    pub objects: Vec<String>,
    /// Address ranges whose samples were kept, in hexadecimal, `LOW-HIGH`.
    pub ranges: Vec<String>,
    /// Samples left out because they are at none of these objects and ranges.
    pub left_out: u64,
    /// How many samples each one stands for: a power of two.
    pub thinned: u64,
}

impl Controls {
    /// True if shares are of less than the whole run.
    pub fn is_part(&self) -> bool {
        let thinned = self.thinned;
        *self != Self { thinned, ..Self::default() }
    }
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            after_s: 0.0,
            for_s: None,
            marked: false,
            functions: Vec::new(),
            objects: Vec::new(),
            ranges: Vec::new(),
            left_out: 0,
            thinned: 1,
        }
    }
}

/// Fate of the samples.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Samples taken in user code.
    pub recorded: u64,
    /// Samples whose data address belongs to an object.
    pub attributed: u64,
    /// The others, by reason; their sum and `attributed` make `recorded`.
    pub unattributed: BTreeMap<String, u64>,
    /// Samples that are no data access of the program's: part of `unattributed`, under the reasons [`WITHOUT_ACCESS`].
    pub without_access: u64,
}

/// Reasons of samples that stand for no data access: no instruction near the sample accesses memory, or the thread was
/// waiting in a spin loop (`pause`) for another one.
pub const WITHOUT_ACCESS: [&str; 3] = ["no_memory_access", "spin_wait", "recorder"];

/// One kind of loss.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Loss {
    /// Name of the kind.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The change that avoids it.
    pub remedy: String,
}

/// A group of data objects that one call site or one variable stands for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Object {
    /// Number within the report.
    pub id: usize,
    /// The variable, or the one that the pointer was stored in; else `function file:line` of the call site. No two objects
    /// share a name.
    pub name: String,
    /// `heap`, `static`, `mmap`, `stack`, `tls` or `annotated`.
    pub kind: String,
    /// Module (file name) that holds a static object, if any.
    pub module: Option<String>,
    /// Where it was allocated (heap, mmap).
    pub site: Option<CallSite>,
    /// Instances seen live during the run.
    pub instances: u64,
    /// Bytes: the largest instance if there are several.
    pub bytes: u64,
    /// Distinct pages of its instances that were accessed or first touched.
    pub pages: u64,
    /// Samples blamed on it.
    pub samples: u64,
    /// Time spent waiting for it.
    pub cost: Cost,
    /// How often it was accessed.
    pub accesses: Accesses,
    /// How many of these accesses reach memory, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryAccesses>,
    /// Accesses from another node than the page's.
    pub remote: Remote,
    /// Threads that accessed it, highest cost first.
    pub threads: Vec<ThreadShare>,
    /// Threads that touched its pages first, most pages first.
    pub first_touch: Vec<FirstTouch>,
    /// How its threads share it; of several instances, how they share most of them.
    pub pattern: Pattern,
    /// Of several instances: how many of them its threads share in which way, most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instance_patterns: Vec<InstancePattern>,
    /// The advice, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Cache lines of it that several threads use, if that costs a twentieth of the run or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_sharing: Option<LineSharing>,
    /// Pages on each node, where known: node -> pages.
    pub nodes: BTreeMap<i32, u64>,
    /// Pages in detail; only filled for objects that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// Where an object was allocated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallSite {
    /// Function of the frame that stands for the site.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Allocator wrapper that the function called, empty if none.
    pub via: String,
    /// Whole stack, innermost first: `function file:line` or `module+offset`.
    pub stack: Vec<String>,
}

/// Time that samples stand for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds of thread time.
    pub seconds: f64,
    /// Share of the cost of all data accesses.
    pub share: f64,
    /// Half-width of the 95 % interval of `share`.
    pub error: Option<f64>,
}

/// True if a count of which that part has a basis is hardly more than a guess, so that no report states it.
pub(crate) fn is_cost_only(basis: Option<f64>) -> bool {
    basis.is_some_and(|basis| basis < 0.5)
}

/// Accesses from a CPU of one node to a page of another.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Remote {
    /// Remote reads; `None` where the number of the object's accesses is not stated.
    pub reads: Option<f64>,
    /// Remote writes, likewise.
    pub writes: Option<f64>,
    /// Share of this object's accesses whose page's node is known.
    pub share: f64,
    /// Half-width of the 95 % interval of `share`; `None` where no page's node is known.
    #[serde(default)]
    pub error: Option<f64>,
}

/// One thread's part of an object.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ThreadShare {
    /// Thread number.
    pub thread: usize,
    /// Share of the object's cost.
    pub cost_share: f64,
    /// Share of the object's accesses; `None` where they were not counted one by one: the error of an estimate is not known by thread.
    pub access_share: Option<f64>,
    /// Half-width of the 95 % interval of `cost_share`.
    pub error: Option<f64>,
}

/// Pages that one thread touched first at one source line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FirstTouch {
    /// Thread number.
    pub thread: usize,
    /// Function that touched.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Function of a run-time library that it called to do so, such as `memset`; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub via: String,
    /// Pages.
    pub pages: u64,
    /// True if that was when another object lay there: these pages were recycled.
    #[serde(default)]
    pub recycled: bool,
}

/// How the threads share an instance of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// `private` (each instance has one thread), `block` (one contiguous range per thread), `block-cyclic`, `shared` (a page
    /// has no more of one thread than the whole), `mixed` (a page has a main thread, or instances differ), or `unknown`
    /// (the samples do not tell).
    pub kind: String,
    /// Bytes of one contiguous block of one thread; 0 if it has none.
    pub block_bytes: u64,
    /// Bytes after which the sequence of owners repeats; 0 if it does not.
    pub period_bytes: u64,
    /// Share of the samples that agree with the pattern; of `shared`: how close each page is to the mixture of the whole;
    /// of `mixed`: [`Self::main_share`].
    pub confidence: f64,
    /// Samples that it was judged by: interrupts that show an access to it, each once.
    #[serde(default)]
    pub samples: u64,
    /// Share that the main thread of a page has of the page's samples; 0 if that cannot be told.
    #[serde(default)]
    pub main_share: f64,
    /// Of `unknown`: about how many samples would tell.
    #[serde(default)]
    pub samples_needed: Option<u64>,
}

/// Instances of an object that threads share in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstancePattern {
    /// As [`Pattern::kind`].
    pub kind: String,
    /// How many instances.
    pub instances: u64,
    /// Main threads of these instances.
    pub threads: u64,
    /// Bytes of a block, if it is about the same in all; else 0.
    pub block_bytes: u64,
    /// Share of the object's samples that these instances have.
    pub share: f64,
}

/// Advice about an object that lies where one thread touched it first, and that others use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// `initialise-in-parallel`, `initialise-in-user`, `allocate-in-user`, `interleave` or `plan`.
    pub kind: String,
    /// One sentence for people.
    pub text: String,
    /// Thread that touched most of the pages which others use.
    pub thread: usize,
    /// Function where it did; empty if unknown.
    pub function: String,
    /// Source file of the line to change, empty if unknown.
    pub file: String,
    /// Line to change, 0 if unknown.
    pub line: u32,
    /// Share of the object's samples that are at pages which another thread touched first.
    pub share: f64,
}

/// Cache lines that several threads use at the same time, at least one of them writing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineSharing {
    /// `false-sharing` (each thread uses its own bytes) or `contended` (the same ones).
    pub kind: String,
    /// How many lines.
    pub lines: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Threads that use them; those that come one after the other count once.
    pub threads: usize,
    /// Those of them that write.
    pub writers: usize,
    /// Share of the cost of the run that these lines have.
    pub cost_share: f64,
    /// One sentence for people.
    pub text: String,
}

/// Pages and samples over time of one object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Detail {
    /// Bytes of a page in `pages`.
    pub page_bytes: u64,
    /// Unit that `Page::page` counts: `offset` (from the first page of the one instance), `instances` (the pages of all
    /// instances, one instance behind the other, oldest first) or `address` (the distinct pages of many small instances, in
    /// ascending order of address).
    pub page_basis: String,
    /// Instances that were touched, oldest first; of many, those with most samples.
    #[serde(default)]
    pub instances: Vec<Instance>,
    /// How many instances were touched.
    #[serde(default)]
    pub instances_of: u64,
    /// Pages that were sampled or first touched, ascending.
    pub pages: Vec<Page>,
    /// Accesses over time that samples show: a picture's worth of points, drawn evenly from all. A sample shows the accesses of its block.
    pub points: Vec<Point>,
    /// How many accesses `points` was drawn from.
    pub points_of: u64,
    /// Bytes that one unit of `Point::offset` spans is 1; the largest offset that can occur.
    pub span_bytes: u64,
}

/// One instance of an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Instance {
    /// Number among the touched instances, by age.
    pub instance: u64,
    /// Kernel's id of its process.
    pub pid: i32,
    /// Bytes.
    pub bytes: u64,
    /// Number of its first page, if its pages are told apart from those of others; see [`Detail::page_basis`].
    pub first_page: Option<u64>,
    /// Pages from its first to its last.
    pub pages: u64,
    /// Seconds since the start of the recording at which it came to be.
    pub start_s: f64,
    /// Seconds since the start of the recording at which it ended; `None` if it outlived the recording.
    pub end_s: Option<f64>,
    /// Samples in it.
    pub samples: u64,
    /// Time spent waiting for it, seconds.
    pub cost_s: f64,
    /// Threads that accessed it, highest cost first; shares of this instance.
    pub threads: Vec<ThreadShare>,
    /// Threads that touched its pages first, most pages first.
    pub first_touch: Vec<FirstTouch>,
    /// How its threads share it.
    pub pattern: Pattern,
}

/// One page of an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// Number of the page, see [`Detail::page_basis`].
    pub page: u64,
    /// Instance that the page is of, if the object has several and they are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u64>,
    /// Node where it lies, if known.
    pub node: Option<i32>,
    /// Thread with most accesses; `None` when only the first touch is known.
    pub owner: Option<usize>,
    /// Samples in the page.
    pub samples: u64,
    /// By thread number: of counts, the accesses; else weights that compare the threads of this page, and nothing else.
    pub by_thread: BTreeMap<usize, f64>,
    /// By thread number: cost, seconds; empty where accesses were counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cost_by_thread: BTreeMap<usize, f64>,
    /// Accesses that reach memory, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// Thread that touched it first, if seen.
    pub first_touch_thread: Option<usize>,
}

/// One sample of an object.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the start of the recording.
    pub t: f64,
    /// Bytes from the start of the object (basis `offset`) or `page * page_bytes + offset in page` (basis `address`).
    pub offset: u64,
    /// Thread number.
    pub thread: usize,
    /// True if it is a write.
    pub write: bool,
}

/// One thread of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Thread {
    /// Number, in creation order.
    pub thread: usize,
    /// Kernel's thread id.
    pub tid: i32,
    /// Kernel's process id.
    pub pid: i32,
    /// Name, as the kernel knows it.
    pub name: String,
    /// Seconds since the start of the recording.
    pub start_s: f64,
    /// Seconds since the start of the recording, `None` if it outlived it.
    pub end_s: Option<f64>,
    /// Samples taken in it.
    pub samples: u64,
    /// Cost of its data accesses, seconds.
    pub cost_s: f64,
    /// Half-width of the 95 % interval of its share of the cost of all threads.
    #[serde(default)]
    pub cost_error: Option<f64>,
    /// Reads, if they were counted one by one.
    pub reads: Option<f64>,
    /// Writes, likewise.
    pub writes: Option<f64>,
    /// Accesses that reach memory, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// CPUs it ran on when sampled: cpu -> samples.
    pub cpus: BTreeMap<i32, u64>,
}

/// One source line (or, without lines, one function or `module+offset`) that accesses memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// Function, innermost inlined one.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Line, 0 if unknown.
    pub line: u32,
    /// Module (file name).
    pub module: String,
    /// Cost in seconds and share.
    pub cost: Cost,
    /// Estimated accesses.
    pub accesses: Accesses,
    /// Objects it accesses, by id, highest cost first, at most 5.
    pub objects: Vec<usize>,
}

/// One allocation call site.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Site {
    /// `heap` or `mmap`.
    pub kind: String,
    /// The call site.
    pub site: CallSite,
    /// Allocations.
    pub count: u64,
    /// Bytes over all allocations.
    pub bytes: u64,
    /// Allocations released.
    pub freed: u64,
    /// Most bytes live at once. Call stacks that share the site are added up as if their peaks came together: an upper
    /// bound.
    pub peak_bytes: u64,
    /// Variable that the pointer was stored in, if known.
    pub variable: Option<String>,
    /// How long the released ones lived; `None` if none was released.
    pub lifetime: Option<Lifetime>,
    /// Pages of its objects on each node, of those that were sampled and whose node is known: node -> pages.
    pub nodes: BTreeMap<i32, u64>,
    /// Id of the object in [`Findings::objects`], if any instance was sampled.
    pub object: Option<usize>,
}

/// Times from allocation to release, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Shortest.
    pub min_s: f64,
    /// Mean.
    pub mean_s: f64,
    /// Longest.
    pub max_s: f64,
}

/// One process of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Kernel's process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent: i32,
    /// Name or path of the executable.
    pub command: String,
    /// True if its allocations were seen (the library was loaded).
    pub tracked: bool,
    /// Samples taken in it.
    pub samples: u64,
}
