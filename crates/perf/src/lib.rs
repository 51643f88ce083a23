//! The kernel's perf events: opening them, and the rings that they write to. What the records mean is their reader's business.

pub mod arrivals;
pub mod attr;
pub mod probe;
pub mod ring;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// What an event has counted until now, in all threads that inherited it too.
///
/// # Errors
/// If it is none.
pub fn count(event: &impl AsRawFd) -> io::Result<u64> {
    let mut count = 0_u64;
    // SAFETY: reads eight bytes into a live u64; events of ours have no read format, so that is all there is.
    let read = unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    if read == 8 { Ok(count) } else { Err(io::Error::last_os_error()) }
}

/// The id that the kernel writes into the records of an event (and of those inherited from it).
///
/// # Errors
/// If it is none.
pub fn id(event: &OwnedFd) -> io::Result<u64> {
    const PERF_EVENT_IOC_ID: u64 = 0x8008_2407;
    let mut id = 0_u64;
    // SAFETY: the request writes one u64 through the pointer.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ID as _, &raw mut id) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}
