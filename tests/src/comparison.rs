//! The JSON of `numamma compare`, as a script that relies on it would read it: not the project's own types, so that a field
//! that is renamed there fails here.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Run;

/// The comparison.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Comparison {
    pub version: u32,
    pub a: Recording,
    pub b: Recording,
    pub more_a: Vec<String>,
    pub more_b: Vec<String>,
    pub comparable: Comparable,
    pub notes: Vec<Note>,
    pub total: Total,
    pub objects: Vec<Object>,
    pub only_a: Vec<Unmatched>,
    pub only_b: Vec<Unmatched>,
    pub ownership: Option<Ownership>,
}

/// One of the recordings.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Recording {
    pub complete: bool,
    pub threads: usize,
    pub data_samples: u64,
    pub matched_cost: f64,
}

/// What can be compared.
#[derive(Debug, Deserialize, PartialEq)]
#[allow(missing_docs)]
pub struct Comparable {
    pub cost: bool,
    pub accesses: bool,
    pub counts: bool,
    pub remote: bool,
    pub pages: bool,
}

/// Something to know.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Note {
    pub kind: String,
    pub text: String,
}

/// A number in both.
#[derive(Clone, Copy, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Change {
    pub a: f64,
    pub a_error: Option<f64>,
    pub b: f64,
    pub b_error: Option<f64>,
    pub difference: Option<f64>,
    pub error: Option<f64>,
    pub significant: Option<bool>,
}

/// The runs as a whole.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Total {
    pub cost: Change,
    pub wall_time: Change,
    pub remote: Option<Change>,
}

/// An object of both.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Object {
    pub name: String,
    pub kind: String,
    pub matched: Matched,
    pub cost: Cost,
    pub accesses: Accesses,
    pub remote: Option<Change>,
    pub ownership: Option<Agreement>,
}

/// How it was found.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Matched {
    pub by: String,
    pub a: usize,
    pub b: usize,
}

/// Time.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Cost {
    pub seconds: Change,
    pub share: Change,
}

/// Counts.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Accesses {
    pub share: Change,
    pub basis: Bases,
}

/// The part of the counts that stands on more than time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Bases {
    pub a: Option<f64>,
    pub b: Option<f64>,
}

/// An object of one recording.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Unmatched {
    pub name: String,
    pub cost: crate::report::Cost,
    pub accesses: crate::report::Accesses,
}

/// Owners of pages.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Ownership {
    pub reference: String,
    pub thread: Agreement,
    pub node: Option<Agreement>,
    pub uncompared: Vec<Uncompared>,
}

/// Pages on which both agree.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[allow(missing_docs)]
pub struct Agreement {
    pub reference: u64,
    pub answered: u64,
    pub same: u64,
    pub beyond: u64,
    pub coverage: Option<f64>,
    pub accuracy: Option<f64>,
    pub coverage_by_accesses: Option<f64>,
    pub accuracy_by_accesses: Option<f64>,
}

/// Objects without pages.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Uncompared {
    pub reason: String,
    pub objects: u64,
}

impl Comparison {
    /// What `numamma compare A B OPTIONS --format json` writes.
    #[track_caller]
    pub fn of(a: &Path, b: &Path, options: &[&str]) -> Comparison {
        let outcome = Run::compare(a, b).args(["--format", "json"]).args(options).run().success();
        assert!(outcome.stderr.is_empty(), "{outcome}");
        serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome}"))
    }

    /// The same of several recordings of each.
    #[track_caller]
    pub fn of_runs(a: &[PathBuf], b: &[PathBuf]) -> Comparison {
        let outcome = Run::numamma().args(["compare", "--format", "json"]).args(a).arg("--").args(b).run().success();
        serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome}"))
    }

    /// The object of both with that name.
    #[track_caller]
    pub fn object(&self, name: &str) -> &Object {
        self.objects.iter().find(|object| object.name == name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The kinds of its notes.
    pub fn notes(&self) -> Vec<&str> {
        self.notes.iter().map(|note| note.kind.as_str()).collect()
    }

    /// Owners of pages, which are there if pages have one size.
    #[track_caller]
    pub fn pages(&self) -> &Ownership {
        self.ownership.as_ref().expect("pages of one size")
    }
}
