//! The bytes of a file, read piece by piece.
//!
//! Modules of 30 MB and debug files of gigabytes are common, and most questions need a few hundred kilobytes of them.
//! Reading pieces with `pread` needs no mapping: a file that is truncated under us gives an error, not a SIGBUS.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// What tells two versions of a file at one path apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub modified_ns: i128,
    pub length: u64,
}

impl Stamp {
    /// Of the file that `path` names now; follows links.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from_metadata(&std::fs::metadata(path)?))
    }

    fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            length: metadata.len(),
        }
    }
}

/// A file or a block of memory.
#[derive(Debug)]
pub(crate) enum Source {
    File { file: File, length: u64 },
    Bytes(Arc<[u8]>),
}

impl Source {
    /// Opens a regular file, and says which version of it. Devices and pipes are refused before they are opened:
    /// opening some has side effects, and a pipe would block.
    pub fn open(path: &Path) -> io::Result<Option<(Self, Stamp)>> {
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = OpenOptions::new().read(true).open(path)?;
        let metadata = file.metadata()?;
        let stamp = Stamp::from_metadata(&metadata);
        let source = Self::File { file, length: metadata.len() };
        Ok(metadata.is_file().then_some((source, stamp)))
    }

    /// Length in bytes when it was opened.
    pub fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The `size` bytes from `offset`; none when they are not all there. Checked against the length first, so that a
    /// damaged size costs no memory.
    pub fn read(&self, offset: u64, size: u64) -> Option<Arc<[u8]>> {
        let end = offset.checked_add(size)?;
        if end > self.length() {
            return None;
        }
        match self {
            Self::Bytes(bytes) => bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?).map(Arc::from),
            Self::File { file, .. } => {
                let mut buffer = vec![0; usize::try_from(size).ok()?];
                file.read_exact_at(&mut buffer, offset).ok()?;
                Some(buffer.into())
            }
        }
    }
}
