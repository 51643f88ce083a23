//! Policies against each other: the command runs under each in turn, round after round, so that what drifts (a busy machine, a warm
//! cache) meets all of them alike.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use numamma_plan::Plan;
use numamma_process::{Ended, find_executable, signals, suspended};
use serde::Serialize;

use crate::achieved::Achieved;
use crate::error::ApplyError;
use crate::placement::{Placement, apply};

/// What is tried.
#[derive(Debug)]
pub struct Candidate {
    /// What to call it.
    pub name: String,
    /// None: the command as it is.
    pub plan: Option<Plan>,
}

/// What came of one candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The candidate.
    pub name: String,
    /// Seconds of each run, in order.
    pub seconds: Vec<f64>,
    /// Their median.
    pub median_s: f64,
    /// Of the ratio to the first candidate's run of the same round: median, and the ends of its 95 % interval. None for the
    /// first candidate.
    pub ratio: Option<Interval>,
    /// The part of the pages that lay where they were wanted, in the last run (0..1); none if nothing was asked for.
    pub achieved: Option<f64>,
    /// The part of the accesses that were remote, from a recording of one more run (0..1); none if there is none.
    pub remote: Option<f64>,
}

/// A number and where it may lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Runs all candidates `rounds` times; `done` is told after each run, with the round and the candidate, and how it ended.
///
/// # Errors
/// If one of them cannot be run. A command that ends by itself with a status is no error.
pub fn try_all(
    candidates: &[Candidate],
    command: &[OsString],
    rounds: usize,
    mut done: impl FnMut(usize, usize, Ended),
) -> Result<Vec<Tried>, ApplyError> {
    find_executable(&command[0])?;
    let mut times = vec![Vec::new(); candidates.len()];
    let mut achieved = vec![None; candidates.len()];
    for round in 0..rounds {
        // Every second round backwards: nobody always comes first.
        let order: Vec<usize> =
            if round % 2 == 0 { (0..candidates.len()).collect() } else { (0..candidates.len()).rev().collect() };
        for n in order {
            let (time, ended, pages) = run(&candidates[n], command)?;
            times[n].push(time.as_secs_f64());
            achieved[n] = pages.and_then(|pages| pages.pages().achieved());
            done(round, n, ended);
        }
    }
    let tried = candidates.iter().enumerate().map(|(n, candidate)| Tried {
        name: candidate.name.clone(),
        median_s: median(&times[n]),
        ratio: (n > 0).then(|| ratio(&times[n], &times[0])),
        seconds: times[n].clone(),
        achieved: achieved[n],
        remote: None,
    });
    Ok(tried.collect())
}

fn run(candidate: &Candidate, command: &[OsString]) -> Result<(Duration, Ended, Option<Achieved>), ApplyError> {
    let Some(plan) = &candidate.plan else {
        signals::install();
        let suspended = suspended(command, &[]).map_err(|source| ApplyError::System { what: "fork", source })?;
        let began = Instant::now();
        let mut running = suspended.run(&command[0])?;
        signals::set_program(running.pid);
        let status = running.wait().unwrap_or_default();
        signals::program_ended();
        return Ok((began.elapsed(), Ended::from_wait_status(status), None));
    };
    let mut placement = Placement::prepare(plan, command)?;
    let outcome = apply(&mut placement, command)?;
    Ok((outcome.took, outcome.ended, Some(outcome.achieved)))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Of the ratios of runs of the same round. The interval is that of the sign test: order statistics that hold the median of any
/// distribution with 95 %, or all that there are where the runs are too few for that (five or less).
fn ratio(times: &[f64], base: &[f64]) -> Interval {
    let mut ratios: Vec<f64> = times.iter().zip(base).map(|(time, base)| time / base).collect();
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len();
    // How many values may be left out at each end: the largest k with P(X <= k) <= 2.5 % of a binomial X of n and a half.
    let (mut left_out, mut term) = (0, 0.5_f64.powi(n as i32));
    let mut tail = term;
    while left_out < n {
        term *= (n - left_out) as f64 / (left_out + 1) as f64;
        tail += term;
        if tail > 0.025 {
            break;
        }
        left_out += 1;
    }
    let at = |n: usize| ratios.get(n).copied().unwrap_or(f64::NAN);
    Interval { median: median(&ratios), low: at(left_out), high: at(n.saturating_sub(1 + left_out)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let base = vec![1.0; 20];
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        // Of 20 values the 6th and the 15th (Conover, Practical Nonparametric Statistics, table A3: P(X <= 5) = 0.0207).
        let found = ratio(&times, &base);
        assert_eq!((found.median, found.low, found.high), (10.5, 6.0, 15.0));
        // Of 6 the first and the last (P(X = 0) = 0.0156); of 5 nothing can be left out either.
        assert_eq!(ratio(&times[..6], &base[..6]), Interval { median: 3.5, low: 1.0, high: 6.0 });
        assert_eq!(ratio(&times[..5], &base[..5]), Interval { median: 3.0, low: 1.0, high: 5.0 });
        assert_eq!(ratio(&times[..1], &base[..1]), Interval { median: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
