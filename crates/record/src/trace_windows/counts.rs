//! Counts that follow from samples and counts that follow from trace windows, put together.
//!
//! Where a loop's counter tells how often code ran, that is better than what trace windows show, and stays. Everywhere else trace windows count, and
//! samples' rows have their cost, and share what trace windows count: trace windows are drawn from all of the program's time, so those that were taken stand
//! for code that none of them came by, too. Only code that had so much of the time that one should have, and processes that lived too shortly
//! for any, have what samples say.

use numamma_trace::{BasisRow, NONE, Rule, SampleRow};
use rustc_hash::FxHashMap;

use super::survey::{Survey, Surveyed};
use crate::clock::code::Function;
use crate::clock::counts::Factors;
use crate::tasks::ProcessId;

/// With fewer trace windows than these there is too little to draw from, and samples are all there is.
const LEAST_TRACE_WINDOWS: usize = 10;

/// What turns the rows of a recording into counts of accesses.
#[derive(Debug)]
pub struct Counts<'a> {
    factors: Factors,
    survey: &'a Survey,
    surveyed: Surveyed,
    /// The first basis that is a trace window.
    first: usize,
}

impl<'a> Counts<'a> {
    /// `time`: user time of the program, nanoseconds; `fastest`: instructions that the processor retires in one.
    pub fn new(mut factors: Factors, survey: &'a Survey, time: f64, fastest: f64) -> Self {
        let runs = |instruction| factors.runs.get(&instruction).copied();
        let surveyed =
            if survey.len() < LEAST_TRACE_WINDOWS { Surveyed::default() } else { survey.solve(runs, time, fastest) };
        let first = factors.bases.len();
        factors.bases.extend(surveyed.trace_windows.iter().enumerate().map(|(number, trace_window)| BasisRow {
            basis: (first + number) as i32,
            thread: trace_window.thread,
            // No loop's: each stands alone.
            ip: i64::from(NONE),
            samples: 0,
            error: trace_window.error,
            region_group: trace_window.class as i32,
            region_group_error: trace_window.class_error,
        }));
        Self { factors, survey, surveyed, first }
    }

    /// What the counts stand on.
    pub fn bases(&self) -> &[BasisRow] {
        &self.factors.bases
    }

    /// How far the number of all accesses may be off: see [`numamma_trace::TraceWindows`].
    pub fn error(&self) -> f64 {
        self.surveyed.error
    }

    /// True if trace windows count, and nothing told how fast instructions are.
    pub fn assumed(&self) -> bool {
        self.surveyed.assumed
    }

    /// Accesses that no row stands for, as a standard error.
    pub fn unseen(&self) -> f64 {
        match self.surveyed.trace_windows.len() {
            0 => self.factors.unseen.hypot(self.factors.rowless),
            // As much as one more trace window might have shown.
            _ => self.surveyed.unseen.hypot(self.factors.rowless),
        }
    }

    /// Samples at data accesses in code whose counts have a basis.
    pub fn covered(&self) -> u64 {
        if self.surveyed.trace_windows.is_empty() {
            return self.factors.covered;
        }
        let of_trace_windows = self.survey.covered();
        let seen = |of: &(Function, Option<usize>)| self.survey.has_seen(of.0, of.1);
        let twice = self.factors.covered_of.iter().filter(|(of, _)| seen(of));
        of_trace_windows + self.factors.covered - twice.map(|(_, samples)| samples).sum::<u64>()
    }

    /// Turns the weights of rows into counts, and leaves out rows that stand for nothing. `owners`: of what each row accesses.
    pub fn apply(
        &self,
        mut rows: Vec<SampleRow>,
        owners: &[i32],
        process_of: impl Fn(&SampleRow) -> ProcessId,
    ) -> Vec<SampleRow> {
        let mut shares: FxHashMap<Accessed, Share> = FxHashMap::default();
        for (number, (row, &owner)) in rows.iter_mut().zip(owners).enumerate() {
            let process = process_of(row);
            let accessed = Accessed { process, ip: row.ip, access: row.access, owner };
            match self.count(process, row) {
                Counted::TraceWindow => shares.entry(accessed).or_default().trace_windows.push(number),
                Counted::Others(weight) if owner != NONE => {
                    shares.entry(accessed).or_default().samples.push((number, weight));
                }
                Counted::Others(_) | Counted::Itself => {}
            }
        }
        for share in shares.into_values().filter(|share| (1..share.samples.len()).contains(&share.trace_windows.len()))
        {
            share.out(&mut rows);
        }
        // A sample costs, whatever is accessed.
        rows.retain(|row| row.accesses > 0.0 || row.cost > 0);
        rows
    }

