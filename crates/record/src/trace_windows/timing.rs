//! How fast a thread goes, measured.
//!
//! ```text
//!   a clock of its own for the thread:   sample ── 40 us ── sample ── 40 us ── sample          registers of each; it is not stopped
//!                                           │
//!   emulated from the first on, until the registers are those of the next: so many instructions in that time
//! ```
//!
//! Samples tell nothing of vector registers, and memory is read when the thread is long gone on: some of it has changed. That all
//! general registers are the same in the end says that nothing which mattered had. A thread that was stopped first would be slow for
//! as long as its caches are cold, which on a virtual machine is milliseconds.

use std::time::{Duration, Instant};

use numamma_emulator::{Access, Emulator, Limits, Observer, Place, State, Stop};
use rustc_hash::FxHashMap;

use super::Timed;
use super::memory::Pages;
use super::trace::{MOST_ACCESSES, Rounds, repetitions};
use crate::clock::counts::resample::Random;
use crate::perf::decode::Record;
use crate::perf::glances::Glances;

/// From one sample to the next: as long as can be emulated in some milliseconds, but several times what a sample takes.
const PERIOD: Duration = Duration::from_micros(40);
const OF_TICK: f64 = 4.0;
/// Samples that are waited for.
const SAMPLES: f64 = 5.5;
/// Two samples are so many periods apart at most; else the thread was in the kernel, or somebody else had its CPU.
const APART: f64 = 1.2;
/// Instructions that are emulated for a timing, if that may be more than for one interval.
const MOST: u64 = 1_000_000;
/// Instructions in a nanosecond at most: more were never seen in code that does something.
const FASTEST: f64 = 14.0;
/// After so many more the same registers are taken to come once only.
const ONCE: u64 = 1 << 16;
/// What emulation may take before its share of the time is that long.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Addresses of code which are taken to go alike, as far as it matters whether they are timed again: 256 bytes.
const ALIKE: u32 = 8;

/// After so many timings half as many are made.
const HALF: f64 = 2.0;
/// Part (0..1) of the times that a thread is sampled all the same: it may be elsewhere by now.
const LEAST_LOOKS: f64 = 0.1;

/// Times threads.
#[derive(Debug)]
pub struct Timer {
    /// The clock; none if the kernel refuses it: samples are one of several bases for what they tell.
    glances: Option<Glances>,
    /// Samples that were taken.
    samples: u64,
    began: Instant,
    /// What emulation took.
    spent: Duration,
    /// Nanoseconds of a thread's time that a sample takes.
    tick: f64,
    /// Timings by process and code, whether anything came of them or not.
    tried: FxHashMap<(i32, u64), u32>,
    /// How probable (0..1) it is that a thread is sampled for a timing, for that costs it some samples' time.
    looks: f64,
    cpus: f64,
}

/// Where a thread was, at a time in nanoseconds.
#[derive(Debug)]
pub struct Glimpse {
    time: i64,
    place: Place,
    flags: u64,
}

impl Glimpse {
    /// The thread's registers, as far as that tells; others as in `like`.
    pub fn state(&self, like: &State) -> State {
        let Place { ip, general } = self.place;
        State { general, ip, flags: self.flags, ..like.clone() }
    }
}

