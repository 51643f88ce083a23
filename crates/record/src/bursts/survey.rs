//! From bursts, each of which shows a few microseconds of a thread, to how often accesses were made in all.
//!
//! ```text
//!   burst b stands for t_b of the program's time; it began in function f(b); of its l_b instructions c_bg are of function g
//!
//!   instructions of g    I_g = sum over b   t_b r_b c_bg / l_b          r_b: instructions in a nanosecond
//!   rate where b began   r_b = I_f / T_f                                 T_f: the time that bursts which began in f stand for
//! ```
//!
//! Moments are drawn from time, so slow code is where bursts begin too often. What they show of other code, a few thousand
//! instructions on, need not be corrected: the second line gives each function's rate from how often bursts came to it, the first
//! how often they came to it from those rates, and both together are solved by going round. That is the stationary distribution of
//! a chain of Markov whose states are functions. Functions that no burst connects (phases of a program) keep the rate that is assumed
//! for all of them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Burst;
use super::taker::LENGTH;
use crate::clock::code::Function;
use crate::clock::counts::Instruction;
use crate::space::mappings::PathId;
use crate::tasks::ProcessId;

/// Rounds of the solution.
const ROUNDS: usize = 60;
/// So many bursts' worth of the assumption that a function is as fast as all others: of functions that fewer begin in, what they execute
/// is chance.
const PRIOR: f64 = 20.0;
/// A burst that ended early, at a system call, counts as if it had been at least so long: a few instructions tell little of what comes
/// after them.
const LEAST_LENGTH: f64 = 1000.0;
/// Part of the time that both must tell of, so that the one is the measure of the other.
const LEAST_SHOWN: f64 = 0.05;
/// Instructions in a nanosecond where nothing tells.
const RATE: f64 = 2.0;

/// A stretch of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stretch {
    /// A function of a file, by its address there.
    Function(PathId, u64),
    /// Code that nobody knows the bounds of: a page of it.
    Page(ProcessId, u64),
}

/// All bursts of a recording.
#[derive(Debug, Default)]
pub struct Survey {
    taken: Vec<Taken>,
    stretches: FxHashMap<Stretch, usize>,
    /// Whether a stretch is the recorder's own, which does not count.
    own: Vec<bool>,
    /// Samples of the clock in each stretch.
    samples: Vec<f64>,
    /// Those of them at data accesses.
    at_data: Vec<u64>,
    /// Whether a burst was there.
    seen: Vec<bool>,
    /// Instructions in known functions, by the stretch where bursts began: nanoseconds that these stand for, by the part that each had of
    /// them.
    executed: FxHashMap<(usize, Instruction), f64>,
    /// Processes that bursts were in.
    processes: FxHashSet<ProcessId>,
    /// Where instructions of a process are that bursts came by.
    known: FxHashMap<(ProcessId, u64), (usize, Option<Instruction>)>,
}

/// What is kept of a burst.
#[derive(Debug)]
struct Taken {
    thread: i32,
    ip: (ProcessId, u64),
    start: usize,
    time: f64,
    length: f64,
    accesses: f64,
    /// Behind the system call that it ended at.
    call: Option<(ProcessId, u64)>,
    /// Instructions by stretch.
    parts: Vec<(usize, f64)>,
}

impl Taken {
    /// The part (0..1) of a whole burst that it is.
    fn part(&self) -> f64 {
        (self.length / LENGTH as f64).min(1.0)
    }
}

/// What bursts say in the end.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Of each burst: thread, and the accesses that one in it stands for.
    pub bursts: Vec<(i32, f64)>,
    /// Accesses in all of them together.
    pub accesses: f64,
    /// Whether nothing told how fast instructions are.
    pub assumed: bool,
}

impl Survey {
    /// Numbers a stretch of code; `own`: it is the recorder's.
    pub fn stretch(&mut self, stretch: Stretch, own: bool) -> usize {
        let next = self.samples.len();
        let number = *self.stretches.entry(stretch).or_insert(next);
        if number == next {
            self.own.push(own);
            self.samples.push(0.0);
            self.at_data.push(0);
            self.seen.push(false);
        }
        number
    }

