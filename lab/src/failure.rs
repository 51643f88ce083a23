//! Why there is no status of the command.

use std::io;
use std::path::Path;

/// What went wrong, and which status says so.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command took longer than it may.
    #[error("the command has not ended after {0} s (--timeout)")]
    Timeout(u64),
    /// Somebody wants us to end.
    #[error("ended by signal {0}")]
    Signal(i32),
    /// The lab itself cannot; the text says what to do.
    #[error("{0}")]
    Lab(String),
}

impl Failure {
    /// As a shell has it.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Timeout(_) => 124,
            Failure::Signal(signal) => 128u8.wrapping_add(*signal as u8),
            Failure::Lab(_) => 125,
        }
    }
}

/// For `map_err`: what was done to which file.
pub fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Lab(format!("cannot {what} {path}: {error}"))
}

/// A failure of the lab itself.
pub fn lab<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Lab(text.into()))
}
