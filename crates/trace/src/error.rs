//! What can go wrong with a dataset, each with what to do about it.

use std::path::PathBuf;

/// A dataset could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The directory is not there or is not a dataset.
    #[error("{}: not a NumaMMA recording (no meta.json); make one with `numamma record -o {} -- COMMAND`", .0.display(), .0.display())]
    NotADataset(PathBuf),
    /// The output is already there.
    #[error("{}: already exists; choose another folder or add --force to replace it", .0.display())]
    Exists(PathBuf),
    /// Replacing something that is not a recording was asked for.
    #[error("{}: exists and is not a NumaMMA recording; not replaced, even with --force", .0.display())]
    NotOurs(PathBuf),
    /// Written by a newer version.
    #[error("{}: recorded in dataset format {found}, this numamma reads up to {known}; update numamma", path.display())]
    Newer {
        /// The dataset.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// A file is damaged.
    #[error("{}: damaged ({why}); record again, or delete this file to see what the rest says", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reader's words.
        why: String,
    },
    /// The writer was told to stop.
    #[error("stopped while it was written")]
    Stopped,
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
    },
}

impl TraceError {
    /// For `map_err` on operations on `path`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>) -> impl FnOnce(String) -> Self {
        let path = path.into();
        move |why| Self::Damaged { path, why: why.lines().next().unwrap_or_default().to_owned() }
    }
}