    /// Counts a sample of the clock in a stretch, by its number; `at_data`: it is at a data access.
    pub fn sample(&mut self, stretch: usize, at_data: bool) {
        self.samples[stretch] += 1.0;
        self.at_data[stretch] += u64::from(at_data);
    }

    /// Samples at data accesses where a burst was, too.
    pub fn covered(&self) -> u64 {
        self.at_data.iter().zip(&self.seen).filter(|(_, seen)| **seen).map(|(samples, _)| samples).sum()
    }

    /// Whether a burst was in that process.
    pub fn has_followed(&self, process: ProcessId) -> bool {
        self.processes.contains(&process)
    }

    /// How many there are that stand for time.
    pub fn len(&self) -> usize {
        self.taken.iter().filter(|burst| burst.time > 0.0).count()
    }

    /// Whether a burst was in that function.
    pub fn has_seen(&self, function: Function) -> bool {
        self.stretches.get(&Stretch::Function(function.0, function.1)).is_some_and(|&number| self.seen[number])
    }

    /// Where an instruction is, as far as that is known.
    pub fn known(&self, process: ProcessId, ip: u64) -> Option<(usize, Option<Instruction>)> {
        self.known.get(&(process, ip)).copied()
    }

    /// Says where an instruction is.
    pub fn learn(&mut self, process: ProcessId, ip: u64, place: (usize, Option<Instruction>)) {
        self.known.insert((process, ip), place);
    }

    /// Whether an instruction is known to be the recorder's own.
    pub fn is_own(&self, process: ProcessId, ip: u64) -> bool {
        self.known(process, ip).is_some_and(|(stretch, _)| self.own[stretch])
    }

    /// Adds a burst whose instructions are all known; its number. None if all of them are the recorder's own.
    pub fn add(&mut self, process: ProcessId, thread: i32, burst: &Burst) -> Option<usize> {
        let mut parts: FxHashMap<usize, f64> = FxHashMap::default();
        let theirs = || burst.instructions.iter().filter(|(ip, _)| !self.is_own(process, *ip));
        let executed: f64 = theirs().map(|(_, count)| f64::from(*count)).sum();
        if executed <= 0.0 {
            return None;
        }
        let length = (executed + burst.repetitions).max(LEAST_LENGTH);
        let start = self.known(process, burst.ip).map_or(0, |(stretch, _)| stretch);
        for &(ip, count) in &burst.instructions {
            let Some((stretch, instruction)) = self.known(process, ip).filter(|(stretch, _)| !self.own[*stretch])
            else {
                continue;
            };
            *parts.entry(stretch).or_default() += f64::from(count);
            self.seen[stretch] = true;
            if let Some(instruction) = instruction {
                *self.executed.entry((start, instruction)).or_default() += burst.time * f64::from(count) / length;
            }
        }
        self.processes.insert(process);
        let parts = parts.into_iter().collect();
        let seen = burst.accesses.iter().filter(|seen| !self.is_own(process, seen.ip));
        let accesses = seen.map(|seen| f64::from(seen.count)).sum();
        let (ip, time) = ((process, burst.ip), burst.time);
        let call = burst.call.map(|call| (process, call));
        self.taken.push(Taken { thread, ip, start, time, length, accesses, call, parts });
        Some(self.taken.len() - 1)
    }

