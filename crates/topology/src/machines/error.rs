//! What is wrong with a machine file, and where.

use std::io;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of the file, from 1; 0 where there is none to name.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

/// Why there is no model of a machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// It is neither the name of a shipped machine nor a file.
    #[error("{name}: no such machine; those that are shipped are {}, or name a file", names.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The machines there are.
        names: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read the machine file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the machine file {}: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It says something that cannot be meant.
    #[error("{}", render(path, faults))]
    Faulty {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in order of the lines.
        faults: Vec<Fault>,
    },
}

fn render(path: &Path, faults: &[Fault]) -> String {
    let lines = faults.iter().map(|fault| match fault.line {
        0 => format!("{}: {}", path.display(), fault.message),
        line => format!("{}:{line}: {}", path.display(), fault.message),
    });
    lines.collect::<Vec<_>>().join("\n")
}
