//! Counts that follow from samples and counts that follow from bursts, put together.
//!
//! Where a loop's counter tells how often code ran, that is better than what bursts show, and stays. Everywhere else bursts count, and
//! samples' rows keep their cost alone: bursts are drawn from all of the program's time, so those that were taken stand for code
//! that none of them came by, too. Only code that had so much of the time that one should have, and processes that lived too shortly
//! for any, have what samples say.

use numamma_trace::{GroundRow, NONE, Rule, SampleRow};

use super::survey::{Survey, Surveyed};
use crate::clock::code::Function;
use crate::clock::counts::Factors;
use crate::tasks::ProcessId;

/// With fewer bursts than these there is too little to draw from, and samples are all there is.
const LEAST_BURSTS: usize = 10;

/// What turns the rows of a recording into counts of accesses.
#[derive(Debug)]
pub struct Counts<'a> {
    factors: Factors,
    survey: &'a Survey,
    surveyed: Surveyed,
    /// The first ground that is a burst.
    first: usize,
}

impl<'a> Counts<'a> {
    /// `time`: user time of the program, nanoseconds; `fastest`: instructions that the processor retires in one.
    pub fn new(mut factors: Factors, survey: &'a Survey, time: f64, fastest: f64) -> Self {
        let runs = |instruction| factors.runs.get(&instruction).copied();
        let surveyed =
            if survey.len() < LEAST_BURSTS { Surveyed::default() } else { survey.solve(runs, time, fastest) };
        let first = factors.grounds.len();
        factors.grounds.extend(surveyed.bursts.iter().enumerate().map(|(number, burst)| GroundRow {
            ground: (first + number) as i32,
            thread: burst.thread,
            // No loop's: each stands alone.
            ip: i64::from(NONE),
            samples: 0,
            error: burst.error,
            class: burst.class as i32,
            class_error: burst.class_error,
        }));
        Self { factors, survey, surveyed, first }
    }

    /// What the counts stand on.
    pub fn grounds(&self) -> &[GroundRow] {
        &self.factors.grounds
    }

    /// How far the number of all accesses may be off: see [`numamma_trace::Bursts`].
    pub fn error(&self) -> f64 {
        self.surveyed.error
    }

    /// Whether bursts count, and nothing told how fast instructions are.
    pub fn assumed(&self) -> bool {
        self.surveyed.assumed
    }

    /// Accesses that no row stands for, as a standard error.
    pub fn unseen(&self) -> f64 {
        match self.surveyed.bursts.len() {
            0 => self.factors.unseen.hypot(self.factors.rowless),
            // As much as one more burst might have shown.
            _ => self.surveyed.unseen.hypot(self.factors.rowless),
        }
    }

    /// Samples at data accesses in code whose counts have ground.
    pub fn covered(&self) -> u64 {
        if self.surveyed.bursts.is_empty() {
            return self.factors.covered;
        }
        let of_bursts = self.survey.covered();
        let seen = |of: &(Function, Option<usize>)| self.survey.has_seen(of.0, of.1);
        let twice = self.factors.covered_of.iter().filter(|(of, _)| seen(of));
        of_bursts + self.factors.covered - twice.map(|(_, samples)| samples).sum::<u64>()
    }

    /// Turns the weight of a row into a count; false if the row stands for nothing.
    pub fn apply(&self, process: ProcessId, row: &mut SampleRow) -> bool {
        let known = self.survey.known(process, row.ip as u64);
        if row.rule == Rule::Burst as i32 {
            let number = row.ground as usize;
            let counted =
                known.and_then(|(_, instruction)| instruction).is_some_and(|i| self.factors.runs.contains_key(&i));
            let Some(burst) = self.surveyed.bursts.get(number).filter(|_| !counted) else { return false };
            row.accesses *= burst.each as f32;
            row.ground = (self.first + number) as i32;
            return row.accesses > 0.0;
        }
        self.factors.apply(row);
        let missed = known.is_some_and(|(stretch, _)| self.surveyed.missed.contains(&stretch));
        let followed = !self.surveyed.bursts.is_empty() && self.survey.has_followed(process) && !missed;
        if row.ground == NONE && row.accesses > 0.0 && followed {
            row.accesses = 0.0;
            return row.cost > 0;
        }
        true
    }
}
