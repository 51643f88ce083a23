//! Accesses one by one, in the order of each thread, for a window of the run.

use std::cell::Cell;

use numamma_trace::{Access, TraceRow};
use numamma_wire::{AccessAt, Segment};
use rustc_hash::FxHashMap;

use crate::session::Session;
use crate::tasks::ThreadId;
use crate::window::Window;

/// What was traced so far.
#[derive(Debug, Default)]
pub struct Traced {
    /// The last read and the last write (true) of each thread: the emulator may tell of more of them.
    last: FxHashMap<(ThreadId, bool), TraceRow>,
    /// Those that were told, of reads and writes.
    pub accesses: u64,
    /// From when to when they are wanted: a thread that is told to stop may do so late.
    pub window: Window,
}

impl Session {
    pub(super) fn traced(&mut self, time: i64, pid: i32, tid: i32, at: AccessAt) {
        let access = if at.write { Access::Write } else { Access::Read };
        let thread = self.thread_of(pid, tid, time);
        // What comes now is no more of what was before, whether it is kept or not. An instruction that reads and writes, piece by piece,
        // has one of each.
        self.sink.trace.extend(self.traced.last.remove(&(thread, at.write)));
        if !self.traced.window.contains(time) {
            return;
        }
        self.traced.accesses += 1;
        if self.only.is_some_and(|only| only != access) {
            return;
        }
        let process = self.tasks.process_of(thread);
        let place = self.place(process, at.ip);
        self.code_places.note(process, at.ip, place);
        self.touch(process, thread, at.address, time);
        let row = TraceRow {
            time,
            thread: thread as i32,
            ip: at.ip as i64,
            addr: at.address as i64,
            bytes: i32::from(at.bytes),
            access: access as i32,
        };
        self.traced.last.insert((thread, at.write), row);
    }

    /// A piece of the access that the thread was told of last, unless that came before the trace began.
    pub(super) fn traced_more(&mut self, time: i64, pid: i32, tid: i32, at: AccessAt) {
        let thread = self.thread_of(pid, tid, time);
        let end = |row: &TraceRow| (row.addr as u64).wrapping_add(row.bytes as u64);
        if let Some(row) = self.traced.last.get_mut(&(thread, at.write)).filter(|row| row.ip as u64 == at.ip) {
            row.bytes += if end(row) == at.address { i32::from(at.bytes) } else { 0 };
        }
    }

    /// No more is told.
    pub(crate) fn trace_ends(&mut self) {
        let rows = std::mem::take(&mut self.traced.last);
        self.sink.trace.extend(rows.into_values());
    }
}

/// Asks for the accesses that are to be traced.
pub struct Tracing<'a> {
    /// What they are counted and told in.
    segment: &'a Segment,
    /// How many.
    most: u64,
    /// True if they are asked for now.
    asked: Cell<bool>,
    used_up: Cell<bool>,
}

impl<'a> Tracing<'a> {
    /// Asks for none yet.
    pub fn new(segment: &'a Segment, most: u64) -> Self {
        Self { segment, most, asked: Cell::new(false), used_up: Cell::new(false) }
    }

    /// Asks for them from now on, or no longer.
    pub fn switch(&self, on: bool) {
        if self.asked.replace(on) {
            self.used_up.set(!self.segment.is_traced());
        }
        self.segment.trace(if on { self.most } else { 0 });
    }

    /// No more are asked for; whether as many were made as there were to be.
    pub fn end(self) -> bool {
        self.switch(false);
        self.used_up.get()
    }
}