impl Timer {
    /// `tick`: nanoseconds of a thread's time that a sample takes; `glances`: a clock of the period that goes with it.
    pub fn new(tick: f64, glances: Option<Glances>) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        Self {
            glances,
            samples: 0,
            began: Instant::now(),
            spent: Duration::ZERO,
            tick,
            tried: FxHashMap::default(),
            looks: 1.0,
            cpus,
        }
    }

    /// The period of the clock, nanoseconds, where a sample takes `tick`.
    pub fn period_of(tick: f64) -> f64 {
        (PERIOD.as_nanos() as f64).max(OF_TICK * tick)
    }

    fn period(&self) -> f64 {
        Self::period_of(self.tick)
    }

    /// Nanoseconds of threads' time that samples have taken since the last question.
    pub fn taken(&mut self) -> f64 {
        std::mem::take(&mut self.samples) as f64 * self.tick
    }

    /// Samples a thread for a moment, if emulation, which may take `share` of the time of each CPU, has some left.
    pub fn watch(&mut self, thread: (i32, i32), share: f64, random: &mut Random) -> Vec<Glimpse> {
        let left = self.began.elapsed().mul_f64(share * self.cpus) + AT_ONCE;
        if self.spent > left || random.uniform() > self.looks {
            return Vec::new();
        }
        self.sample(thread, SAMPLES)
    }

    /// Where a thread is about now.
    pub fn glance(&mut self, thread: (i32, i32)) -> Option<Glimpse> {
        self.sample(thread, 1.5).pop()
    }

    /// Samples a thread, which runs on that CPU, for as many periods.
    fn sample(&mut self, (tid, cpu): (i32, i32), periods: f64) -> Vec<Glimpse> {
        let time = Duration::from_nanos((periods * self.period()) as u64);
        let Some(glances) = &mut self.glances else { return Vec::new() };
        let seen = |record| match record {
            Record::Sample { time, ip, registers, .. } => {
                let general = *registers.general.first_chunk()?;
                Some(Glimpse { time, place: Place { ip, general }, flags: registers.flags })
            }
            _ => None,
        };
        let glimpses: Vec<Glimpse> = glances.take(tid, cpu, time).into_iter().filter_map(seen).collect();
        self.samples += glimpses.len() as u64;
        glimpses
    }

    /// How fast the thread went from one sample to another, where that can be known. `near`: its registers soon after; `fastest`:
    /// instructions that the processor retires in a nanosecond. Code that was timed often is not always timed again.
    pub fn time(
        &mut self,
        seen: &[Glimpse],
        near: &State,
        (emulator, pages): (&mut Emulator, &mut Pages),
        pid: i32,
        fastest: f64,
        random: &mut Random,
    ) -> Option<Timed> {
        let (first, period) = (seen.first()?, self.period());
        let tried = self.tried.entry((pid, first.place.ip >> ALIKE)).or_default();
        // Where the thread was it is likely to be again.
        let wanted = (1.0 + (f64::from(*tried) / HALF).powi(2)).recip();
        let looked = std::mem::replace(&mut self.looks, wanted.max(LEAST_LOOKS));
        if random.uniform() > wanted / looked {
            return None;
        }
        *tried += 1;
        let began = Instant::now();
        let mut state = first.state(near);
        let (mut work, mut ran, mut done) = (Work::default(), 0.0, 0.0);
        pages.begin(pid);
        emulator.begin();
        let most = |nanoseconds: f64| (fastest.min(FASTEST) * nanoseconds) as u64;
        // Registers that come again were perhaps there before they were found: nobody knows when it was.
        let mut once = true;
        let mut from = None;
        let mut go_on = |state: &mut State, work: &mut Work, instructions, from: Option<Place>, to: Option<Place>| {
            let limits = Limits { instructions, repetitions: Some(MOST), until: [to, from] };
            (emulator.go_on(state, pages, work, limits).stop == Stop::Place).then(|| state.place())
        };
        for two in seen.windows(2) {
            let apart = (two[1].time - two[0].time) as f64;
            let may = apart > 2.0 * self.tick && apart < APART * period;
            if !may || from.is_some() && work.instructions + most(apart) > MOST {
                break;
            }
            let reached = go_on(&mut state, &mut work, most(apart), from, Some(two[1].place));
            once &= reached.is_none() || reached != from;
            if reached != Some(two[1].place) {
                break;
            }
            (ran, done, from) = (ran + apart - self.tick, work.done(), reached);
        }
        once &= from.is_some() && go_on(&mut state, &mut work, ONCE, from, None).is_none();
        self.spent += began.elapsed();
        (once && ran > 0.0).then(|| Timed { ip: first.place.ip, speed: done / ran })
    }
}

