//! Input of a comparison with another recording, beside the [`crate::Findings`].
//!
//! Nothing in here depends on where the kernel put the program in memory: addresses are relative to modules, pages to
//! objects, threads are numbers.

use crate::CallSite;

/// Input of a comparison from one recording.
#[derive(Clone, Debug, Default)]
pub struct ForComparison {
    /// Samples taken in user code.
    pub recorded: u64,
    /// Samples at data accesses.
    pub data_samples: u64,
    /// Cost of all data accesses, seconds of thread time.
    pub data_cost_s: f64,
    /// Estimated accesses, in the unit of [`crate::Accesses`].
    pub data_accesses: f64,
    /// Program (file name) of each process, in the order in which they appeared.
    pub processes: Vec<String>,
    /// By thread, in the order of their creation: its process, as a position in `processes`.
    pub threads: Vec<usize>,
    /// By object, in the order of [`crate::Findings::objects`].
    pub objects: Vec<ObjectForComparison>,
}

/// Input of a comparison from one object.
#[derive(Clone, Debug)]
pub struct ObjectForComparison {
    /// How it is found in the other recording.
    pub identity: Identity,
    /// Accesses from another node, and what they are a share of.
    pub remote: RemoteSamples,
    /// Its pages that have an owner, ascending; or why its pages cannot be found in another recording.
    pub pages: Result<Vec<OwnedPage>, NoPages>,
}

/// Identity of an object.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Kind, as [`crate::Object::kind`].
    pub kind: String,
    /// Variable or region; empty if only the call site names it.
    pub name: String,
    /// File name of the module that holds the call or the variable; empty if there is none.
    pub module: String,
    /// Address of the call or the variable in that module, bytes; 0 if there is none.
    pub offset: i64,
    /// Where it was allocated.
    pub site: Option<CallSite>,
}

/// Accesses whose page's node and whose CPU's node are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteSamples {
    /// Those from another node than the page's.
    pub remote: f64,
    /// All of them, same unit.
    pub known: f64,
    /// Samples that they were seen in.
    pub samples: u64,
}

/// A page with its owners: the thread, and the node, with most accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnedPage {
    /// Number from the start of the object (of the instance, if it has several).
    pub page: u64,
    /// Thread with most accesses; the first of several with as many.
    pub thread: i32,
    /// Node whose CPUs made most accesses; `None` on a machine with one node, or where no CPU's node is known.
    pub node: Option<i32>,
    /// Estimated accesses.
    pub accesses: f64,
}

/// Why the pages of an object cannot be found in another recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoPages {
    /// Several instances smaller than a page: which of them share one is up to the allocator.
    SmallInstances,
    /// Nobody knows which of several instances is which in another run.
    SeveralInstances,
    /// A thread's stack or thread-local memory: its own, wherever it lies.
    OfThread,
    /// Mappings that nobody can tell apart, since allocations were not recorded.
    NotTracked,
}

impl NoPages {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::SmallInstances, Self::SeveralInstances, Self::OfThread, Self::NotTracked];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInstances => "small_instances",
            Self::SeveralInstances => "several_instances",
            Self::OfThread => "of_a_thread",
            Self::NotTracked => "allocations_not_recorded",
        }
    }
}
