//! The kernel's perf events: opening them, and the rings that they write to. What the records mean is their reader's business.

pub mod arrivals;
pub mod attr;
pub mod probe;
pub mod ring;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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
