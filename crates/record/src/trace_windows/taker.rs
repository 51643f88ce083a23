//! The thread that takes trace windows: stops a thread of the program, follows it in the emulator, lets it go.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numamma_emulator::{Emulator, Limits, State, Stop};
use numamma_process::{NotStopped, Stopped};

use super::memory::Pages;
use super::retire;
use super::threads::{Candidate, choose, running_on, with_new_ones};
use super::timing::{Glimpse, Timer};
use super::trace::{Moment, Trace};
use super::{Shared, TraceWindow};
use crate::clock::counts::resample::Random;
use crate::collect::now;
use crate::perf::decode::Record;
use crate::perf::glances::Glances;

/// Instructions of a trace window: about as long to emulate as it takes to stop a thread.
pub const LENGTH: u64 = 5000;
/// Where the first trace windows are taken before it is known what they cost.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Trace windows are not closer than this: what follows each other closely tells little new.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// Nor farther apart.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// After so many trace windows half as many are taken, and so on.
const THINNED_AFTER: u64 = 16_384;
/// How much of what trace windows cost is known from the last one.
const NEWS: f64 = 0.1;
/// Measurements of what the processor can, before any trace window.
const MEASUREMENTS: usize = 10;
/// Threads that may be refused before any was stopped.
const MOST_REFUSALS: u32 = 20;
/// Repetitions of string instructions that may come on each of them.
const REPETITIONS: u64 = 16;
/// Of a trace window.
const LIMITS: Limits = Limits { instructions: LENGTH, repetitions: Some(LENGTH * REPETITIONS), until: [None; 2] };
/// Code segment of 64-bit programs.
const CODE_64: u64 = 0x33;
/// What the kernel says to itself of system calls that are begun again (`ERESTARTSYS` and its like).
const RESTARTED: RangeInclusive<i64> = -516..=-512;
/// Bytes of `syscall`.
const SYSTEM_CALL_BYTES: u64 = 2;

/// Takes trace windows until it is told to stop.
#[derive(Debug)]
pub struct Taker {
    pub shared: Arc<Shared>,
    /// Part (0..1) of the time that threads may be stopped.
    pub share: f64,
    /// Nanoseconds of a thread's time that a sample takes.
    pub tick: f64,
    /// A clock of the period that goes with it ([`Timer::period_of`]).
    pub glances: Option<Glances>,
}

/// Why a worker ended.
enum Ended {
    /// There is nothing more to do.
    Done,
    /// Something may still be held, and what holds it is the worker's thread: another one goes on.
    Renew,
}

/// Why there is no trace window.
enum No {
    /// Not this thread, not now.
    Not,
    /// Not by this thread of ours any more.
    Renew,
    /// Never.
    Never(String),
}

/// How a thread was followed.
struct Followed {
    stop: Stop,
    moment: Moment,
}

impl Taker {
    /// Takes trace windows. This thread traces nobody itself.
    pub fn run(self) {
        let mut worker = match Worker::new(self.shared.clone(), self.share, Timer::new(self.tick, self.glances)) {
            Ok(worker) => worker,
            Err(error) => {
                self.shared.state().refused = Some(format!("no memory for emulated code ({error})"));
                return;
            }
        };
        loop {
            // Joined by hand: the scope alone does not wait for the kernel's end of the thread, which lets go.
            let ended = std::thread::scope(|scope| scope.spawn(|| worker.work()).join());
            if !matches!(ended, Ok(Ended::Renew)) || self.shared.is_done() {
                return;
            }
        }
    }
}

/// What goes on from one thread to the next.
struct Worker {
    shared: Arc<Shared>,
    share: f64,
    random: Random,
    emulator: Emulator,
    trace: Trace,
    pages: Pages,
    extended: Vec<u8>,
    /// Registers of the thread that was held last.
    latest: State,
    /// Seconds that a trace window stops a thread for, a running mean.
    cost: f64,
    /// Trace windows so far.
    taken: u64,
    /// How long the last thread was stopped for, and how much of that was work: where CPUs are short, whoever holds it waits for
    /// one like everybody else, and the thread would, too.
    stopped: Duration,
    worked: Duration,
    /// Instructions that the processor retires in a nanosecond.
    fastest: f64,
    timer: Timer,
    /// Threads that were not permitted to be stopped, while none was.
    refusals: u32,
}

