//! From trace windows, each of which shows a few microseconds of a thread, to how often accesses were made in all.
//!
//! - [`strata`]: which trace windows and samples are of the same time, and of the same phase of the program;
//! - [`flow`]: how fast the code is that each began in, relative to the other code that it is connected with;
//! - [`classes`]: which code is connected, and how fast that is beside other code;
//! - [`timed`]: how fast that is where it was measured;
//! - [`pace`]: how fast that is where no loop's counter tells, and nothing was measured.

mod classes;
mod flow;
mod pace;
mod phases;
mod strata;
#[cfg(test)]
mod tests;
mod timed;

use rustc_hash::{FxHashMap, FxHashSet};

use self::pace::Spans;
use self::phases::Phases;
use self::strata::{Latest, Stratum};
use super::taker::LENGTH;
use super::{Span, TraceWindow};
use crate::clock::code::Function;
use crate::clock::counts::Instruction;
use crate::tasks::ProcessId;

/// A trace window that ended early, at a system call, counts as if it had been at least so long: a few instructions tell little of what comes
/// after them.
const LEAST_LENGTH: f64 = 1000.0;

/// So many samples' worth of the assumption that trace windows have met a stretch as often as samples.
const FEW_SAMPLES: f64 = 5.0;

/// A stretch that fewer trace windows should have begun in may be missing by chance.
const LEAST_EXPECTED: f64 = 0.5;

/// A stretch of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stretch {
    /// An innermost loop of a function, or what of this is in none.
    Function(Function, Option<usize>),
    /// Code that nobody knows the bounds of: a page of it.
    Page(ProcessId, u64),
}

/// All trace windows of a recording.
#[derive(Debug, Default)]
pub struct Survey {
    taken: Vec<Taken>,
    stretches: FxHashMap<Stretch, usize>,
    /// True if a stretch is the recorder's own, which does not count.
    own: Vec<bool>,
    /// Samples of the clock in each stretch.
    samples: Vec<f64>,
    /// Those of them at data accesses.
    at_data: Vec<u64>,
    /// True if a trace window was there.
    seen: Vec<bool>,
    /// Instructions in known functions, by the state where trace windows began and the call that they ended at.
    executed: FxHashMap<(usize, Option<Call>, Instruction), Executed>,
    /// By state and call: time that trace windows stand for, in samples, of which others show what came behind the call.
    rest: FxHashMap<(usize, Call), f64>,
    /// Instructions in trace windows that stand for no time, by where these began: the sum of the parts that they had.
    behind: FxHashMap<Call, FxHashMap<Instruction, f64>>,
    /// Processes that trace windows were in.
    processes: FxHashSet<ProcessId>,
    /// Where instructions of a process are that trace windows came by.
    known: FxHashMap<(ProcessId, u64), (usize, Option<Instruction>)>,
    spans: Spans,
    /// Stretches in phases, by number.
    states: Vec<State>,
    state_of: FxHashMap<(usize, usize), usize>,
    phases: Phases,
    stratum: Stratum,
    /// Speeds that were measured, by state, in instructions a nanosecond.
    timed: Vec<(usize, f64)>,
}

/// Behind a system call in a phase: where the thread goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Call {
    process: ProcessId,
    phase: usize,
    ip: u64,
}

/// A stretch in a phase.
#[derive(Clone, Copy, Debug)]
struct State {
    phase: usize,
    /// Samples of the clock there.
    samples: f64,
}

/// An instruction in trace windows.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    /// Time that the trace windows stand for, in samples, by the part that it had of their instructions.
    whole: f64,
    /// The same without what is behind the calls at their ends.
    own: f64,
}

/// What is kept of a trace window.
#[derive(Debug, Default)]
struct Taken {
    thread: i32,
    /// Where it began.
    ip: Call,
    /// The state where it began, by number.
    start: usize,
    /// What it stands for: nanoseconds until that is known in samples.
    time: f64,
    length: f64,
    accesses: f64,
    /// Behind the system call that it ended at.
    call: Option<Call>,
    /// Instructions by state.
    parts: Vec<(usize, f64)>,
}

impl Taken {
    /// Instructions, without what repetitions count for.
    fn executed(&self) -> f64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    /// The part (0..1) of a whole trace window that it is.
    fn part(&self) -> f64 {
        (self.length / LENGTH as f64).min(1.0)
    }
}

/// The program's user time, nanoseconds.
#[derive(Debug)]
struct Time {
    /// By state: of a trace window that began there, by each sample that it stands for.
    of_trace_window: Vec<f64>,
    of_sample: f64,
}

/// What a trace window stands for.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    pub thread: i32,
    /// So many executions, by each that it shows.
    pub each: f64,
    /// By how much, relative, it may be off by itself: a standard error.
    pub error: f64,
    /// What code runs together with that where it began, by number; behind a system call, where that was made most often.
    pub class: usize,
    /// By what factor all trace windows of that class may be off together: the standard error of its logarithm.
    pub class_error: f64,
}