    fn count(&self, process: ProcessId, row: &mut SampleRow) -> Counted {
        let known = self.survey.known(process, row.ip as u64);
        if row.rule == Rule::TraceWindow as i32 {
            let number = row.basis as usize;
            let counted =
                known.and_then(|(_, instruction)| instruction).is_some_and(|i| self.factors.runs.contains_key(&i));
            let trace_window = self.surveyed.trace_windows.get(number).filter(|_| !counted);
            row.accesses *= trace_window.map_or(0.0, |trace_window| trace_window.each as f32);
            row.basis = (self.first + number) as i32;
            return if trace_window.is_some() { Counted::TraceWindow } else { Counted::Itself };
        }
        let weight = row.accesses;
        self.factors.apply(row);
        let missed = known.is_some_and(|(stretch, _)| self.surveyed.missed.contains(&stretch));
        let followed = !self.surveyed.trace_windows.is_empty() && self.survey.has_followed(process) && !missed;
        if row.basis == NONE && row.accesses > 0.0 && followed {
            row.accesses = 0.0;
            return Counted::Others(weight);
        }
        Counted::Itself
    }
}

/// By what the accesses of a row are counted.
enum Counted {
    Itself,
    TraceWindow,
    /// By trace windows, if they came by. What the row would have counted for beside other samples of its instruction.
    Others(f32),
}

/// What is accessed by what.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Accessed {
    process: ProcessId,
    ip: i64,
    access: i32,
    owner: i32,
}

/// Rows with the same accesses, in the order of time: those that trace windows count and those of samples, with their weights.
#[derive(Default)]
struct Share {
    trace_windows: Vec<usize>,
    samples: Vec<(usize, f32)>,
}

impl Share {
    /// Trace windows tell how often an instruction accessed an object, samples which threads did and where: there are more of them. Each trace window's
    /// accesses go to some of the samples, so that what is wrong with the trace window is wrong with these.
    fn out(self, rows: &mut [SampleRow]) {
        let (trace_windows, samples) = (self.trace_windows.len(), self.samples.len());
        let of = |sample: usize| sample * trace_windows / samples;
        let mut weights = vec![0.0; trace_windows];
        self.samples.iter().enumerate().for_each(|(n, (_, weight))| weights[of(n)] += weight);
        for (n, (sample, weight)) in self.samples.iter().enumerate() {
            let trace_window = self.trace_windows[of(n)];
            let (accesses, basis) = (rows[trace_window].accesses, rows[trace_window].basis);
            let row = &mut rows[*sample];
            (row.accesses, row.basis) = (accesses * weight / weights[of(n)], basis);
        }
        self.trace_windows.iter().for_each(|&trace_window| rows[trace_window].accesses = 0.0);
    }
}

#[cfg(test)]
mod tests {
    use numamma_trace::UNKNOWN;

    use super::*;

    fn row(thread: i32, addr: i64, accesses: f32, basis: i32) -> SampleRow {
        SampleRow {
            thread,
            addr,
            accesses,
            basis,
            time: 0,
            cpu: 0,
            ip: 0x10,
            bytes: 8,
            access: 1,
            rule: 3,
            cost: 0,
            memory: UNKNOWN,
        }
    }

    #[test]
    fn samples_share_what_trace_windows_count() {
        let mut rows = vec![row(1, 0x1000, 60.0, 7), row(2, 0x9000, 30.0, 8)];
        rows.extend(
            [(1, 0x2000), (1, 0x3000), (2, 0x4000), (2, 0x5000), (2, 0x6000)].map(|(t, a)| row(t, a, 0.0, NONE)),
        );
        Share { trace_windows: vec![0, 1], samples: vec![(2, 1.0), (3, 2.0), (4, 3.0), (5, 1.0), (6, 1.0)] }
            .out(&mut rows);
        let found: Vec<(f32, i32)> = rows.iter().map(|row| (row.accesses, row.basis)).collect();
        // Each trace window's are among those that came about when it did.
        assert_eq!(found[2..], [(10.0, 7), (20.0, 7), (30.0, 7), (15.0, 8), (15.0, 8)]);
        assert_eq!([found[0].0, found[1].0], [0.0; 2]);
    }
}
