//! Sleeping until a writer needs room.
//!
//! ```text
//!   recorder                               writer
//!   bell = segment.bell()                  publishes; the ring is past half full (or rings run short)
//!   drains all rings                       doorbell += 1
//!   segment.wait(bell, timeout):           sleeping == 1 ?  -> sleeping = 0, wake
//!     sleeping = 1
//!     sleep unless doorbell != bell
//! ```
//! A ring of the bell after `segment.bell()` is never slept through: either the writer sees `sleeping`, or the kernel
//! sees the new doorbell.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::segment::Segment;

/// The doorbell as it was before the rings were drained. A proof that [`Segment::wait`] cannot miss a ring of the bell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bell(u32);

/// Why [`Segment::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A writer's ring is past half full, or free rings run short.
    Rung,
    /// Nothing happened, or a signal came.
    TimedOut,
}

impl Segment {
    /// Takes note of the doorbell. Call it before draining.
    pub fn bell(&self) -> Bell {
        Bell(self.header().doorbell.load(SeqCst))
    }

    /// Sleeps until the doorbell has been rung since `bell` was taken, at most `timeout`.
    pub fn wait(&self, bell: Bell, timeout: Duration) -> Woken {
        let header = self.header();
        header.sleeping.store(1, SeqCst);
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the futex word lives in the segment, mapped for as long as `self`; the kernel only reads it and the
        // timeout, which is on our stack for the length of the call.
        unsafe {
            libc::syscall(libc::SYS_futex, header.doorbell.as_ptr(), libc::FUTEX_WAIT, bell.0, &raw const timeout);
        }
        header.sleeping.store(0, SeqCst);
        if self.bell() == bell { Woken::TimedOut } else { Woken::Rung }
    }
}
