//! The rules of the source tree. Each is a function from the tree to its faults.

mod arrows;
mod dataset;
mod docs;
mod hygiene;
mod machine_paths;
mod unsafety;

use std::fmt;

use crate::tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    path: String,
    line: usize,
    message: String,
}

impl Fault {
    /// `line` counts from 1; 0 is the whole file.
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// All faults, by file and line.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let rules = [arrows::check, unsafety::check, dataset::check, hygiene::check, docs::check, machine_paths::check];
    let mut faults: Vec<Fault> = rules.iter().flat_map(|rule| rule(tree)).collect();
    faults.sort();
    faults.dedup();
    faults
}

#[cfg(test)]
fn shown(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(Fault::to_string).collect()
}
