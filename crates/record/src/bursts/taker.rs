//! The thread that takes bursts: stops a thread of the program, follows it in the emulator, lets it go.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numamma_emulator::{Access, Emulator, Limits, Observer, State, Stop};
use numamma_process::{NotStopped, Stopped};
use rustc_hash::FxHashMap;

use super::memory::Pages;
use super::threads::{Candidate, choose, running_on, with_new_ones};
use super::{Burst, Seen, Shared};
use crate::clock::counts::resample::Random;
use crate::collect::now;
use crate::perf::decode::Record;

/// Instructions of a burst: about as long to emulate as it takes to stop a thread.
pub const LENGTH: u64 = 5000;
/// Where the first bursts are taken before it is known what they cost.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Bursts are not closer than this: what follows each other closely tells little new.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// Nor farther apart.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// After so many bursts half as many are taken, and so on.
const THINNED_AFTER: u64 = 16_384;
/// How much of what bursts cost is known from the last one.
const NEWS: f64 = 0.1;
/// Threads that may be refused before any was stopped.
const MOST_REFUSALS: u32 = 20;
/// Accesses of an instruction that is not a repeated one.
const MOST_ACCESSES: u32 = 4;
/// Accesses of a repeated string instruction that take as long as another instruction: it moves 32 bytes a cycle, in elements of one to
/// eight, and others come four in a cycle.
const REPEATED_AT_ONCE: f64 = 4.0;
/// Repetitions of string instructions that may come on each of them.
const REPETITIONS: u64 = 16;
/// Code segment of 64-bit programs.
const CODE_64: u64 = 0x33;
/// What the kernel says to itself of system calls that are begun again (`ERESTARTSYS` and its like).
const RESTARTED: RangeInclusive<i64> = -516..=-512;
/// Bytes of `syscall`.
const SYSTEM_CALL_BYTES: u64 = 2;

/// Takes bursts until it is told to stop.
#[derive(Debug)]
pub struct Taker {
    pub shared: Arc<Shared>,
    /// Part (0..1) of the time that threads may be stopped.
    pub share: f64,
}

/// Why a worker ended.
enum Ended {
    /// There is nothing more to do.
    Done,
    /// Something may still be held, and what holds it is the worker's thread: another one goes on.
    Renew,
}

/// Why there is no burst.
enum No {
    /// Not this thread, not now.
    Not,
    /// Not by this thread of ours any more.
    Renew,
    /// Never.
    Never(String),
}

