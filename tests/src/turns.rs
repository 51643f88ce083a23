//! One measurement at a time.
//!
//! Two workloads with two threads each on two cores disturb each other's shares and timings, and the test runner starts as
//! many tests as there are cores. A lock in a file, not a mutex, because several test programs may run at once.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The machine, alone or in company, until dropped.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

/// Waits until nothing else runs: for what is measured.
pub fn alone() -> Turn {
    Turn { _lock: locked(&crate::build::scratch().join("turns.lock"), libc::LOCK_EX) }
}

/// Waits until nothing is being measured: for what may run beside its like.
pub fn together() -> Turn {
    Turn { _lock: locked(&crate::build::scratch().join("turns.lock"), libc::LOCK_SH) }
}

/// The file at `path` with a lock that ends when it is dropped, or with this program.
pub fn locked(path: &Path, how: i32) -> File {
    let file = File::options().create(true).truncate(false).write(true).read(true).open(path);
    let file = file.unwrap_or_else(|e| panic!("the lock {}: {e}", path.display()));
    // SAFETY: flock takes a descriptor, which `file` keeps open, and a number.
    while unsafe { libc::flock(file.as_raw_fd(), how) } != 0 {
        let error = std::io::Error::last_os_error();
        assert!(error.kind() == std::io::ErrorKind::Interrupted, "the lock {}: {error}", path.display());
    }
    file
}
