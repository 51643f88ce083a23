//! Why nothing can be measured.

use std::io;

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The kernel does not say where the process may run.
    #[error("cannot read the CPUs that this process may use: {0}")]
    Affinity(io::Error),
    /// None of the CPUs of this process is one that the kernel lists.
    #[error("none of the CPUs that this process may use is known to the kernel's list below /sys")]
    NoCpu,
    /// Memory cannot be had on any node.
    #[error("cannot place memory on node {node}: {source}; in a container, mbind needs --cap-add SYS_NICE")]
    Memory {
        /// The first node that was tried.
        node: u32,
        /// The kernel's answer.
        source: io::Error,
    },
}