impl Taker {
    /// Takes bursts. This thread traces nobody itself.
    pub fn run(self) {
        let mut worker = match Worker::new(&self) {
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
struct Worker<'a> {
    shared: &'a Shared,
    share: f64,
    random: Random,
    emulator: Emulator,
    trace: Trace,
    pages: Pages,
    extended: Vec<u8>,
    /// Seconds that a burst stops a thread for, a running mean.
    cost: f64,
    /// Bursts so far.
    taken: u64,
    /// How long the last thread was stopped for, and how much of that was work: where CPUs are short, whoever holds it waits for
    /// one like everybody else, and the thread would, too.
    stopped: Duration,
    worked: Duration,
    /// Threads that were not permitted to be stopped, while none was.
    refusals: u32,
}

impl<'a> Worker<'a> {
    fn new(of: &'a Taker) -> io::Result<Self> {
        Ok(Self {
            shared: &of.shared,
            share: of.share,
            random: Random::new(now() as u64),
            emulator: Emulator::new()?,
            trace: Trace::default(),
            pages: Pages::default(),
            extended: Vec::new(),
            cost: FIRST_PAUSE.as_secs_f64() * of.share,
            taken: 0,
            stopped: Duration::ZERO,
            worked: Duration::ZERO,
            refusals: 0,
        })
    }

    fn work(&mut self) -> Ended {
        while !self.shared.is_done() {
            // One moment of each slot, anywhere in it: never in step with what the program does, and even over its phases, so that
            // chance does not decide how much of each is seen (stratified sampling). Long recordings need no more bursts in the end,
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

    /// Hands a burst over; the end of the worker, if it is to end.
    fn hand_over(&mut self, taken: Result<(i64, Stop, Burst), No>, of: Candidate) -> Option<Ended> {
        let stopped = std::mem::take(&mut self.stopped);
        let worked = std::mem::take(&mut self.worked);
        if !worked.is_zero() {
            self.cost += (worked.as_secs_f64() - self.cost) * NEWS;
        }
        let mut state = self.shared.state();
        state.tally.stopped += stopped.as_nanos() as u64;
        match taken {
            Err(No::Not) => None,
            Err(No::Renew) => Some(Ended::Renew),
            Err(No::Never(why)) => {
                state.refused = Some(why);
                Some(Ended::Done)
            }
            // Nothing is told by no instruction.
            Ok((_, _, burst)) if burst.length == 0 => None,
            Ok((at, stop, burst)) => {
                self.taken += 1;
                state.tally.unsupported += u64::from(matches!(stop, Stop::Unsupported(_)));
                state.tally.taken += 1;
                state.tally.instructions += burst.length;
                let burst = Box::new(burst);
                state.taken.push(Record::Burst { time: at, pid: of.pid, tid: of.tid, cpu: of.cpu, burst });
                None
            }
        }
    }

    /// Stops a thread, follows it and lets it go: the moment when it stood, why it was followed no further, and the burst, which
    /// stands for `time`.
    fn take(&mut self, of: Candidate, time: f64) -> Result<(i64, Stop, Burst), No> {
        // Others were looked at since: whoever sleeps by now is not to be woken.
        running_on(of.pid, of.tid).ok_or(No::Not)?;
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
        let (at, began, worked) = (now(), Instant::now(), own_time());
        let followed = self.follow(&stopped, of.pid, time);
        let released = stopped.release();
        (self.stopped, self.worked) = (began.elapsed(), own_time().saturating_sub(worked));
        if !released {
            return Err(No::Renew);
        }
        let (stop, burst) = followed.ok_or(No::Not)?;
        Ok((at, stop, burst))
    }

    fn follow(&mut self, stopped: &Stopped, pid: i32, time: f64) -> Option<(Stop, Burst)> {
        let registers = stopped.registers().ok()?;
        // At the end of a system call, which may have to be made again: then that is what comes next.
        let behind_call = registers.orig_rax as i64 >= 0;
        let again = behind_call && RESTARTED.contains(&(registers.rax as i64));
        // 32-bit code is another language.
        if again || registers.cs != CODE_64 {
            return None;
        }
        stopped.extended(&mut self.extended).ok()?;
        let mut state = State::from_ptrace(&registers, &self.extended);
        self.trace.clear();
        self.pages.begin(pid);
        self.emulator.begin();
        let limits = Limits { instructions: LENGTH, repetitions: Some(LENGTH * REPETITIONS) };
        let stop = self.emulator.go_on(&mut state, &mut self.pages, &mut self.trace, limits).stop;
        let mut burst = self.trace.burst();
        burst.ip = registers.rip;
        // The time of a system call or of a page fault is not the program's own.
        burst.time = if behind_call || self.pages.absent { 0.0 } else { time };
        burst.call = (stop == Stop::SystemCall).then_some(state.ip + SYSTEM_CALL_BYTES);
        Some((stop, burst))
    }
}

/// Time that this thread has had a CPU.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// What the emulator tells, counted.
#[derive(Debug, Default)]
struct Trace {
    length: u64,
    /// Accesses of the instruction that was told of last.
    accesses_of_one: u32,
    /// Accesses of string instructions beyond the first ones.
    repeated: u64,
    instructions: FxHashMap<u64, u32>,
    /// By instruction, page and whether it writes.
    accesses: FxHashMap<(u64, u64, bool), Seen>,
}

impl Trace {
    fn clear(&mut self) {
        self.length = 0;
        (self.accesses_of_one, self.repeated) = (0, 0);
        self.instructions.clear();
        self.accesses.clear();
    }

    fn burst(&self) -> Burst {
        Burst {
            length: self.length,
            repetitions: self.repeated as f64 / REPEATED_AT_ONCE,
            instructions: self.instructions.iter().map(|(&ip, &count)| (ip, count)).collect(),
            accesses: self.accesses.values().copied().collect(),
            ..Burst::default()
        }
    }
}

impl Observer for Trace {
    fn instruction(&mut self, ip: u64) {
        self.length += 1;
        self.accesses_of_one = 0;
        *self.instructions.entry(ip).or_default() += 1;
    }

    fn access(&mut self, Access { ip, address, size, write }: Access) {
        let seen = self.accesses.entry((ip, address >> 12, write)).or_insert(Seen {
            ip,
            addr: address,
            bytes: size,
            write,
            count: 0,
        });
        seen.count += 1;
        self.accesses_of_one += 1;
        self.repeated += u64::from(self.accesses_of_one > MOST_ACCESSES);
    }
}
