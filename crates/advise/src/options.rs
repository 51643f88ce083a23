//! Options of a prediction or a plan.

use numamma_topology::MachineModel;

use crate::calibrate::Calibration;

/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

/// The question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Where threads run.
    pub threads: ThreadPlacement,
    /// Pages that memory has on the machine.
    pub pages: Pages,
    /// How the node of a page or a run of pages is chosen from its users.
    pub affinity: Affinity,
    /// The machine of the recording, if it is known: what loads waited there is divided by its latencies.
    pub recorded: Option<MachineModel>,
    /// Time that is not known from the recording, from a measured run.
    pub calibration: Option<Calibration>,
    /// Number of threads to predict for, if it is not that of the recording.
    pub thread_count: Option<usize>,
    /// A plan to predict beside the usual placements.
    pub plan: Option<numamma_plan::Plan>,
}

/// Where threads run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThreadPlacement {
    /// For a prediction `Compact`; for a plan the better one of `Compact` and `Scatter`.
    #[default]
    Best,
    /// Node by node.
    Compact,
    /// From node to node in turn.
    Scatter,
    /// As in the recording.
    AsRecorded,
    /// The node of each thread, in order of creation, and again from the first.
    Nodes(Vec<usize>),
}

impl ThreadPlacement {
    /// Name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Compact => "compact",
            Self::Scatter => "scatter",
            Self::AsRecorded => "as recorded",
            Self::Nodes(_) => "list",
        }
    }
}

/// Size of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Those of the recording.
    #[default]
    Small,
    /// 2 MiB, transparent or asked for: such a page takes the node of its first toucher.
    Huge,
}

/// How the node of a page is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// The node whose CPUs access it most.
    #[default]
    MostAccesses,
    /// The node with the least sum of latencies.
    LeastCost,
}