impl Worker {
    fn new(shared: Arc<Shared>, share: f64, timer: Timer) -> io::Result<Self> {
        Ok(Self {
            shared,
            share,
            random: Random::new(now() as u64),
            emulator: Emulator::new()?,
            trace: Trace::default(),
            pages: Pages::default(),
            extended: Vec::new(),
            latest: State::new(),
            cost: FIRST_PAUSE.as_secs_f64() * share,
            taken: 0,
            stopped: Duration::ZERO,
            worked: Duration::ZERO,
            fastest: (0..MEASUREMENTS).map(|_| retire::most_per_ns()).fold(0.0, f64::max),
            timer,
            refusals: 0,
        })
    }

    fn work(&mut self) -> Ended {
        while !self.shared.is_done() {
            // One moment of each slot, anywhere in it: never in step with what the program does, and even over its phases, so that
            // chance does not decide how much of each is seen (stratified sampling). Long recordings need no more trace windows in the end,
            // and each stands for more.
            let thinned = 2_f64.powi((self.taken / THINNED_AFTER) as i32);
            let slot = (self.cost / self.share).clamp(LEAST_PAUSE.as_secs_f64(), LONGEST_PAUSE.as_secs_f64()) * thinned;
            let began = Instant::now();
            let within = self.random.uniform();
            self.sleep_until(began + Duration::from_secs_f64(slot * within));
            let threads = with_new_ones(&self.shared.threads());
            if let Some(candidate) = choose(&threads, &mut self.random).filter(|_| self.shared.has_room()) {
                self.shared.since.store(now(), Ordering::Release);
                // It stands for its slot, in all threads that run.
                let taken = self.take(candidate, slot * 1e9 * candidate.of);
                let ended = self.hand_over(taken, candidate);
                self.shared.since.store(i64::MAX, Ordering::Release);
                if let Some(ended) = ended {
                    return ended;
                }
            }
            self.sleep_until(began + Duration::from_secs_f64(slot));
        }
        Ended::Done
    }

