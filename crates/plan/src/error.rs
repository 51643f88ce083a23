//! Faults in plans, with their lines.

use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of the plan, from 1; 0 where there is none to name.
    pub line: usize,
    /// The fault and its remedy.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the plan {}: {source}", path.display())]
    Unreadable {
        /// Of the plan.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It says something that cannot be meant.
    #[error("{}", render(path, faults))]
    Faulty {
        /// Of the plan.
        path: PathBuf,
        /// All that is wrong, in order of the lines.
        faults: Vec<Fault>,
    },
}

fn render(path: &std::path::Path, faults: &[Fault]) -> String {
    let lines = faults.iter().map(|fault| match fault.line {
        0 => format!("{}: {}", path.display(), fault.message),
        line => format!("{}:{line}: {}", path.display(), fault.message),
    });
    lines.collect::<Vec<_>>().join("\n")
}
