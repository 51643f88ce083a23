//! Puts events of all rings into the order of their time.
//!
//! ```text
//!   scan k-1        scan k          scan k+1
//!   ---|--------------|---------------|-----> time
//!       events stamped before scan k-1 began are applied after scan k: by then each of them, and everything that
//!       it depends on, has been read from its ring
//! ```
//!
//! What a thread had outstanding when it ended is told late, with the time of its last event: by version, it is of a block
//! that nobody else knows more of (see `tracked.rs`).
//!
//! Why that is enough: an event that another one depends on was published before the other was stamped (wire header,
//! "Order"), hence before the scan that began later than that stamp. The one scan of slack covers records that the kernel
//! was still writing on another CPU.

#[cfg(test)]
mod backlog;
mod merge;
#[cfg(test)]
mod order;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use numamma_trace::{LossKind, Losses};
use numamma_wire::{Bell, Segment};

use self::merge::{Batch, Merge};
use crate::perf::decode::Record;
use crate::perf::events::Events;
use crate::session::Session;
use crate::timebase::Timebase;
use crate::trace_windows::Shared;

/// Events that wait for their turn. Those of the library may be millions, so they do not share a type with the kernel's, which
/// carry registers.
#[derive(Debug, Default)]
pub struct Collector {
    told: Merge,
    records: Vec<Record>,
    last_scan: i64,
    /// Nanoseconds that events wait beyond that. An emulated program takes a hundred times as long from the stamp of an event to its
    /// publication, so that threads are often taken off their CPU in between.
    pub slack: i64,
}

impl Collector {
    /// Reads the kernel's rings, takes what the library's reader has, and applies to `session` what is now in order.
    pub fn scan(
        &mut self,
        events: &mut Events,
        library: Option<&LibraryReader<'_>>,
        trace_windows: Option<&Shared>,
        session: &mut Session,
    ) {
        let began = now();
        // Before they are taken out: one that begins later is later than what is applied now.
        let under_way = trace_windows.map_or(i64::MAX, |trace_windows| trace_windows.since.load(Ordering::Acquire));
        if let Some(trace_windows) = trace_windows {
            trace_windows.drain(&mut self.records);
        }
        let library_scan = library.map_or(i64::MAX, |reader| reader.take(&mut self.told));
        let known = self.records.len();
        events.drain(&mut self.records);
        for record in &self.records[known..] {
            if let Record::Sample { pid, ip, .. } = *record {
                session.save_code(pid, ip);
            }
        }
        let limit =
            std::mem::replace(&mut self.last_scan, began).min(library_scan).min(began - self.slack).min(under_way);
        self.apply_until(limit, session, |left| {
            if let Some(reader) = library {
                reader.backlog.store(left, Ordering::Relaxed);
            }
        });
    }

    /// Applies everything that is left.
    pub fn finish(&mut self, session: &mut Session) {
        self.apply_until(i64::MAX, session, |_| {});
    }

    /// `left` is told every now and then how many events of the library are still to be applied.
    fn apply_until(&mut self, limit: i64, session: &mut Session, left: impl Fn(usize)) {
        self.records.sort_by_key(Record::time);
        let records = self.records.partition_point(|record| record.time() < limit);
        let mut records = self.records.drain(..records).peekable();
        let (mut weight, mut done) = (self.told.weight_until(limit), 0_usize);
        self.told.each_until(limit, |time, pid, tid, event| {
            if done.is_multiple_of(1024) {
                left(weight);
            }
            done += 1;
            weight -= merge::weight(event);
            while let Some(record) = records.next_if(|record| record.time() < time) {
                session.record(record);
            }
            session.event(time, pid, tid, event);
        });
        left(0);
        records.for_each(|record| session.record(record));
        session.let_go(limit);
    }
}

/// Most events that may wait for the session, with those that it is at. Beyond it the rings are left to fill, and their
/// writers to wait: the recorder's memory must not grow without end. They are read again as soon as the session gets on, and
/// not when it is done with all: no writer's patience lasts that long.
pub const MOST_WAITING: usize = 1 << 20;

/// Longest time between two scans of the library's rings.
pub const LIBRARY_INTERVAL: Duration = Duration::from_millis(100);
/// The same while the session has enough to do.
const FULL_INTERVAL: Duration = Duration::from_millis(1);

/// Reads the library's rings on a thread of its own, so that no program waits while the recorder reads a symbol table.
pub struct LibraryReader<'a> {
    /// The first is the one that is waited for.
    segments: Vec<&'a Segment>,
    interval: Duration,
    state: Mutex<Read>,
    /// Events that the session has taken and is applying.
    backlog: AtomicUsize,
    stamps: Mutex<Stamps>,
    done: AtomicBool,
}

/// What is known of the library's stamps; held while the rings are read.
#[derive(Debug)]
struct Stamps {
    timebase: Timebase,
    /// The latest of each ring's thread, by segment.
    latest: Vec<Vec<u64>>,
    /// When the present round through all rings began, and the segment and ring to go on with: a round takes several scans
    /// where there is more to read than may wait.
    round: i64,
    next: (usize, u32),
}

/// What has been read.
#[derive(Debug, Default)]
struct Read {
    batches: Vec<Batch>,
    /// What the events in them weigh together.
    weight: usize,
    /// Batches to be filled.
    spare: Vec<Batch>,
    /// When the last whole round began: everything stamped earlier has been read.
    scanned: i64,
    malformed: u64,
    lost_full: u64,
    lost_frees: u64,
}

impl<'a> LibraryReader<'a> {
    /// A reader of `segment`.
    #[cfg(test)]
    pub fn new(segment: &'a Segment) -> Self {
        Self::of(vec![segment], LIBRARY_INTERVAL)
    }