    /// Solves. `runs`: how often an instruction was executed, where samples tell; `time`: the program's user time, nanoseconds.
    pub fn solve(&self, runs: impl Fn(Instruction) -> Option<f64>, time: f64) -> Surveyed {
        let total: f64 = self.taken.iter().map(|burst| burst.time).sum();
        if total <= 0.0 {
            return Surveyed::default();
        }
        let rates = self.rates();
        let scale = time / total;
        // Where both tell how often something was executed, they must tell the same.
        let (mut counted, mut shown) = (0.0, 0.0);
        let of_start: FxHashMap<usize, f64> =
            self.taken.iter().zip(&rates).map(|(burst, rate)| (burst.start, *rate)).collect();
        let mut told = FxHashSet::default();
        for (&(start, instruction), &executed) in &self.executed {
            if let Some(runs) = runs(instruction) {
                counted += if told.insert(instruction) { runs } else { 0.0 };
                shown += executed * scale * of_start.get(&start).copied().unwrap_or(1.0);
            }
        }
        // A few of them may be anything.
        let enough = shown > LEAST_SHOWN * time && counted > 0.0;
        let rate = if enough { counted / shown } else { RATE };
        // Of the time that a burst stands for, part is what came behind the system call at its end, which others show.
        let behind = self.behind_calls();
        let mut whole: Vec<f64> =
            self.taken.iter().zip(&rates).map(|(burst, of)| burst.time * scale * rate * of).collect();
        for (number, burst) in self.taken.iter().enumerate().filter(|(_, burst)| burst.time > 0.0) {
            let Some(others) = burst.call.and_then(|call| behind.get(&call)) else { continue };
            let rest = whole[number] * (1.0 - burst.part());
            whole[number] -= rest;
            others.iter().for_each(|&other| whole[other] += rest / others.len() as f64);
        }
        let bursts: Vec<(i32, f64)> =
            self.taken.iter().zip(&whole).map(|(burst, whole)| (burst.thread, whole / burst.length)).collect();
        let accesses = self.taken.iter().zip(&bursts).map(|(burst, (_, each))| burst.accesses * each).sum();
        Surveyed { bursts, accesses, assumed: !enough }
    }

    /// Bursts that begin behind a system call, by where that is.
    fn behind_calls(&self) -> FxHashMap<(ProcessId, u64), Vec<usize>> {
        let mut behind: FxHashMap<(ProcessId, u64), Vec<usize>> = FxHashMap::default();
        for (number, burst) in self.taken.iter().enumerate().filter(|(_, burst)| burst.time == 0.0) {
            behind.entry(burst.ip).or_default().push(number);
        }
        behind
    }

    /// Of each burst that stands for time, the parts of what it shows, of 1 in all: its own, and what follows the system call at its end.
    fn rows(&self) -> Vec<Vec<(usize, f64)>> {
        let behind = self.behind_calls();
        // What follows each call, all in all.
        let follow: FxHashMap<(ProcessId, u64), Vec<(usize, f64)>> = behind
            .iter()
            .map(|(&call, numbers)| {
                let mut sum: FxHashMap<usize, f64> = FxHashMap::default();
                for burst in numbers.iter().map(|&number| &self.taken[number]) {
                    let of = burst.length * numbers.len() as f64;
                    burst.parts.iter().for_each(|&(stretch, count)| *sum.entry(stretch).or_default() += count / of);
                }
                (call, sum.into_iter().collect())
            })
            .collect();
        let row = |burst: &Taken| {
            if burst.time <= 0.0 {
                return Vec::new();
            }
            let rest = burst.call.and_then(|call| follow.get(&call));
            let own = if rest.is_some() { burst.part() } else { 1.0 };
            let parts = burst.parts.iter().map(|&(stretch, count)| (stretch, count / burst.length * own));
            parts.chain(rest.into_iter().flatten().map(|&(stretch, part)| (stretch, part * (1.0 - own)))).collect()
        };
        self.taken.iter().map(row).collect()
    }

