//! Why a plan could not be applied.

use std::io;

use numamma_plan::PlanError;
use numamma_process::StartError;

/// The program did not run, or had to be ended.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The library that places cannot be put into the program.
    #[error("{0}")]
    Refused(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
}

impl ApplyError {
    /// Exit status: 127 command not found, 126 cannot be run, 125 a failure of our own.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Start(error) => error.exit_code(),
            _ => 125,
        }
    }
}
