//! Stretches of a thread's execution that are followed instruction by instruction, for counts where samples have no basis.
//!
//! ```text
//!   now and then:  a thread that runs is stopped -> registers -> it goes on
//!                                                       |
//!                                      its next instructions, emulated on what its memory holds at that moment
//!                                                       |
//!   which instructions and accesses follow each other there (`TraceWindow`) -> survey: how often each is executed in all
//! ```
//!
//! The program executes its own instructions as ever; nothing is written to it. It stands while it is emulated.

pub mod counts;
mod memory;
mod retire;
mod rows;
mod spans;
pub mod survey;
mod taker;
mod threads;
mod timing;
mod trace;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use numamma_trace::TraceWindows;
pub use spans::{SPAN, Span};
pub use taker::Taker;

use crate::perf::decode::Record;

/// The period of [`Taker::glances`], nanoseconds, where a sample takes `tick`.
pub fn glance_period(tick: f64) -> u64 {
    timing::Timer::period_of(tick) as u64
}

/// Trace windows that may wait to be fetched.
const MOST_WAITING: usize = 1000;

/// What a thread did from a moment on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceWindow {
    /// Where it stood.
    pub ip: u64,
    /// Nanoseconds of user time of the program that it stands for; none where it begins behind a system call, which is how those go on
    /// that end at one.
    pub time: f64,
    /// Behind the system call that it ended at, if it did.
    pub call: Option<u64>,
    /// How fast the thread had just been, if that was measured.
    pub timed: Option<Timed>,
    /// Instructions that were followed.
    pub length: u64,
    /// Repetitions of string instructions, as so many other instructions would take as long.
    pub repetitions: f64,
    /// Addresses of instructions, with how often each was executed.
    pub instructions: Vec<(u64, u32)>,
    pub accesses: Vec<Seen>,
    pub spans: Vec<Span>,
}

/// How fast a thread was for a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// Where it was at its beginning.
    pub ip: u64,
    /// Instructions in a nanosecond of user time, repetitions as in [`TraceWindow::repetitions`].
    pub speed: f64,
}

/// Accesses of an instruction to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub ip: u64,
    /// The first of their addresses.
    pub addr: u64,
    pub bytes: u32,
    pub write: bool,
    pub count: u32,
}

/// What the thread that takes trace windows and the one that records have in common.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// When the trace window began that is under way, else the greatest time: what is stamped later waits for it.
    pub since: AtomicI64,
    done: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that had samples lately: process and thread.
    threads: Vec<(i32, i32)>,
    taken: Vec<Record>,
    tally: TraceWindows,
    /// Why there are none any more.
    refused: Option<String>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), since: AtomicI64::new(i64::MAX), done: AtomicBool::new(false) }
    }
}

impl Shared {
    /// Says which threads may be stopped.
    pub fn set_threads(&self, threads: impl Iterator<Item = (i32, i32)>) {
        let mut state = self.state();
        state.threads.clear();
        state.threads.extend(threads);
    }

    /// Moves what was taken to `records`.
    pub fn drain(&self, records: &mut Vec<Record>) {
        records.append(&mut self.state().taken);
    }

    /// Ends the taking.
    pub fn stop(&self) {
        self.done.store(true, Ordering::Release);
    }

    /// What became of them, and why there are none any more, if there are none.
    pub fn tally(&self) -> (TraceWindows, Option<String>) {
        let state = self.state();
        (state.tally, state.refused.clone())
    }

    fn threads(&self) -> Vec<(i32, i32)> {
        self.state().threads.clone()
    }

    /// True if those that were taken are fetched.
    fn has_room(&self) -> bool {
        self.state().taken.len() < MOST_WAITING
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// A panic of the other thread has left what it held whole: nothing panics between its changes.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