    /// The rate at which each burst's instructions were executed, relative to the mean of all.
    fn rates(&self) -> Vec<f64> {
        let total: f64 = self.taken.iter().map(|burst| burst.time).sum();
        let samples: f64 = self.samples.iter().sum();
        let bursts = self.taken.iter().filter(|burst| burst.time > 0.0).count() as f64;
        let rows = self.rows();
        let mut begun = vec![0.0; self.samples.len()];
        self.taken.iter().for_each(|burst| begun[burst.start] += burst.time / total);
        // Bursts also begin in page faults, which are not the program's own time, and samples are of that alone.
        let assumed = |of: usize| (self.samples[of] + PRIOR) / (begun[of] * samples + PRIOR);
        let assumed: Vec<f64> = (0..begun.len()).map(|of| assumed(of).min(1.0)).collect();
        let mut rates = vec![1.0; self.taken.len()];
        let mut executed = vec![0.0; self.samples.len()];
        for _ in 0..ROUNDS {
            let all: f64 = self.taken.iter().zip(&rates).map(|(burst, rate)| burst.time * rate).sum();
            executed.fill(0.0);
            for ((burst, rate), row) in self.taken.iter().zip(&rates).zip(&rows) {
                let weight = burst.time * rate / all;
                row.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
            }
            for (burst, rate) in self.taken.iter().zip(&mut rates) {
                let of = burst.start;
                *rate = (bursts * executed[of] + PRIOR * assumed[of]) / (bursts * begun[of] + PRIOR);
            }
        }
        let mean = self.taken.iter().zip(&rates).map(|(burst, rate)| burst.time * rate).sum::<f64>() / total;
        rates.iter_mut().for_each(|rate| *rate /= mean);
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that goes round: `slow` executes 1 of 10 instructions and takes 9 of 10 nanoseconds, `fast` the others.
    fn round(bursts: usize) -> Survey {
        let mut survey = Survey::default();
        let path = crate::modules::ModuleStore::default().intern("/program");
        let slow = survey.stretch(Stretch::Function(path, 0x1000), false);
        let fast = survey.stretch(Stretch::Function(path, 0x2000), false);
        survey.learn(0, 0x1000, (slow, Some(((path, 0x1000), 0))));
        survey.learn(0, 0x2000, (fast, Some(((path, 0x2000), 0))));
        for n in 0..bursts {
            let in_slow = n % 10 != 0;
            survey.sample(if in_slow { slow } else { fast }, true);
            // A third of each burst is where it began; the rest is as the program is.
            let of_slow = 200 + if in_slow { 1000 } else { 0 };
            let burst = Burst {
                ip: if in_slow { 0x1000 } else { 0x2000 },
                time: 1e6,
                length: 3000,
                repetitions: 0.0,
                instructions: vec![(0x1000, of_slow), (0x2000, 3000 - of_slow)],
                accesses: Vec::new(),
                call: None,
            };
            survey.add(0, 7, &burst);
        }
        survey
    }

    fn part_of_slow(survey: &Survey) -> f64 {
        let found = survey.solve(|_| None, 1e9);
        let (mut slow, mut all) = (0.0, 0.0);
        for (taken, (_, each)) in survey.taken.iter().zip(&found.bursts) {
            slow += each * taken.parts.iter().filter(|(stretch, _)| *stretch == 0).map(|(_, count)| count).sum::<f64>();
            all += each * taken.length;
        }
        slow / all
    }

    #[test]
    fn slow_code_is_not_counted_more_often_for_being_slow() {
        // By the bursts as they are it would be 37 %.
        let found = part_of_slow(&round(1000));
        assert!((0.095..0.125).contains(&found), "{found}");
        // Few bursts are drawn to what is assumed.
        assert!(part_of_slow(&round(10)) > found);
    }

    #[test]
    fn what_samples_count_sets_the_scale() {
        let survey = round(100);
        let all = |found: &Surveyed| found.bursts.iter().map(|(_, each)| each * 3000.0).sum::<f64>();
        let assumed = survey.solve(|_| None, 1e9);
        assert!((all(&assumed) / (1e9 * RATE) - 1.0).abs() < 1e-9);
        let fast = |((_, start), _): Instruction| (start == 0x2000).then_some(9e6);
        let found = survey.solve(fast, 1e9);
        let (mut of_fast, each) = (0.0, found.bursts.iter().map(|(_, each)| each));
        for (taken, each) in survey.taken.iter().zip(each) {
            of_fast +=
                each * taken.parts.iter().filter(|(stretch, _)| *stretch == 1).map(|(_, count)| count).sum::<f64>();
        }
        assert!((of_fast / 9e6 - 1.0).abs() < 1e-9, "{of_fast}");
    }
}
