//! Why there is no prediction or no plan.

/// One clear line for each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdviseError {
    /// The recording does not say which accesses reach memory.
    #[error(
        "the recording does not tell which accesses reach memory: record with the clock sampler, or with --sampler exact --caches"
    )]
    MemoryUnknown,
    /// No access to memory was sampled.
    #[error(
        "no sample stands at a load that waited for memory: placement does not matter, or the run was too short; record for longer, or at a higher --rate"
    )]
    NoSamples,
    /// The machine cannot be computed with.
    #[error("machine {name}: {fault}")]
    Machine {
        /// The machine.
        name: String,
        /// The fault.
        fault: String,
    },
    /// A plan for a machine without a choice.
    #[error("machine {0} has one node with memory: every placement is the same; name another machine with --machine")]
    OneNode(String),
    /// Threads or pages of the recording lie on nodes that the machine does not have.
    #[error(
        "{what} of the recording is on node {node}, but machine {machine} has {nodes} nodes: choose compact or scatter threads"
    )]
    NoSuchNode {
        /// Thread or page.
        what: String,
        /// Node of the recording.
        node: usize,
        /// The machine.
        machine: String,
        /// Its nodes.
        nodes: usize,
    },
    /// Threads that moved between nodes cannot be placed as recorded.
    #[error(
        "thread {0} moved between nodes in the recording, so it cannot be placed as recorded: choose compact or scatter"
    )]
    Moved(usize),
    /// An option that cannot be meant.
    #[error("{0}")]
    Option(String),
}
