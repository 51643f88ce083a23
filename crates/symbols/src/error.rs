//! Why a file cannot be used as a module.
//!
//! Only opening can fail. Once a module is open, a damaged table reads as an empty one: what it would have named stays
//! unnamed, and the caller reports module and offset.

use std::io;
use std::path::PathBuf;

/// Why no [`Module`](crate::Module) could be made. Comparable, so that a caller can count samples by reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The file is gone, or its name never was a file (`[heap]`, `/memfd:x (deleted)`).
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// The file exists, and this user may not read it.
    #[error("{}: not readable by this user", .0.display())]
    Denied(PathBuf),
    /// A directory, a device, a pipe: nothing that could hold a program. Devices are never opened.
    #[error("{}: not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Any other failure to read, by its kind.
    #[error("{}: {kind}", .path.display())]
    Io {
        /// The file that was read.
        path: PathBuf,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// The first bytes are not those of an ELF file (a mapped data file, a font, a jar).
    #[error("{0}: not an ELF file")]
    NotElf(String),
    /// An ELF file of a form that is not read: 32-bit, or an unknown byte order.
    #[error("{name}: ELF {form} files are not supported")]
    Unsupported {
        /// The module's name.
        name: String,
        /// The form, such as `32-bit`.
        form: &'static str,
    },
    /// ELF, and its headers contradict the file (cut short, offsets beyond its end).
    #[error("{name}: damaged ELF file: {what}")]
    Damaged {
        /// The module's name.
        name: String,
        /// Which table could not be read.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn from_io(path: &std::path::Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing(path.into()),
            io::ErrorKind::PermissionDenied => Self::Denied(path.into()),
            kind => Self::Io { path: path.into(), kind },
        }
    }
}
