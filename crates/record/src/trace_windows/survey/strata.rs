//! Trace windows and samples of the same time, put together.
//!
//! A trace window stands for the time from the one before, in which the thread may have been in the kernel for the greater part, or another one
//! may have had the CPU. So trace windows that follow each other have as much time together as there were samples meanwhile
//! (post-stratification). And they are of one phase of the program.

use super::phases::Histogram;
use super::{Call, State, Survey};
use crate::clock::counts::Instruction;
use crate::tasks::ProcessId;
use crate::trace_windows::SPAN;

/// Trace windows that have the time of as many together: of fewer chance would tell.
const TRACE_WINDOWS: usize = 8;
/// Trace windows that wait, of which fewer stand for time.
const MOST_TRACE_WINDOWS: usize = 8 * TRACE_WINDOWS;
/// Samples that wait for them, at most.
const SAMPLES: usize = 65536;

/// What is not yet put together.
#[derive(Debug, Default)]
pub(super) struct Stratum {
    pub samples: Vec<(usize, Option<Instruction>)>,
    pub trace_windows: Vec<Latest>,
    /// Those of the trace windows that stand for time.
    pub timed: usize,
    /// Samples of times before, in which no trace window stood for any.
    pub before: f64,
}

/// A trace window whose time and phase are not known yet.
#[derive(Debug)]
pub(super) struct Latest {
    pub number: usize,
    pub process: ProcessId,
    /// Where it began, and behind the system call that it ended at.
    pub ip: u64,
    pub call: Option<u64>,
    /// The stretch where it began, and instructions by stretch.
    pub start: usize,
    pub parts: Vec<(usize, f64)>,
    /// Its instructions in known functions, by the part of all that each is.
    pub executed: Vec<(Instruction, f64)>,
    /// Its spans in known functions, with their stretches.
    pub spans: Vec<[(usize, Instruction); SPAN]>,
    /// A stretch, and how fast the thread was there.
    pub timed: Option<(usize, f64)>,
}

impl Stratum {
    pub fn is_full(&self) -> bool {
        self.timed >= TRACE_WINDOWS || self.trace_windows.len() >= MOST_TRACE_WINDOWS || self.samples.len() >= SAMPLES
    }
}

impl Survey {
    /// Puts the latest trace windows and samples together. To be called before the end.
    pub fn close(&mut self) {
        let Stratum { samples, trace_windows, before, .. } = std::mem::take(&mut self.stratum);
        let mut histogram = Histogram::default();
        samples.iter().for_each(|(stretch, _)| *histogram.entry(*stretch).or_default() += 1.0);
        let phase = self.phases.add(&histogram);
        for (stretch, instruction) in &samples {
            let state = self.state(*stretch, phase);
            self.states[state].samples += 1.0;
            if let Some(instruction) = instruction {
                self.spans.sample(*instruction, phase, state);
            }
        }
        let time: f64 = trace_windows.iter().map(|latest| self.taken[latest.number].time).sum();
        let meanwhile = samples.len() as f64 + before;
        if time <= 0.0 {
            self.stratum.before = meanwhile;
        }
        for latest in trace_windows {
            // Chance may have let no sample be.
            self.settle(latest, phase, meanwhile.max(0.5) / time);
        }
    }

    fn settle(&mut self, latest: Latest, phase: usize, samples_of_time: f64) {
        let there = |ip: u64| Call { process: latest.process, phase, ip };
        let parts = latest.parts.into_iter().map(|(stretch, count)| (self.state(stretch, phase), count)).collect();
        let start = self.state(latest.start, phase);
        if let Some((stretch, speed)) = latest.timed {
            let state = self.state(stretch, phase);
            self.timed.push((state, speed));
        }
        let spans: Vec<_> =
            latest.spans.iter().map(|span| span.map(|(stretch, of)| (self.state(stretch, phase), of))).collect();
        let trace_window = &mut self.taken[latest.number];
        (trace_window.start, trace_window.ip, trace_window.call, trace_window.parts) =
            (start, there(latest.ip), latest.call.map(there), parts);
        if trace_window.time <= 0.0 {
            let behind = self.behind.entry(trace_window.ip).or_default();
            latest.executed.into_iter().for_each(|(of, part)| *behind.entry(of).or_default() += part);
            spans
                .into_iter()
                .for_each(|span| self.spans.add_behind(trace_window.ip, phase, span, trace_window.length.recip()));
            return;
        }
        trace_window.time *= samples_of_time;
        let (time, length, call, part) =
            (trace_window.time, trace_window.length, trace_window.call, trace_window.part());
        if let Some(call) = call {
            *self.rest.entry((start, call)).or_default() += time * (1.0 - part);
        }
        for (instruction, of) in latest.executed {
            let executed = self.executed.entry((start, call, instruction)).or_default();
            executed.whole += time * of;
            executed.own += time * of * part;
        }
        let own = if call.is_some() { part } else { 1.0 };
        spans.into_iter().for_each(|span| self.spans.add(start, phase, span, time * own / length));
    }

    /// Numbers a stretch in a phase.
    fn state(&mut self, stretch: usize, phase: usize) -> usize {
        let next = self.states.len();
        let number = *self.state_of.entry((stretch, phase)).or_insert(next);
        if number == next {
            self.states.push(State { phase, samples: 0.0 });
        }
        number
    }
}
