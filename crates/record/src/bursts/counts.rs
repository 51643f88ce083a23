//! Counts that follow from samples and counts that follow from bursts, put together.
//!
//! Where a loop's counter tells how often code ran, that is better than what bursts show, and stays. Elsewhere bursts count, in every
//! function that one of them came by, and samples' rows keep their cost alone.

use numamma_trace::{GroundRow, NONE, Rule, SampleRow};

use super::survey::{Survey, Surveyed};
use crate::clock::counts::Factors;
use crate::tasks::ProcessId;

/// Relative standard error of what one burst stands for: that it was taken at all is chance (a Poisson process).
const ERROR_OF_ONE: f64 = 1.0;

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
    /// `time`: user time of the program, nanoseconds.
    pub fn new(mut factors: Factors, survey: &'a Survey, time: f64) -> Self {
        let surveyed = survey.solve(|instruction| factors.runs.get(&instruction).copied(), time);
        let first = factors.grounds.len();
        factors.grounds.extend(surveyed.bursts.iter().enumerate().map(|(number, &(thread, _, _))| GroundRow {
            ground: (first + number) as i32,
            thread,
            // No loop's: each stands alone.
            ip: i64::from(NONE),
            samples: 0,
            error: ERROR_OF_ONE,
        }));
        Self { factors, survey, surveyed, first }
    }

    /// What the counts stand on.
    pub fn grounds(&self) -> &[GroundRow] {
        &self.factors.grounds
    }

    /// Accesses that no row stands for, as a standard error.
    pub fn unseen(&self) -> f64 {
        self.factors.unseen
    }

    /// Samples at data accesses in code whose counts have ground.
    pub fn covered(&self) -> u64 {
        let of_bursts = self.survey.covered();
        let twice = self.factors.covered_of.iter().filter(|(function, _)| self.survey.has_seen(**function));
        of_bursts + self.factors.covered - twice.map(|(_, samples)| samples).sum::<u64>()
    }

    /// Turns the weight of a row into a count; false if the row stands for nothing.
    pub fn apply(&self, process: ProcessId, row: &mut SampleRow) -> bool {
        let known = self.survey.known(process, row.ip as u64);
        if row.rule == Rule::Burst as i32 {
            let number = row.ground as usize;
            let counted =
                known.and_then(|(_, instruction)| instruction).is_some_and(|i| self.factors.runs.contains_key(&i));
            let Some(&(_, _, each)) = self.surveyed.bursts.get(number).filter(|_| !counted) else { return false };
            row.accesses *= each as f32;
            row.ground = (self.first + number) as i32;
            return row.accesses > 0.0;
        }
        self.factors.apply(row);
        if row.ground == NONE && row.accesses > 0.0 && known.is_some_and(|(stretch, _)| self.survey.is_seen(stretch)) {
            row.accesses = 0.0;
            return row.cost > 0;
        }
        true
    }
}
