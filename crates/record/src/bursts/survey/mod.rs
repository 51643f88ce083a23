//! From bursts, each of which shows a few microseconds of a thread, to how often accesses were made in all.
//!
//! - [`flow`]: how fast the code is that each began in, relative to the other code that it is connected with;
//! - [`classes`]: which code is connected, and how fast that is beside other code.

mod classes;
mod flow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Burst;
use super::taker::LENGTH;
use crate::clock::code::Function;
use crate::clock::counts::Instruction;
use crate::tasks::ProcessId;

/// A burst that ended early, at a system call, counts as if it had been at least so long: a few instructions tell little of what comes
/// after them.
const LEAST_LENGTH: f64 = 1000.0;

/// So many samples' worth of the assumption that bursts have met a stretch as often as samples.
const FEW_SAMPLES: f64 = 5.0;

/// A stretch that fewer bursts should have begun in may be missing by chance.
const LEAST_EXPECTED: f64 = 0.5;

/// A stretch of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stretch {
    /// An innermost loop of a function, or what of this is in none.
    Function(Function, Option<usize>),
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
    /// Instructions in known functions, by the stretch where bursts began and the call that they ended at.
    executed: FxHashMap<(usize, Option<Call>, Instruction), Executed>,
    /// By stretch and call: nanoseconds that bursts stand for of which others show what came behind the call.
    rest: FxHashMap<(usize, Call), f64>,
    /// Instructions in bursts that stand for no time, by where these began: the sum of the parts that they had.
    behind: FxHashMap<Call, FxHashMap<Instruction, f64>>,
    /// Processes that bursts were in.
    processes: FxHashSet<ProcessId>,
    /// Where instructions of a process are that bursts came by.
    known: FxHashMap<(ProcessId, u64), (usize, Option<Instruction>)>,
}

/// Behind a system call: where the thread goes on.
type Call = (ProcessId, u64);

/// An instruction in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    /// Nanoseconds that the bursts stand for, by the part that it had of their instructions.
    whole: f64,
    /// The same without what is behind the calls at their ends.
    own: f64,
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
    call: Option<Call>,
    /// Instructions by stretch.
    parts: Vec<(usize, f64)>,
}

impl Taken {
    /// The part (0..1) of a whole burst that it is.
    fn part(&self) -> f64 {
        (self.length / LENGTH as f64).min(1.0)
    }
}

/// What a burst stands for.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    pub thread: i32,
    /// So many executions, by each that it shows.
    pub each: f64,
    /// By how much, relative, it may be off by itself: a standard error.
    pub error: f64,
    /// What code runs together with that where it began, by number; behind a system call, where that was made most often.
    pub class: usize,
    /// By how much, relative, all bursts of that class may be off together, likewise.
    pub class_error: f64,
}

