//! A word between threads that can be polled for.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An eventfd.
#[derive(Debug)]
pub struct Notice {
    fd: OwnedFd,
}

impl Notice {
    /// `None` if there is no descriptor left.
    pub fn new() -> Option<Self> {
        // SAFETY: a new descriptor that is ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        // SAFETY: as above.
        (fd >= 0).then(|| Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable.
    pub fn give(&self) {
        let one = 1_u64;
        // SAFETY: writes eight bytes from a live u64.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable again.
    pub fn take(&self) {
        let mut count = 0_u64;
        // SAFETY: reads eight bytes into a live u64; the descriptor does not block.
        unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for Notice {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