/// What trace windows say in the end.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Each trace window.
    pub trace_windows: Vec<Weighed>,
    /// Stretches that they do not stand for.
    pub missed: FxHashSet<usize>,
    /// Accesses that one more might have shown: the root of the mean square.
    pub unseen: f64,
    /// How far the number of all accesses that trace windows tell of may be off because code goes faster or slower: a standard error of its logarithm.
    pub error: f64,
    /// True if nothing told how fast instructions are.
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

    /// Counts a sample of the clock where it was; `at_data`: it is at a data access. Samples and trace windows are told of in the order of their
    /// times.
    pub fn sample(&mut self, (stretch, instruction): (usize, Option<Instruction>), at_data: bool) {
        self.stratum.samples.push((stretch, instruction));
        if self.stratum.is_full() {
            self.close();
        }
        self.samples[stretch] += 1.0;
        self.at_data[stretch] += u64::from(at_data);
    }

    /// True if no sample was told of yet.
    pub fn has_no_samples(&self) -> bool {
        self.samples.iter().all(|samples| *samples == 0.0)
    }

    /// Samples at data accesses where a trace window was, too.
    pub fn covered(&self) -> u64 {
        self.at_data.iter().zip(&self.seen).filter(|(_, seen)| **seen).map(|(samples, _)| samples).sum()
    }

    /// True if a trace window was in that process.
    pub fn has_followed(&self, process: ProcessId) -> bool {
        self.processes.contains(&process)
    }

    /// How many there are that stand for time.
    pub fn len(&self) -> usize {
        self.taken.iter().filter(|trace_window| trace_window.time > 0.0).count()
    }

    /// True if a trace window was in that innermost loop of a function, or in what of it is in none.
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

    /// True if an instruction is known to be the recorder's own.
    pub fn is_own(&self, process: ProcessId, ip: u64) -> bool {
        self.known(process, ip).is_some_and(|(stretch, _)| self.own[stretch])
    }

    /// Adds a trace window whose instructions are all known; its number. None if all of them are the recorder's own.
    pub fn add(&mut self, process: ProcessId, thread: i32, trace_window: &TraceWindow) -> Option<usize> {
        let mut parts: FxHashMap<usize, f64> = FxHashMap::default();
        let theirs = || trace_window.instructions.iter().filter(|(ip, _)| !self.is_own(process, *ip));
        let executed: f64 = theirs().map(|(_, count)| f64::from(*count)).sum();
        if executed <= 0.0 {
            return None;
        }
        let length = (executed + trace_window.repetitions).max(LEAST_LENGTH);
        let start = self.known(process, trace_window.ip).map_or(0, |(stretch, _)| stretch);
        let mut of_known = Vec::new();
        for &(ip, count) in &trace_window.instructions {
            let Some((stretch, instruction)) = self.theirs(process, ip) else { continue };
            *parts.entry(stretch).or_default() += f64::from(count);
            self.seen[stretch] = true;
            of_known.extend(instruction.map(|instruction| (instruction, f64::from(count) / length)));
        }
        self.processes.insert(process);
        let theirs = trace_window.accesses.iter().filter(|seen| !self.is_own(process, seen.ip));
        let accesses = theirs.map(|seen| f64::from(seen.count)).sum();
        let known = |ip: &u64| self.theirs(process, *ip).and_then(|(stretch, of)| Some((stretch, of?)));
        let in_known = |span: &Span| span.iter().map(known).collect::<Option<Vec<_>>>()?.try_into().ok();
        let latest = Latest {
            number: self.taken.len(),
            process,
            ip: trace_window.ip,
            call: trace_window.call,
            start,
            parts: parts.into_iter().collect(),
            executed: of_known,
            spans: trace_window.spans.iter().filter_map(in_known).collect(),
            timed: trace_window.timed.and_then(|of| Some((self.theirs(process, of.ip)?.0, of.speed))),
        };
        let number = latest.number;
        self.stratum.trace_windows.push(latest);
        self.stratum.timed += usize::from(trace_window.time > 0.0);
        self.taken.push(Taken { thread, time: trace_window.time, length, accesses, ..Taken::default() });
        if self.stratum.is_full() {
            self.close();
        }
        Some(number)
    }

    /// Where an instruction is, if that is known, and not the recorder's own.
    fn theirs(&self, process: ProcessId, ip: u64) -> Option<(usize, Option<Instruction>)> {
        self.known(process, ip).filter(|(stretch, _)| !self.own[*stretch])
    }

    /// Stretches that no trace window came by although half a trace window or more should have begun there: others cannot stand for them, as they do
    /// for code of which there is little here and little there.
    pub fn missed(&self) -> FxHashSet<usize> {
        let (samples, trace_windows) = (self.samples.iter().sum::<f64>(), self.len() as f64);
        let missed = |stretch: &usize| {
            !self.seen[*stretch] && self.samples[*stretch] * trace_windows >= LEAST_EXPECTED * samples
        };
        (0..self.samples.len()).filter(missed).collect()
    }

    /// Shares `time`, the program's user time in nanoseconds. Samples are many, and tell better than trace windows how much of it each state
    /// has (post-stratification); they also tell of the beginning, when no trace window is taken yet. The parts add up to what is not `missed`.
    fn share(&self, time: f64, missed: &FxHashSet<usize>) -> Time {
        let samples: f64 = self.samples.iter().sum();
        let all = 1.0 - missed.iter().map(|&stretch| self.samples[stretch]).sum::<f64>() / samples.max(1.0);
        let mut begun = vec![0.0; self.states.len()];
        self.taken.iter().for_each(|trace_window| begun[trace_window.start] += trace_window.time);
        let total: f64 = begun.iter().sum();
        let told = |(begun, of): (&f64, &State)| (of.samples + FEW_SAMPLES) / (begun / total * samples + FEW_SAMPLES);
        let told: Vec<f64> = begun.iter().zip(&self.states).map(told).collect();
        let corrected: f64 = begun.iter().zip(&told).map(|(begun, told)| begun * told).sum();
        let of_trace_window = told.into_iter().map(|told| time * all * told / corrected).collect();
        Time { of_trace_window, of_sample: time / samples.max(1.0) }
    }

    /// Solves. `runs`: how often an instruction was executed, where samples tell; `time`: the program's user time, nanoseconds;
    /// `fastest`: instructions that the processor retires in a nanosecond, 0 if that is not known.
    pub fn solve(&self, runs: impl Fn(Instruction) -> Option<f64>, time: f64, fastest: f64) -> Surveyed {
        if self.len() == 0 {
            return Surveyed::default();
        }
        let rows = self.rows();
        let missed = self.missed();
        let time = self.share(time, &missed);
        let rates = self.rates(&rows, &time);
        let classes = self.classes(&rows, &rates, &time, fastest, runs);
        // Of the time that a trace window stands for, part is what came behind the system call at its end, which others show.
        let behind = self.behind_calls();
        let instructions = |trace_window: &Taken| {
            trace_window.time
                * time.of_trace_window[trace_window.start]
                * rates[trace_window.start]
                * classes.rates[classes.of_state[trace_window.start]]
        };
        let mut whole: Vec<f64> = self.taken.iter().map(instructions).collect();
        // Where it began whose time a trace window stands for.
        let mut start: Vec<usize> = self.taken.iter().map(|trace_window| trace_window.start).collect();
        let mut most = vec![0.0; self.taken.len()];
        for (number, trace_window) in self.taken.iter().enumerate().filter(|(_, trace_window)| trace_window.time > 0.0)
        {
            let Some(others) = trace_window.call.and_then(|call| behind.get(&call)) else { continue };
            let rest = whole[number] * (1.0 - trace_window.part());
            whole[number] -= rest;
            for &other in others {
                whole[other] += rest / others.len() as f64;
                if rest > most[other] {
                    (most[other], start[other]) = (rest, start[number]);
                }
            }
        }
        let weigh = |((trace_window, whole), &start): ((&Taken, &f64), &usize)| {
            let (error, class, class_error) = classes.error(start);
            Weighed { thread: trace_window.thread, each: whole / trace_window.length, error, class, class_error }
        };
        let trace_windows: Vec<Weighed> = self.taken.iter().zip(&whole).zip(&start).map(weigh).collect();
        let accesses = self.taken.iter().zip(&trace_windows).map(|(trace_window, of)| trace_window.accesses * of.each);
        let unseen = (accesses.map(|accesses| accesses * accesses).sum::<f64>() / trace_windows.len() as f64).sqrt();
        let error = self.error(&trace_windows);
        Surveyed { trace_windows, unseen, missed, error, assumed: classes.assumed }
    }

    /// Executions of instructions in known functions by what trace windows show: their own, and those behind the calls that they ended at. Tells of
    /// each: the instruction, the state where the trace window began, and time that these stand for, in samples, by the part that it had.
    fn executions(&self, mut tell: impl FnMut(Instruction, usize, f64)) {
        let behind = self.behind_calls();
        for (&(start, call, instruction), executed) in &self.executed {
            let goes_on = call.is_some_and(|call| behind.contains_key(&call));
            tell(instruction, start, if goes_on { executed.own } else { executed.whole });
        }
        for ((start, call), rest) in &self.rest {
            let Some((parts, trace_windows)) = self.behind.get(call).zip(behind.get(call)) else { continue };
            parts
                .iter()
                .for_each(|(&instruction, part)| tell(instruction, *start, rest * part / trace_windows.len() as f64));
        }
    }

    /// See [`Surveyed::error`]. What is wrong with how fast code goes is taken to be wrong in all classes alike.
    fn error(&self, trace_windows: &[Weighed]) -> f64 {
        let accesses = |(taken, of): (&Taken, &Weighed)| (taken.accesses * of.each, of.class_error);
        let told = self.taken.iter().zip(trace_windows).map(accesses);
        let (all, off) = told.fold((0.0, 0.0), |sum, (of, error)| (sum.0 + of, sum.1 + of * error));
        if all > 0.0 { off / all } else { 0.0 }
    }
}
