//! Why there is no report.

use std::io;

/// Why there is no report: one line each, with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// No object of that name.
    #[error("no object '{name}'{}", if near.is_empty() {
        "; `numamma report DIR` lists the objects".to_string()
    } else {
        format!("; nearest: {}", near.join(", "))
    })]
    NoObject {
        /// The name that was asked for.
        name: String,
        /// The most similar objects, best first.
        near: Vec<String>,
    },
    /// Several objects of that name.
    #[error("'{name}' fits {count} objects: {}{}; choose one with --object '#NUMBER'", candidates.join(", "),
        if *count > candidates.len() { ", ..." } else { "" })]
    AmbiguousObject {
        /// The name that was asked for.
        name: String,
        /// The first of them.
        candidates: Vec<String>,
        /// How many.
        count: usize,
    },
    /// No instance of that number.
    #[error("no instance {instance} of {object}, which has {}; --object without --instance lists them",
        if *count == 1 { "one, 0".to_string() } else { format!("{count}, 0 to {}", count.saturating_sub(1)) })]
    NoInstance {
        /// The name that was asked for.
        instance: u64,
        /// Name of the object.
        object: String,
        /// Instances that were touched.
        count: u64,
    },
    /// The findings do not carry pages.
    #[error("these findings carry no pages; analyse the recording again with the pages of the objects")]
    NoDetail,
    /// A combination that has no answer.
    #[error("{what}; {remedy}")]
    Unsupported {
        /// The part that cannot be shown.
        what: &'static str,
        /// An alternative that can be shown.
        remedy: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write the report: {0}")]
    Io(#[from] io::Error),
    /// The findings cannot be written as JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[source] serde_json::Error),
}

impl ReportError {
    /// True if the reader of the output went away (`numamma report DIR | head`): no reason to complain.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<serde_json::Error> for ReportError {
    /// Keeps a failing output apart from findings that JSON cannot hold.
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => Self::Io(io::Error::new(kind, error)),
            None => Self::Json(error),
        }
    }
}
