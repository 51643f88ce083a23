//! Why a recording could not be made. Each is one line that says what to do.

use std::io;

use numamma_process::StartError;
use numamma_topology::Refusal;
use numamma_trace::TraceError;

use crate::exact::command::{EMULATOR, PACKAGE};

/// A recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program cannot be executed.
    #[error(transparent)]
    CannotRun(#[from] StartError),
    /// The kernel does not let us sample.
    #[error("sampling is not permitted: {}: {}", .0.reason, .0.remedy)]
    NotPermitted(Refusal),
    /// The limits leave no memory for rings.
    #[error(
        "no memory for the smallest rings of {cpus} CPUs ({source}): {limits}; raise one of them, or end other programs that sample"
    )]
    NoRings {
        /// The refusal.
        source: io::Error,
        /// CPUs, each with a ring.
        cpus: usize,
        /// The limits, each with its value.
        limits: String,
    },
    /// The kernel cannot sample.
    #[error("the kernel offers no clock sampling here ({0}); `numamma doctor` says what this machine has")]
    NoSampler(io::Error),
    /// Asked for a rate that the kernel refuses.
    #[error(
        "--rate {rate}: the kernel allows at most {max} samples a second; raise kernel.perf_event_max_sample_rate or lower --rate"
    )]
    RateTooHigh {
        /// What was asked for, Hz.
        rate: f64,
        /// What is allowed, Hz.
        max: u64,
    },
    /// Asked for samples inside a function that nothing finds.
    #[error("--in {asked}: {why}")]
    NoFunction {
        /// What was asked for.
        asked: String,
        /// Why not.
        why: String,
    },
    /// The kernel does not let us watch functions, or cannot.
    #[error("--in: {0}")]
    NoProbes(String),
    /// A processor that this version cannot sample.
    #[error("the clock sampler knows x86-64 only; this is {0}")]
    Architecture(String),
    /// The emulator that counts accesses is not installed.
    #[error("--sampler exact needs {}: install the package {} (`sudo apt-get install {}`)", EMULATOR, PACKAGE, PACKAGE)]
    NoEmulator,
    /// The emulator cannot run the program, or could not.
    #[error("--sampler exact: {0}")]
    Emulation(String),
    /// The dataset could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Anything else the operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
}

impl RecordError {
    /// Exit status: 127 command not found, 126 cannot be run, 125 a failure of our own.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::CannotRun(error) => error.exit_code(),
            _ => 125,
        }
    }

    /// For `map_err` on system calls.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