/// What bursts say in the end.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Each burst.
    pub bursts: Vec<Weighed>,
    /// Stretches that they do not stand for.
    pub missed: FxHashSet<usize>,
    /// Accesses that one more might have shown: the root of the mean square.
    pub unseen: f64,
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

    /// Numbers a stretch of the same code that `beside` is of.
    pub fn stretch_beside(&mut self, beside: usize, stretch: Stretch) -> usize {
        self.stretch(stretch, self.own[beside])
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

    /// Whether a burst was in that innermost loop of a function, or in what of it is in none.
    pub fn has_seen(&self, function: Function, innermost: Option<usize>) -> bool {
        self.stretches.get(&Stretch::Function(function, innermost)).is_some_and(|&number| self.seen[number])
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
        let (ip, time) = ((process, burst.ip), burst.time);
        let call = burst.call.map(|call| (process, call));
        let mut taken = Taken { thread, ip, start, time, length, accesses: 0.0, call, parts: Vec::new() };
        if let Some(call) = call {
            *self.rest.entry((start, call)).or_default() += time * (1.0 - taken.part());
        }
        for &(ip, count) in &burst.instructions {
            let Some((stretch, instruction)) = self.known(process, ip).filter(|(stretch, _)| !self.own[*stretch])
            else {
                continue;
            };
            *parts.entry(stretch).or_default() += f64::from(count);
            self.seen[stretch] = true;
            let Some(instruction) = instruction else { continue };
            let part = f64::from(count) / length;
            if time > 0.0 {
                let executed = self.executed.entry((start, call, instruction)).or_default();
                executed.whole += time * part;
                executed.own += time * part * taken.part();
            } else {
                *self.behind.entry(taken.ip).or_default().entry(instruction).or_default() += part;
            }
        }
        self.processes.insert(process);
        taken.parts = parts.into_iter().collect();
        let seen = burst.accesses.iter().filter(|seen| !self.is_own(process, seen.ip));
        taken.accesses = seen.map(|seen| f64::from(seen.count)).sum();
        self.taken.push(taken);
        Some(self.taken.len() - 1)
    }

    /// Stretches that no burst came by although half a burst or more should have begun there: others cannot stand for them, as they do
    /// for code of which there is little here and little there.
    pub fn missed(&self) -> FxHashSet<usize> {
        let (samples, bursts) = (self.samples.iter().sum::<f64>(), self.len() as f64);
        let missed =
            |stretch: &usize| !self.seen[*stretch] && self.samples[*stretch] * bursts >= LEAST_EXPECTED * samples;
        (0..self.samples.len()).filter(missed).collect()
    }

    /// By stretch: what the time of a burst that began there is to be multiplied by, to be a part (0..1) of the program's. Samples are
    /// many, and tell better than bursts how much of the time each stretch has (post-stratification); they also tell of the beginning,
    /// when no burst is taken yet. The parts add up to what is not `missed`.
    fn shares(&self, missed: &FxHashSet<usize>) -> Vec<f64> {
        let samples: f64 = self.samples.iter().sum();
        let all = 1.0 - missed.iter().map(|&stretch| self.samples[stretch]).sum::<f64>() / samples.max(1.0);
        let mut begun = vec![0.0; self.samples.len()];
        self.taken.iter().for_each(|burst| begun[burst.start] += burst.time);
        let total: f64 = begun.iter().sum();
        let told = |(begun, of): (&f64, &f64)| (of + FEW_SAMPLES) / (begun / total * samples + FEW_SAMPLES);
        let told: Vec<f64> = begun.iter().zip(&self.samples).map(told).collect();
        let corrected: f64 = begun.iter().zip(&told).map(|(begun, told)| begun * told).sum();
        told.into_iter().map(|told| all * told / corrected).collect()
    }

    /// Solves. `runs`: how often an instruction was executed, where samples tell; `time`: the program's user time, nanoseconds.
    pub fn solve(&self, runs: impl Fn(Instruction) -> Option<f64>, time: f64) -> Surveyed {
        if self.len() == 0 {
            return Surveyed::default();
        }
        let rows = self.rows();
        let missed = self.missed();
        let shares = self.shares(&missed);
        let rates = self.rates(&rows, &shares);
        let classes = self.classes(&rows, &rates, &shares, time, runs);
        // Of the time that a burst stands for, part is what came behind the system call at its end, which others show.
        let behind = self.behind_calls();
        let instructions = |(burst, rate): (&Taken, &f64)| {
            burst.time * shares[burst.start] * time * rate * classes.rates[classes.of_stretch[burst.start]]
        };
        let mut whole: Vec<f64> = self.taken.iter().zip(&rates).map(instructions).collect();
        // Where it began whose time a burst stands for.
        let mut start: Vec<usize> = self.taken.iter().map(|burst| burst.start).collect();
        let mut most = vec![0.0; self.taken.len()];
        for (number, burst) in self.taken.iter().enumerate().filter(|(_, burst)| burst.time > 0.0) {
            let Some(others) = burst.call.and_then(|call| behind.get(&call)) else { continue };
            let rest = whole[number] * (1.0 - burst.part());
            whole[number] -= rest;
            for &other in others {
                whole[other] += rest / others.len() as f64;
                if rest > most[other] {
                    (most[other], start[other]) = (rest, start[number]);
                }
            }
        }
        let weigh = |((burst, whole), &start): ((&Taken, &f64), &usize)| {
            let (error, class, class_error) = classes.error(start);
            Weighed { thread: burst.thread, each: whole / burst.length, error, class, class_error }
        };
        let bursts: Vec<Weighed> = self.taken.iter().zip(&whole).zip(&start).map(weigh).collect();
        let accesses = self.taken.iter().zip(&bursts).map(|(burst, of)| burst.accesses * of.each);
        let unseen = (accesses.map(|accesses| accesses * accesses).sum::<f64>() / bursts.len() as f64).sqrt();
        Surveyed { bursts, unseen, missed, assumed: classes.assumed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that goes round: `slow` executes 1 of 10 instructions and takes 9 of 10 nanoseconds, `fast` the others.
    fn round(bursts: usize) -> Survey {
        let mut survey = Survey::default();
        let path = crate::modules::ModuleStore::default().intern("/program");
        let slow = survey.stretch(Stretch::Function((path, 0x1000), None), false);
        let fast = survey.stretch(Stretch::Function((path, 0x2000), None), false);
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
        for (taken, Weighed { each, .. }) in survey.taken.iter().zip(&found.bursts) {
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
        let all = |found: &Surveyed| found.bursts.iter().map(|of| of.each * 3000.0).sum::<f64>();
        let assumed = survey.solve(|_| None, 1e9);
        assert!((all(&assumed) / (1e9 * classes::RATE) - 1.0).abs() < 1e-9);
        let fast = |((_, start), _): Instruction| (start == 0x2000).then_some(9e6);
        let found = survey.solve(fast, 1e9);
        let (mut of_fast, each) = (0.0, found.bursts.iter().map(|of| of.each));
        for (taken, each) in survey.taken.iter().zip(each) {
            of_fast +=
                each * taken.parts.iter().filter(|(stretch, _)| *stretch == 1).map(|(_, count)| count).sum::<f64>();
        }
        assert!((of_fast / 9e6 - 1.0).abs() < 1e-9, "{of_fast}");
    }

    /// Two loops between which nothing goes: in the first, most of whose time bursts came too late for, code is twice as fast.
    fn phases() -> Survey {
        let mut survey = Survey::default();
        let path = crate::modules::ModuleStore::default().intern("/program");
        for (loop_of, ip, bursts) in [(0, 0x1000, 100), (1, 0x1100, 300)] {
            let stretch = survey.stretch(Stretch::Function((path, 0x1000), Some(loop_of)), false);
            survey.learn(0, ip, (stretch, Some(((path, 0x1000), loop_of))));
            (0..1000).for_each(|_| survey.sample(stretch, true));
            for _ in 0..bursts {
                let burst = Burst { ip, time: 1e6, length: 5000, instructions: vec![(ip, 5000)], ..Burst::default() };
                survey.add(0, 7, &burst);
            }
        }
        survey
    }

    /// Instructions in each of the loops, and how far they may be off.
    fn by_phase(survey: &Survey, runs: impl Fn(Instruction) -> Option<f64>) -> [(f64, f64); 2] {
        let found = survey.solve(runs, 1e9);
        let of = |loop_of: usize| {
            let bursts = survey.taken.iter().zip(&found.bursts).filter(move |(taken, _)| taken.start == loop_of);
            (
                bursts.clone().map(|(_, of)| of.each * 5000.0).sum(),
                bursts.map(|(_, of)| of.class_error).fold(0.0, f64::max),
            )
        };
        [of(0), of(1)]
    }

    #[test]
    fn samples_say_how_much_of_the_time_is_whose() {
        let [(first, _), (second, _)] = by_phase(&phases(), |_| None);
        assert!((first / second - 1.0).abs() < 0.03, "{first} {second}");
    }

    #[test]
    fn what_nothing_connects_is_as_fast_as_its_counters_say() {
        // Half a second each: four instructions a nanosecond in the first, two in the second.
        let runs = |(_, op): Instruction| Some(if op == 0 { 2e9 } else { 1e9 });
        let found = by_phase(&phases(), runs);
        assert!((found[0].0 / 2e9 - 1.0).abs() < 0.01 && (found[1].0 / 1e9 - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.iter().all(|(_, error)| *error <= 0.1), "{found:?}");
        // Of the second nothing tells: it may be anything.
        let [(first, sure), (_, guessed)] = by_phase(&phases(), |(_, op)| (op == 0).then_some(2e9));
        assert!((first / 2e9 - 1.0).abs() < 0.01 && sure <= 0.1 && guessed >= 1.0, "{first} {sure} {guessed}");
    }

    #[test]
    fn bursts_do_not_stand_for_what_they_should_have_met() {
        let mut survey = phases();
        let path = crate::modules::ModuleStore::default().intern("/program");
        let (third, seldom) = (Some(2), Some(3));
        let third = survey.stretch(Stretch::Function((path, 0x1000), third), false);
        (0..1000).for_each(|_| survey.sample(third, true));
        // A sample in 3001: an eighth of a burst.
        let seldom = survey.stretch(Stretch::Function((path, 0x1000), seldom), false);
        survey.sample(seldom, true);
        let found = survey.solve(|_| None, 1e9);
        assert_eq!(found.missed.iter().copied().collect::<Vec<_>>(), [third]);
        let all: f64 = found.bursts.iter().map(|of| of.each * 5000.0).sum();
        assert!((all / (2.001 / 3.001 * 1e9 * classes::RATE) - 1.0).abs() < 1e-3, "{all}");
    }
}
