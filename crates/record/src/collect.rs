//! Puts events of all rings into the order of their time.
//!
//! ```text
//!   scan k-1        scan k          scan k+1
//!   ---|--------------|---------------|-----> time
//!       events stamped before scan k-1 began are applied after scan k: by then each of them, and everything that
//!       it depends on, has been read from its ring
//! ```
//!
//! Why that is enough: an event that another one depends on was published before the other was stamped (wire header,
//! "Order"), hence before the scan that began later than that stamp. The one scan of slack covers records that the kernel
//! was still writing on another CPU.

use numamma_wire::{Event, Segment};

use crate::perf::decode::Record;
use crate::perf::events::Events;
use crate::session::Session;

/// Something that happened.
#[derive(Debug)]
enum What {
    Kernel(Record),
    Library { pid: i32, tid: i32, event: Event },
}

/// Events that wait for their turn.
#[derive(Debug, Default)]
pub struct Collector {
    pending: Vec<(i64, What)>,
    records: Vec<Record>,
    last_scan: i64,
    /// Events of the library that made no sense.
    pub malformed: u64,
    /// Allocation events that threads dropped, and how often they waited.
    pub lost_full: u64,
    rounds: u64,
}

impl Collector {
    /// Reads all rings, and applies to `session` what is now in order.
    pub fn scan(&mut self, events: &mut Events, segment: Option<&Segment>, session: &mut Session) {
        let began = now();
        if let Some(segment) = segment {
            self.scan_library(segment);
        }
        events.drain(&mut self.records);
        for record in self.records.drain(..) {
            self.pending.push((record.time(), What::Kernel(record)));
        }
        let limit = std::mem::replace(&mut self.last_scan, began);
        self.apply_until(limit, session);
    }

    /// Applies everything that is left.
    pub fn finish(&mut self, session: &mut Session) {
        self.apply_until(i64::MAX, session);
    }

    fn scan_library(&mut self, segment: &Segment) {
        self.rounds += 1;
        // Whether a thread has ended is a system call: rings are given back at leisure.
        let tidy = self.rounds.is_multiple_of(16);
        for ring in segment.active_rings() {
            let ended = tidy && ring.has_ended();
            let owner = ring.owner();
            let drained = ring.drain(|event| {
                if let Ok(stamped) = event {
                    let what = What::Library { pid: owner.pid, tid: owner.tid, event: stamped.event };
                    self.pending.push((stamped.time as i64, what));
                }
            });
            self.malformed += drained.malformed as u64;
            if ended && let Some(losses) = ring.release() {
                self.lost_full += losses.full;
            }
        }
    }

    /// What the rings that are still in use have lost.
    pub fn count_losses(&mut self, segment: &Segment) {
        self.lost_full += segment.active_rings().map(|ring| ring.losses().full).sum::<u64>();
    }

    fn apply_until(&mut self, limit: i64, session: &mut Session) {
        // Stable: events of one ring with equal stamps stay in their order. Nearly sorted runs are merged fast.
        self.pending.sort_by_key(|(time, _)| *time);
        let ready = self.pending.partition_point(|(time, _)| *time < limit);
        for (time, what) in self.pending.drain(..ready) {
            match what {
                What::Kernel(record) => session.record(record),
                What::Library { pid, tid, event } => session.event(time, pid, tid, event),
            }
        }
    }
}

/// The recording's clock: `CLOCK_MONOTONIC`, nanoseconds.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
