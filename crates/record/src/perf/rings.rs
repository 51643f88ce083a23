//! The kernel's rings of all CPUs, which a thread of its own empties: while the recorder reads symbols or writes a part of the
//! dataset, a ring of 8 MiB is full after a fifth of a second of page faults.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use numamma_perf::ring::Ring;

use crate::notice::Notice;

/// Most bytes that may wait for the session, of all rings together. Beyond it the rings are left to fill, and the kernel counts
/// what does not fit: the recorder's memory must not grow without end.
const MOST_WAITING: usize = 256 << 20;

/// Room that an emptied buffer keeps.
const KEPT: usize = 1 << 20;

/// The rings, in order of their CPUs.
#[derive(Debug, Default)]
pub struct Rings {
    rings: Vec<Mutex<Buffered>>,
    /// Bytes in all buffers.
    waiting: AtomicUsize,
    done: AtomicBool,
}

/// A ring, and what was taken out of it already.
#[derive(Debug)]
struct Buffered {
    ring: Ring,
    bytes: Vec<u8>,
}

impl Rings {
    /// Adds the ring of the next CPU.
    pub fn push(&mut self, ring: Ring) {
        self.rings.push(Mutex::new(Buffered { ring, bytes: Vec::new() }));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rings.len()
    }

    /// Does something with each ring, in order.
    pub fn each<T>(&self, f: impl Fn(&Ring) -> T) -> impl Iterator<Item = T> {
        self.rings.iter().map(move |buffered| f(&locked(buffered).ring))
    }

    /// Sends the records of another event into ring `number`.
    ///
    /// # Errors
    /// See [`Ring::redirect`].
    pub fn redirect(&self, number: usize, other: &OwnedFd) -> io::Result<()> {
        locked(&self.rings[number]).ring.redirect(other)
    }

    /// Empties the rings whenever one has enough, until [`Self::stop`] and a notice on `wake`; `notify` is called when there is
    /// something to take.
    pub fn run(&self, wake: &Notice, notify: impl Fn()) {
        let fds = self.each(Ring::fd).chain([wake.as_raw_fd()]);
        let mut polled: Vec<libc::pollfd> =
            fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        while !self.done.load(Ordering::Acquire) {
            // SAFETY: `polled` is a live array of that many entries.
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, -1) };
            for entry in &mut polled {
                // An event whose tasks are all gone hangs up for ever; its ring is read to the end all the same.
                if entry.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                    entry.fd = -1;
                }
            }
            for buffered in &self.rings {
                if self.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
                    break;
                }
                let Buffered { ring, bytes } = &mut *locked(buffered);
                let before = bytes.len();
                ring.drain(bytes);
                self.waiting.fetch_add(bytes.len() - before, Ordering::Relaxed);
            }
            notify();
        }
    }

    /// Makes [`Self::run`] return.
    pub fn stop(&self, wake: &Notice) {
        self.done.store(true, Ordering::Release);
        wake.give();
    }

    /// Replaces `bytes` by everything that ring `number` had when this was called and that nobody has taken.
    pub fn take(&self, number: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        let mut buffered = locked(&self.rings[number]);
        std::mem::swap(&mut buffered.bytes, bytes);
        buffered.bytes.shrink_to(KEPT);
        self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        buffered.ring.drain(bytes);
    }
}

fn locked(buffered: &Mutex<Buffered>) -> MutexGuard<'_, Buffered> {
    buffered.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use numamma_perf::attr::{self, Attr};

    use super::*;

    const RING: usize = 16 << 10;
    const PAGE: usize = 4096;

    /// Faults of this thread, without privileges.
    fn faults() -> Ring {
        let event = Attr {
            kind: attr::TYPE_SOFTWARE,
            config: attr::SW_PAGE_FAULTS,
            sample_period: 1,
            sample_type: attr::SAMPLE_ADDR,
            flags: attr::EXCLUDE_KERNEL | attr::EXCLUDE_HV | attr::WATERMARK,
            wakeup: RING as u32 / 4,
            ..Attr::default()
        };
        Ring::map(attr::open(&event, 0, -1).expect("page faults may be counted"), RING).expect("a ring")
    }

    /// Touches so many pages for the first time.
    fn touch(pages: usize) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of small pages, written within its bounds and unmapped as it was mapped.
        unsafe {
            let memory =
                libc::mmap(std::ptr::null_mut(), pages * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, pages * PAGE, libc::MADV_NOHUGEPAGE);
            (0..pages).for_each(|page| memory.cast::<u8>().add(page * PAGE).write_volatile(1));
            libc::munmap(memory, pages * PAGE);
        }
    }

    #[test]
    fn more_is_kept_than_a_ring_holds_while_nobody_takes() {
        let mut rings = Rings::default();
        rings.push(faults());
        let wake = Notice::new().unwrap();
        let per_round = RING / 2 / 16;
        let mut bytes = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| rings.run(&wake, || {}));
            for _ in 0..64 {
                let before = rings.waiting.load(Ordering::Acquire);
                touch(per_round);
                while rings.waiting.load(Ordering::Acquire) < before + RING / 4 {
                    std::thread::yield_now();
                }
            }
            rings.stop(&wake);
        });
        rings.take(0, &mut bytes);
        // Header and address.
        assert_eq!(bytes.len() % 16, 0);
        assert!(bytes.len() / 16 >= 64 * per_round, "{} records", bytes.len() / 16);
        assert!(bytes.chunks(16).all(|record| record[0] == 9), "something was lost");
        assert_eq!(rings.waiting.load(Ordering::Relaxed), 0);
    }
}
