//! The thread that takes bursts: stops a thread of the program, follows it in the emulator, lets it go.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numamma_emulator::{Access, Emulator, Limits, Memory, Observer, PAGE, Rights, State, Stop};
use numamma_process::{NotStopped, Stopped};
use rustc_hash::FxHashMap;

use super::threads::{Candidate, choose, with_new_ones};
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
/// How much of what bursts cost is known from the last one.
const NEWS: f64 = 0.1;
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
    /// The program's first process, a child of ours.
    pub child: i32,
    /// Part (0..1) of the time that threads may be stopped.
    pub share: f64,
}

impl Taker {
    /// Takes bursts. To be called on a thread of its own: whoever it holds goes on when that thread ends.
    pub fn run(self) {
        let mut random = Random::new(now() as u64);
        let mut emulator = match Emulator::new() {
            Ok(emulator) => emulator,
            Err(error) => {
                self.shared.state().refused = Some(format!("no memory for emulated code ({error})"));
                return;
            }
        };
        let mut trace = Trace::default();
        let mut pages = Pages::default();
        // Seconds that a burst stops a thread for, a running mean.
        let mut cost = FIRST_PAUSE.as_secs_f64() * self.share;
        while !self.shared.is_done() {
            // One moment of each slot, anywhere in it: never in step with what the program does, and even over its phases, so that
            // chance does not decide how much of each is seen (stratified sampling).
            let slot = (cost / self.share).clamp(LEAST_PAUSE.as_secs_f64(), LONGEST_PAUSE.as_secs_f64());
            let began = Instant::now();
            let end = began + Duration::from_secs_f64(slot);
            self.sleep_until(began + Duration::from_secs_f64(slot * random.uniform()));
            let threads = with_new_ones(&self.shared.threads());
            let Some(candidate) = choose(&threads, &mut random) else {
                self.sleep_until(end);
                continue;
            };
            self.shared.since.store(now(), Ordering::Release);
            let taken = self.take(candidate, &mut emulator, &mut trace, &mut pages);
            let stopped = std::mem::take(&mut trace.stopped);
            let worked = std::mem::take(&mut trace.worked);
            if !worked.is_zero() {
                cost += (worked.as_secs_f64() - cost) * NEWS;
            }
            // It stands for its slot, in all threads that run.
            let time = slot * 1e9 * candidate.of;
            if let Err(why) = &taken {
                self.shared.state().refused = Some(why.clone());
            }
            let ended = taken.is_err();
            self.hand_over(taken.ok().flatten(), candidate, time, stopped);
            self.shared.since.store(i64::MAX, Ordering::Release);
            if ended {
                return;
            }
            self.sleep_until(end);
        }
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

    fn hand_over(&self, taken: Option<(i64, Stop, Burst)>, of: Candidate, time: f64, stopped: Duration) {
        let mut state = self.shared.state();
        state.tally.stopped += stopped.as_nanos() as u64;
        let Some((at, stop, burst)) = taken else { return };
        state.tally.unsupported += u64::from(matches!(stop, Stop::Unsupported(_)));
        // What it stands for is told by few instructions, too, but not by none.
        if burst.length == 0 {
            return;
        }
        state.tally.taken += 1;
        state.tally.instructions += burst.length;
        let burst = Box::new(Burst { time: time * burst.time, ..burst });
        state.taken.push(Record::Burst { time: at, pid: of.pid, tid: of.tid, cpu: of.cpu, burst });
    }

    /// Follows a thread. `None`: not this one, not now. `Err`: none, ever.
    fn take(
        &self,
        of: Candidate,
        emulator: &mut Emulator,
        trace: &mut Trace,
        pages: &mut Pages,
    ) -> Result<Option<(i64, Stop, Burst)>, String> {
        let stopped = match Stopped::stop(of.tid, of.tid == self.child) {
            Ok(stopped) => stopped,
            Err(NotStopped::Gone | NotStopped::Busy) => return Ok(None),
            Err(NotStopped::Late) => return Err("a thread did not stop within two seconds".into()),
            Err(NotStopped::Refused(error)) => return Err(format!("threads may not be traced here ({error})")),
        };
        let (at, began, worked) = (now(), Instant::now(), own_time());
        let Ok(registers) = stopped.registers() else { return Ok(None) };
        // At the end of a system call, which may have to be made again: then that is what comes next.
        let behind_call = registers.orig_rax as i64 >= 0;
        let again = behind_call && RESTARTED.contains(&(registers.rax as i64));
        if again || stopped.extended(&mut pages.extended).is_err() {
            return Ok(None);
        }
        // 32-bit code is another language.
        if registers.cs != CODE_64 {
            return Ok(None);
        }
        let mut state = State::from_ptrace(&registers, &pages.extended);
        pages.pid = of.pid;
        trace.clear();
        emulator.begin();
        let limits = Limits { instructions: LENGTH, repetitions: Some(LENGTH * REPETITIONS) };
        let stop = emulator.go_on(&mut state, pages, trace, limits).stop;
        drop(stopped);
        (trace.stopped, trace.worked) = (began.elapsed(), own_time().saturating_sub(worked));
        let mut burst = trace.burst();
        burst.ip = registers.rip;
        // The time of a system call is not the program's own.
        burst.time = if behind_call { 0.0 } else { 1.0 };
        burst.call = (stop == Stop::SystemCall).then_some(state.ip + SYSTEM_CALL_BYTES);
        Ok(Some((at, stop, burst)))
    }
}

/// The memory of a process that is held.
#[derive(Debug, Default)]
struct Pages {
    pid: i32,
    extended: Vec<u8>,
}

impl Memory for Pages {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        let local = libc::iovec { iov_base: page.as_mut_ptr().cast(), iov_len: page.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: page.len() };
        // SAFETY: the kernel writes at most a page into `page`; the remote side is only read.
        let read = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        // Whoever writes where he must not gets a signal, and that is not what programs do all day.
        (read == page.len() as isize).then_some(Rights::ALL)
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
    /// How long the thread was stopped for, and how much of that was work: where CPUs are short, whoever holds it waits for one like
    /// everybody else, and the thread would, too.
    stopped: Duration,
    worked: Duration,
    instructions: FxHashMap<u64, u32>,
    /// By instruction, page and whether it writes.
    accesses: FxHashMap<(u64, u64, bool), Seen>,
}

impl Trace {
    fn clear(&mut self) {
        self.length = 0;
        self.instructions.clear();
        self.accesses.clear();
    }

    fn burst(&self) -> Burst {
        Burst {
            length: self.length,
            instructions: self.instructions.iter().map(|(&ip, &count)| (ip, count)).collect(),
            accesses: self.accesses.values().copied().collect(),
            ..Burst::default()
        }
    }
}

impl Observer for Trace {
    fn instruction(&mut self, ip: u64) {
        self.length += 1;
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
    }
}
