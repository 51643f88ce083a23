//! One ring, seen from the recorder: who writes it, what it holds, and giving it back.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::event::{Api, Event, Head, Malformed, Stamped, decode};
use crate::layout::{RECENT_FREED, RECENT_NONE, RING_ENDED, RING_FREE, RecentBlock, RingControl};
use crate::segment::Segment;

/// How much is consumed between two stores of `tail`: often enough that a waiting writer gets room, seldom enough that
/// the cache line does not bounce for every event.
const TAIL_STEP: u64 = 16 * 1024;

/// A ring of a [`Segment`]. A copyable name: whoever drains or releases must be one thread at a time per ring.
/// Two at once would deliver events twice; they would not be unsound.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) index: u32,
    pub(crate) control: &'a RingControl,
    pub(crate) recent: &'a [RecentBlock],
    pub(crate) data: &'a [AtomicU64],
}

/// What a ring's control block says of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingState {
    /// Nobody's.
    Free,
    /// A thread writes it.
    Owned,
    /// Its thread called exec: nobody writes it any more.
    Ended,
}

/// The thread that claimed a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Owner {
    pub pid: i32,
    pub tid: i32,
}

/// Events that did not make it into a ring, since it was claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Dropped because the ring stayed full past the bounded wait.
    pub full: u64,
    /// How many of those were releases: objects that look live but are not.
    pub frees: u64,
    /// Times the writer waited for room: not a loss, but time that the program did not have. For measurements.
    pub waits: u64,
}

/// What one call of [`Ring::drain`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events handed over.
    pub events: u64,
    /// Malformed ones handed over.
    pub malformed: u64,
}

impl Owner {
    /// Whether the kernel no longer knows this thread, so that nothing can write its ring any more. A thread whose id
    /// is unknown here (0) or whom we may not signal counts as alive.
    pub fn is_gone(self) -> bool {
        if self.pid <= 0 || self.tid <= 0 {
            return false;
        }
        // SAFETY: signal 0 only asks whether the thread exists; no memory is passed.
        let rc = unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.tid, 0) };
        rc == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }
}

impl Ring<'_> {
    /// Its place in the segment.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its state. An unknown value (a scribbled control block) reads as owned: such a ring is never released.
    pub fn state(&self) -> RingState {
        match self.control.state.load(Acquire) {
            RING_FREE => RingState::Free,
            RING_ENDED => RingState::Ended,
            _ => RingState::Owned,
        }
    }

    /// The thread that claimed it. Zeros while it is being claimed, or if its ids mean nothing here.
    pub fn owner(&self) -> Owner {
        Owner { pid: self.control.pid.load(Acquire), tid: self.control.tid.load(Relaxed) }
    }

    /// Whether its thread can no longer write: it has ended, or its process called exec. After this returned true, one
    /// more [`drain`](Ring::drain) gets everything there will ever be.
    pub fn has_ended(&self) -> bool {
        match self.state() {
            RingState::Free => false,
            RingState::Ended => true,
            RingState::Owned => self.owner().is_gone(),
        }
    }

    /// Published bytes that were not yet consumed.
    pub fn pending(&self) -> u64 {
        self.control.head.load(Acquire).wrapping_sub(self.control.tail.load(Relaxed))
    }

    /// What was lost since the ring was claimed.
    pub fn losses(&self) -> Losses {
        Losses {
            full: self.control.lost_full.load(Relaxed),
            frees: self.control.lost_frees.load(Relaxed),
            waits: self.control.waits.load(Relaxed),
        }
    }

    /// Hands over every event that was published when the call began, oldest first, and frees its room.
    ///
    /// A malformed event is handed over as such and skipped; where not even its length makes sense, so is all that was
    /// published after it.
    pub fn drain(&self, mut each: impl FnMut(Result<Stamped, Malformed>)) -> Drained {
        let mut drained = Drained::default();
        let mut hand = |item: Result<Stamped, Malformed>| {
            match item {
                Ok(_) => drained.events += 1,
                Err(_) => drained.malformed += 1,
            }
            each(item);
        };
        let mut tail = self.control.tail.load(Relaxed);
        let head = self.control.head.load(Acquire);
        let capacity = self.data.len() as u64 * 8;
        if head.wrapping_sub(tail) > capacity || !head.is_multiple_of(8) || !tail.is_multiple_of(8) {
            hand(Err(Malformed::Positions { tail, head }));
            self.control.tail.store(head, Release);
            return drained;
        }
        let mut stored = tail;
        while tail != head {
            let first = Head::unpack(self.word(tail));
            let available = head.wrapping_sub(tail) / 8;
            if first.words == 0 || u64::from(first.words) > available {
                hand(Err(Malformed::Length { words: first.words, available }));
                break;
            }
            hand(decode(first, |i| self.word(tail.wrapping_add(u64::from(i) * 8))));
            tail = tail.wrapping_add(u64::from(first.words) * 8);
            if tail.wrapping_sub(stored) >= TAIL_STEP {
                self.control.tail.store(tail, Release);
                stored = tail;
            }
        }
        self.control.tail.store(head, Release);
        drained
    }

    /// [`drain`](Ring::drain) into a list.
    pub fn drain_to(&self, events: &mut Vec<Result<Stamped, Malformed>>) -> Drained {
        self.drain(|event| events.push(event))
    }

    /// What its thread had still to say of its recent blocks. To be asked once, when the thread has ended and the ring is
    /// drained; a release then bears the version of its block, so that it matters not when it is applied.
    pub fn outstanding(&self, mut each: impl FnMut(Event)) {
        for block in self.recent {
            let state = block.state.swap(RECENT_NONE, Acquire);
            let Some(api) = Api::from_wire(block.api.load(Relaxed)).filter(|_| state != RECENT_NONE) else { continue };
            let count = block.repeats.load(Relaxed);
            if count != 0 {
                let (stack, size) = (block.stack.load(Relaxed), block.size.load(Relaxed).into());
                each(Event::Repeat { stack, size, count: count.into() });
            }
            if state == RECENT_FREED {
                let (address, version) = (block.address.load(Relaxed), block.version.load(Relaxed));
                each(Event::Free { api, address, tentative: false, version });
            }
        }
    }

    /// Gives an ended and drained ring back: its counts to the caller, its memory to the kernel, itself to the next
    /// thread. `None`, and nothing done, unless the ring has ended and is drained. What is [`outstanding`](Ring::outstanding)
    /// is lost.
    pub fn release(&self) -> Option<Losses> {
        if !self.has_ended() || self.pending() != 0 {
            return None;
        }
        let losses = self.losses();
        let c = self.control;
        for word in [&c.head, &c.tail, &c.lost_full, &c.lost_frees, &c.waits] {
            word.store(0, Relaxed);
        }
        c.pid.store(0, Relaxed);
        c.tid.store(0, Relaxed);
        self.segment.punch(self.index);
        // The next owner's compare-and-swap acquires what is released here: it finds the counts at zero.
        c.state.store(RING_FREE, Release);
        let header = self.segment.header();
        header.next_ring.fetch_min(self.index, Relaxed);
        header.no_ring.store(0, Relaxed);
        Some(losses)
    }

    fn word(&self, position: u64) -> u64 {
        // The length of `data` is a power of two; the mask keeps the index in bounds whatever the position.
        let mask = self.data.len() as u64 - 1;
        self.data[((position / 8) & mask) as usize].load(Relaxed)
    }
}