/// Counts instructions, repetitions of string instructions as they are in [`super::TraceWindow`].
#[derive(Debug, Default)]
struct Work {
    instructions: u64,
    /// Accesses of the latest.
    accesses: usize,
    repeated: usize,
    rounds: Rounds,
}

impl Work {
    fn done(&self) -> f64 {
        self.instructions as f64 + repetitions(self.repeated)
    }
}

impl Observer for Work {
    fn instruction(&mut self, _ip: u64) {
        self.instructions += 1;
        self.accesses = 0;
        self.rounds.end();
    }

    fn goes_on(&mut self) {
        self.rounds.go_on();
    }

    fn access(&mut self, access: Access) {
        if !self.rounds.is_new(&access) {
            return;
        }
        self.accesses += 1;
        self.repeated += usize::from(self.accesses > MOST_ACCESSES);
    }
}

#[cfg(test)]
mod tests {
    use std::arch::asm;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

    use super::*;
    use crate::trace_windows::threads::running_on;

    /// Rounds, each of which waits for the one before, by a counter in a register.
    fn spin(counter: &AtomicU64, done: &AtomicBool) {
        const ROUNDS: u64 = 1 << 20;
        while !done.load(Ordering::Relaxed) {
            let began = Instant::now();
            // SAFETY: changes its own registers alone.
            unsafe {
                asm!(
                    "2:",
                    "imul {x}, {x}, 3", // three cycles
                    "dec {n}",
                    "jnz 2b",
                    n = inout(reg) ROUNDS => _,
                    x = inout(reg) 1_u64 => _,
                    options(nomem, nostack),
                );
            }
            let speed = 3.0 * ROUNDS as f64 / began.elapsed().as_nanos() as f64;
            counter.fetch_max((speed * 1e6) as u64, Ordering::Relaxed);
        }
    }

    /// Nanoseconds that a sample is taken to take.
    const TICK: f64 = 1000.0;

    /// A clock of this thread and those that it starts.
    fn inherited() -> Option<Glances> {
        let machine = numamma_topology::Machine::read(std::path::Path::new("/"));
        let cpus: Vec<u32> = machine.online_cpus().collect();
        Glances::open(0, &cpus, Timer::period_of(TICK) as u64).ok()
    }

    #[test]
    fn a_loop_goes_as_fast_as_it_says() {
        /// Ends the loop, also where the test fails.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (fastest, done, tid) = (AtomicU64::new(0), AtomicBool::new(false), AtomicI32::new(0));
        std::thread::scope(|scope| {
            let end = End(&done);
            let mut timer = Timer::new(TICK, inherited());
            scope.spawn(|| {
                // SAFETY: no arguments, no effects.
                tid.store(unsafe { libc::gettid() }, Ordering::Relaxed);
                spin(&fastest, &done);
            });
            let (mut emulator, mut pages, mut random) =
                (Emulator::new().expect("memory for code"), Pages::default(), Random::new(1));
            let until = Instant::now() + Duration::from_secs(20);
            let mut speeds = Vec::new();
            while speeds.len() < 5 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
                let (pid, tid) = (std::process::id() as i32, tid.load(Ordering::Relaxed));
                let Some(cpu) = running_on(pid, tid) else { continue };
                let seen = timer.watch((tid, cpu), 0.5, &mut random);
                let both = (&mut emulator, &mut pages);
                speeds.extend(timer.time(&seen, &State::new(), both, pid, 20.0, &mut random).map(|of| of.speed));
            }
            drop(end);
            // The kernel may refuse to sample: then nothing is measured.
            let refused = inherited().is_none();
            assert!(refused || speeds.len() == 5, "{speeds:?}");
            let told = fastest.load(Ordering::Relaxed) as f64 / 1e6;
            // What a sample costs is not known here; others may have half of the core, or for a moment all of it.
            speeds.sort_by(f64::total_cmp);
            assert!(refused || (0.1 * told..1.6 * told).contains(&speeds[2]), "{speeds:?} {told}");
            assert!(speeds.iter().all(|speed| (0.0..1.6 * told).contains(speed)), "{speeds:?} {told}");
        });
    }
}
