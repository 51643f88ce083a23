//! Compute time and overlap from measured runs, where the recording holds counts without native time.

use numamma_findings::Usage;
use numamma_topology::MachineModel;

use crate::error::AdviseError;
use crate::model::Model;
use crate::options::Options;
use crate::predict::{Candidate, total, usual};
use crate::time::Otherwise;

/// Compute time leaves queues shorter, so that memory takes less time; each round is nearer to a calibration that predicts the measured time.
const ROUNDS: usize = 30;
/// Relative change that ends the rounds.
const SETTLED: f64 = 1e-5;

/// Compute time and memory overlap of a program, solved from measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Seconds of wall time without accesses to memory.
    pub compute_s: f64,
    /// Loads that a thread has under way at once, at least 1.
    pub overlap: f64,
    /// Seconds of accesses to memory in the measured run where one alone cannot tell whether loads overlap; else 0.
    pub memory_s: f64,
}

/// [`calibrate`], with placements by the names that predictions have; words may be joined by hyphens (`first-touch`).
///
/// # Errors
/// As [`calibrate`]; if there is no such placement.
pub fn calibrate_by_name(
    usage: &Usage,
    machine: &MachineModel,
    options: &Options,
    runs: &[(String, f64)],
) -> Result<Calibration, AdviseError> {
    let known = usual(&Model::new(usage, machine, &Options { calibration: None, ..options.clone() })?)?;
    let candidate = |(name, measured): &(String, f64)| {
        let of = known.iter().find(|candidate| candidate.name == name.replace('-', " "));
        let names = || known.iter().map(|of| of.name.replace(' ', "-")).collect::<Vec<_>>().join(", ");
        let missing = || AdviseError::Option(format!("no placement {name}; there are {}", names()));
        of.map(|of| (of.clone(), *measured)).ok_or_else(missing)
    };
    calibrate(usage, machine, options, &runs.iter().map(candidate).collect::<Result<Vec<_>, _>>()?)
}

/// Solves measured = compute + memory / overlap. One run tells one of the two: compute time if loads wait one after the other, or
/// the overlap if that would leave less than none. Several placements tell both, by least squares.
///
/// # Errors
/// If a placement cannot be predicted, or a measured time is no positive number.
pub fn calibrate(
    usage: &Usage,
    machine: &MachineModel,
    options: &Options,
    runs: &[(Candidate, f64)],
) -> Result<Calibration, AdviseError> {
    let mut options = Options { calibration: None, ..options.clone() };
    if !Model::new(usage, machine, &options)?.demand.memory_only {
        return Err(AdviseError::Option(
            "the recording holds the native time already: nothing is to be calibrated".into(),
        ));
    }
    if runs.iter().any(|(_, measured)| !(measured.is_finite() && *measured > 0.0)) {
        return Err(AdviseError::Option("a measured time is no positive number".into()));
    }
    let missing = || AdviseError::Option("calibration needs a measured run".into());
    let mut last = None;
    for _ in 0..ROUNDS {
        let next = solve(&points(usage, machine, &options, runs)?).ok_or_else(missing)?;
        let is_settled = last.is_some_and(|last: Calibration| {
            (next.compute_s - last.compute_s).abs() <= SETTLED * runs[0].1
                && (next.overlap - last.overlap).abs() <= SETTLED * next.overlap
        });
        last = Some(next);
        options.calibration = last;
        if is_settled {
            break;
        }
    }
    last.ok_or_else(missing)
}

/// Time of memory and measured time of each run: as loads wait one after the other, in queues as long as they are under the options' calibration.
fn points(
    usage: &Usage,
    machine: &MachineModel,
    options: &Options,
    runs: &[(Candidate, f64)],
) -> Result<Vec<(f64, f64)>, AdviseError> {
    let model = Model::new(usage, machine, options)?;
    let known = options.calibration.unwrap_or(Calibration { compute_s: 0.0, overlap: 1.0, memory_s: 0.0 });
    let point = |(candidate, measured): &(Candidate, f64)| {
        let thread_nodes = model.thread_nodes(&candidate.threads)?;
        let traffic = total(&model, &thread_nodes, &candidate.layouts);
        let time_s = model.cost(&thread_nodes, &traffic, Otherwise::default()).time_s;
        Ok(((time_s - known.compute_s) * known.overlap, *measured))
    };
    runs.iter().map(point).collect()
}

/// `points`: predicted time of memory, measured time.
fn solve(points: &[(f64, f64)]) -> Option<Calibration> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (memory, measured) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - memory).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - memory) * (point.1 - measured)).sum();
    // Placements of the same time tell no more than one.
    let are_several = spread > 1e-6 * memory * memory;
    let slope = if are_several { (product / spread).clamp(0.0, 1.0) } else { 1.0 };
    let memory_s = if are_several { 0.0 } else { memory.min(measured) };
    let compute_s = measured - slope * memory;
    match points.is_empty() || memory <= 0.0 {
        true => None,
        false if slope <= 0.0 => None,
        false if compute_s >= 0.0 => Some(Calibration { compute_s, overlap: 1.0 / slope, memory_s }),
        false => Some(Calibration { compute_s: 0.0, overlap: (memory / measured).max(1.0), memory_s }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_tells_compute_time_or_overlap() {
        assert_eq!(solve(&[(2.0, 5.0)]), Some(Calibration { compute_s: 3.0, overlap: 1.0, memory_s: 2.0 }));
        assert_eq!(solve(&[(20.0, 5.0)]), Some(Calibration { compute_s: 0.0, overlap: 4.0, memory_s: 5.0 }));
        assert_eq!(solve(&[]), None);
    }

    #[test]
    fn two_runs_tell_both() {
        let both = solve(&[(2.0, 4.0), (6.0, 6.0)]).expect("two placements");
        assert!((both.compute_s - 3.0).abs() < 1e-9 && (both.overlap - 2.0).abs() < 1e-9, "{both:?}");
    }
}