    /// Sleeps, but not for long once there is nothing more to do.
    fn sleep_until(&self, until: Instant) {
        while !self.shared.is_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Hands a trace window over; the end of the worker, if it is to end.
    fn hand_over(&mut self, taken: Result<(i64, Stop, Vec<TraceWindow>), No>, of: Candidate) -> Option<Ended> {
        let stopped = std::mem::take(&mut self.stopped);
        let sampled = self.timer.taken();
        let worked = std::mem::take(&mut self.worked).as_secs_f64() + sampled / 1e9;
        if worked > 0.0 {
            self.cost += (worked - self.cost) * NEWS;
        }
        if (self.taken + 1).is_power_of_two() {
            self.fastest = self.fastest.max(retire::most_per_ns());
        }
        let mut state = self.shared.state();
        state.tally.fastest = self.fastest;
        state.tally.stopped += stopped.as_nanos() as u64;
        state.tally.sampled += sampled as u64;
        match taken {
            Err(No::Not) => None,
            Err(No::Renew) => Some(Ended::Renew),
            Err(No::Never(why)) => {
                state.refused = Some(why);
                Some(Ended::Done)
            }
            Ok((at, stop, trace_windows)) => {
                // Nothing is told by no instruction.
                let length =
                    trace_windows.iter().map(|trace_window| trace_window.length).max().filter(|length| *length > 0)?;
                self.taken += 1;
                state.tally.unsupported += u64::from(matches!(stop, Stop::Unsupported(_)));
                state.tally.taken += 1;
                state.tally.instructions += length;
                state.tally.timed +=
                    trace_windows.iter().filter(|trace_window| trace_window.timed.is_some()).count() as u64;
                let Candidate { pid, tid, cpu, .. } = of;
                let records = trace_windows.into_iter().map(Box::new).map(|trace_window| Record::TraceWindow {
                    time: at,
                    pid,
                    tid,
                    cpu,
                    trace_window,
                });
                state.taken.extend(records);
                None
            }
        }
    }

    /// Stops a thread, follows it and lets it go: the moment when it stood, why it was followed no further, and trace windows, which
    /// stand for `time`.
    fn take(&mut self, of: Candidate, time: f64) -> Result<(i64, Stop, Vec<TraceWindow>), No> {
        let is_running = || running_on(of.pid, of.tid).ok_or(No::Not);
        is_running()?;
        let seen = self.timer.watch((of.tid, of.cpu), self.share, &mut self.random);
        self.rehearse(of, seen.last());
        // Whoever sleeps by now is not to be woken.
        is_running()?;
        let worked = own_time();
        let stopped = match Stopped::stop(of.tid) {
            Ok(stopped) => stopped,
            Err(NotStopped::Gone | NotStopped::Busy) => return Err(No::Not),
            Err(NotStopped::Lost) => return Err(No::Renew),
            // So is who is about to end, but not all of them.
            Err(NotStopped::Refused(error)) => {
                self.refusals += 1;
                return Err(if self.taken > 0 || self.refusals < MOST_REFUSALS {
                    No::Not
                } else {
                    No::Never(format!("threads may not be traced here ({error})"))
                });
            }
        };
        let (at, began) = (now(), Instant::now());
        let followed = self.follow(&stopped);
        // Who is let go may get the CPU that this thread has.
        self.stopped = began.elapsed();
        let released = stopped.release();
        self.worked = own_time().saturating_sub(worked);
        if !released {
            return Err(No::Renew);
        }
        let Followed { stop, mut moment } = followed.ok_or(No::Not)?;
        let Self { timer, emulator, pages, fastest, random, latest, .. } = self;
        moment.timed = timer.time(&seen, latest, (emulator, pages), of.pid, *fastest, random);
        Ok((at, stop, self.trace.trace_windows(&moment, time, random)))
    }

    /// Follows a thread that goes on, from where it was seen or is about now: code that it comes by is decoded then before it is
    /// held, and which pages are needed is known.
    fn rehearse(&mut self, of: Candidate, seen: Option<&Glimpse>) {
        let Some(mut state) = (match seen {
            Some(seen) => Some(seen.state(&self.latest)),
            None => self.timer.glance((of.tid, of.cpu)).map(|seen| seen.state(&self.latest)),
        }) else {
            return self.pages.begin(of.pid);
        };
        self.pages.begin(of.pid);
        self.emulator.begin();
        let _ = self.emulator.go_on(&mut state, &mut self.pages, &mut (), LIMITS);
    }

    fn follow(&mut self, stopped: &Stopped) -> Option<Followed> {
        let registers = stopped.registers().ok()?;
        // At the end of a system call, which may have to be made again: then that is what comes next.
        let behind_call = registers.orig_rax as i64 >= 0;
        let again = behind_call && RESTARTED.contains(&(registers.rax as i64));
        // 32-bit code is another language.
        if again || registers.cs != CODE_64 {
            return None;
        }
        stopped.extended(&mut self.extended).ok()?;
        self.latest = State::from_ptrace(&registers, &self.extended);
        let mut state = self.latest.clone();
        self.trace.clear();
        self.pages.begin_again();
        self.emulator.begin();
        let stop = self.emulator.go_on(&mut state, &mut self.pages, &mut self.trace, LIMITS).stop;
        let call = (stop == Stop::SystemCall).then_some(state.ip + SYSTEM_CALL_BYTES);
        let moment = Moment { call, behind_call, absent: self.pages.absent, timed: None };
        Some(Followed { stop, moment })
    }
}

/// Time that this thread has had a CPU.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