    /// A reader of several segments, whose events are stamped by one clock. They are read at least every `interval`. At
    /// equal times, events of the first come first.
    pub fn of(segments: Vec<&'a Segment>, interval: Duration) -> Self {
        let latest = segments.iter().map(|segment| vec![0; segment.options().ring_count as usize]).collect();
        let timebase = Timebase::new(segments[0].options().clock);
        let stamps = Mutex::new(Stamps { timebase, latest, round: 0, next: (0, 0) });
        let (state, backlog, done) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self { segments, interval, state, backlog, stamps, done }
    }

    /// Reads until [`Self::stop`]; `notify` is called when something is waiting that should not wait long.
    pub fn run(&self, notify: impl Fn()) {
        let mut rounds = 0_u32;
        while !self.done.load(Ordering::Acquire) {
            let bell: Bell = self.segments[0].bell();
            rounds = rounds.wrapping_add(1);
            if self.scan(rounds.is_multiple_of(16)) > MOST_WAITING / 16 {
                notify();
            }
            if self.is_full() {
                // Who waits for room has rung already.
                std::thread::sleep(FULL_INTERVAL);
            } else {
                self.segments[0].wait(bell, self.interval);
            }
        }
        // What comes now is to be the last: it must not begin with rings that were read before.
        locked(&self.stamps).next = (0, 0);
    }

    /// Makes [`Self::run`] return.
    pub fn stop(&self) {
        self.done.store(true, Ordering::Release);
        let doorbell = &self.segments[0].header().doorbell;
        doorbell.fetch_add(1, Ordering::SeqCst);
        // SAFETY: a futex word in memory that the segment keeps mapped.
        unsafe { libc::syscall(libc::SYS_futex, doorbell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Reads every ring once, or as many as may be read now; the next scan goes on there. Returns how many events wait, by
    /// their weight.
    pub fn scan(&self, tidy: bool) -> usize {
        let mut stamps = locked(&self.stamps);
        if stamps.next == (0, 0) {
            stamps.round = now();
        }
        let mut batch = self.state().spare.pop().unwrap_or_default();
        let (mut malformed, mut lost, mut lost_frees) = (0, 0, 0);
        let waiting = self.state().weight + self.backlog.load(Ordering::Relaxed);
        let from = stamps.next;
        let mut cut = None;
        'round: for (number, segment) in self.segments.iter().enumerate().skip(from.0) {
            let segment: &Segment = segment;
            // Asking if a thread has ended is a system call: rings are given back at leisure, unless many are taken.
            let tidy = tidy || segment.active_rings().count() > segment.options().ring_count as usize / 4;
            for ring in segment.active_rings().filter(|ring| (number, ring.index()) >= from) {
                // One ring is little, all of them together are gigabytes.
                if waiting + batch.weight() >= MOST_WAITING {
                    cut = Some((number, ring.index()));
                    break 'round;
                }
                let ended = tidy && ring.has_ended();
                let latest = &mut stamps.latest[number][ring.index() as usize];
                let drained = ring.drain(|event| {
                    if let Ok(stamped) = event {
                        // Two readings of the counter that follow each other closely may come in either order.
                        *latest = stamped.time.max(*latest);
                        batch.push(*latest, stamped.event);
                    }
                });
                malformed += drained.malformed;
                if ended {
                    // When the thread still was: the process may be gone since.
                    ring.outstanding(|event| batch.push(*latest, event));
                    *latest = 0;
                }
                // Published events make their owner visible; before them it may be in the making.
                let owner = ring.owner();
                batch.end_run(owner.pid, owner.tid);
                if ended && let Some(losses) = ring.release() {
                    lost += losses.full;
                    lost_frees += losses.frees;
                }
            }
        }
        stamps.next = cut.unwrap_or_default();
        stamps.timebase.advance();
        batch.set_times(stamps.timebase.converter());
        let mut state = self.state();
        state.weight += batch.weight();
        state.batches.push(batch);
        if cut.is_none() {
            state.scanned = stamps.round;
        }
        state.malformed += malformed;
        state.lost_full += lost;
        state.lost_frees += lost_frees;
        state.weight
    }

    /// Moves what was read to `told`; returns the time up to which that is everything.
    fn take(&self, told: &mut Merge) -> i64 {
        let mut state = self.state();
        state.weight = 0;
        state.spare.extend(told.done());
        Batch::trim(&mut state.spare);
        state.batches.drain(..).for_each(|batch| told.add(batch));
        state.scanned
    }

    /// Ends the reading for good and books what the rings have lost.
    pub fn close(&self, losses: &mut Losses) {
        self.segments.iter().for_each(|segment| segment.close());
        let state = self.state();
        let rings = self.segments.iter().flat_map(|segment| segment.active_rings());
        let in_use = rings.map(|ring| ring.losses());
        let (full, frees) = in_use.fold((state.lost_full, state.lost_frees), |(full, frees), ring| {
            (full.saturating_add(ring.full), frees.saturating_add(ring.frees))
        });
        losses.add(LossKind::HeapRing, full);
        losses.add(LossKind::LostReleases, frees);
        losses.add(LossKind::MalformedEvent, state.malformed);
        for segment in &self.segments {
            losses.add(LossKind::NoRing, segment.lost_no_ring());
            losses.add(LossKind::Filtered, segment.lost_filtered());
            losses.add(LossKind::NoRingMemory, segment.lost_no_map());
            losses.add(LossKind::Confined, segment.muted());
        }
    }

    fn is_full(&self) -> bool {
        self.state().weight + self.backlog.load(Ordering::Relaxed) >= MOST_WAITING
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Read> {
        locked(&self.state)
    }
}

/// A panic of the other thread has left what it held whole: nothing panics between its changes.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The recording's clock: `CLOCK_MONOTONIC`, nanoseconds.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
