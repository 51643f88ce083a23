//! What can go wrong with a dataset, each with what to do about it.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A dataset could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The directory is not there or is not a dataset.
    #[error("{}: {}; `numamma record -- COMMAND` makes a recording", .0.display(), absence(.0))]
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
    #[error("{}: damaged ({why}); record again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reader's words.
        why: String,
    },
    /// The writer was told to stop.
    #[error("stopped while it was written")]
    Stopped,
    /// There is no room for the file.
    #[error("disk full: {} ({source}); free space there, or choose another folder (-o)", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
    },
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
        move |source| match is_full(&source) {
            true => Self::DiskFull { path, source },
            false => Self::Io { path, source },
        }
    }

    /// For failures of a library that writes, which have the operating system's as their cause if it refused.
    pub(crate) fn writing(path: impl Into<PathBuf>, error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(number) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
                return Self::io(path)(std::io::Error::from_raw_os_error(number));
            }
            cause = error.source();
        }
        Self::io(path)(std::io::Error::other(error.to_string()))
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>) -> impl FnOnce(String) -> Self {
        let path = path.into();
        move |why| Self::Damaged { path, why: why.lines().next().unwrap_or_default().to_owned() }
    }
}

/// What is there in place of a recording.
fn absence(path: &Path) -> &'static str {
    if !path.exists() {
        "not there"
    } else if path.is_dir() {
        "not a NumaMMA recording (it has no meta.json)"
    } else {
        "not a NumaMMA recording, which is a folder"
    }
}

/// True if there is no room: on the disk, within a quota, or within the limit on the size of files.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
