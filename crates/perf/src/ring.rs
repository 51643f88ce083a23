//! The kernel's ring buffer of one CPU: bytes, no meaning.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A mapped ring and the event that feeds it.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    base: *mut u8,
    page: usize,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel's side is synchronised by the head and tail words.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `size` data bytes (a power of two of pages) for the event `fd`.
    ///
    /// # Errors
    /// If the kernel refuses it; the event comes back with the reason.
    pub fn map(fd: OwnedFd, size: usize) -> Result<Self, (io::Error, OwnedFd)> {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                page + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err((io::Error::last_os_error(), fd));
        }
        Ok(Self { fd, base: base.cast(), page, size })
    }

    /// Descriptor to poll on.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// What its event has counted, in all threads that inherited it too.
    pub fn count(&self) -> u64 {
        // It is an event, so this cannot fail.
        super::count(&self.fd).unwrap_or(0)
    }

    /// Sends the records of another event of the same CPU into this ring.
    ///
    /// # Errors
    /// If it is no event, or of another CPU.
    pub fn redirect(&self, other: &OwnedFd) -> io::Result<()> {
        const PERF_EVENT_IOC_SET_OUTPUT: u64 = 0x2405;
        // SAFETY: both are open perf events; the request takes a descriptor by value.
        let done = unsafe { libc::ioctl(other.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT as _, self.fd.as_raw_fd()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Switches the event on or off, in all threads that inherited it too.
    pub fn enable(&self, on: bool) {
        // It is an event, so this cannot fail.
        let _ = super::attr::enable(&self.fd, on);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset lies in the control page, is 8-aligned, and the kernel uses the word atomically.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }

    /// Appends the unread bytes to `bytes` and frees their room.
    pub fn drain(&mut self, bytes: &mut Vec<u8>) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let unread = (head.wrapping_sub(tail) as usize).min(self.size);
        let from = tail as usize & (self.size - 1);
        let first = unread.min(self.size - from);
        // SAFETY: [page, page + size) is the data area; the kernel does not write between tail and head, and the
        // acquire load above orders our reads after its writes.
        unsafe {
            let data = self.base.add(self.page);
            bytes.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            bytes.extend_from_slice(std::slice::from_raw_parts(data, unread - first));
        }
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what map() mapped; no reference into it outlives self.
        unsafe { libc::munmap(self.base.cast(), self.page + self.size) };
    }
}
