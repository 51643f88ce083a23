//! A number with its interval: the median of repeats, repeated until it is stable or its time is up.

use std::time::{Duration, Instant};

use serde::Serialize;

/// From 6 on a 95 % interval of the median exists; a few more let it leave out the outermost samples.
pub(crate) const LEAST: usize = 10;
const MOST: usize = 400;
/// Where one sample takes longer than all were to take.
const FEWEST: usize = 3;
/// Half the interval in relation to the median, below which an estimate is stable.
const STABLE: f64 = 0.03;

/// The median of several samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Number of samples.
    pub samples: usize,
    /// True if half the interval is below 3 % of the median.
    pub stable: bool,
}

impl Estimate {
    /// Of samples in any order; `None` without samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = match count {
            0 => return None,
            _ if count % 2 == 1 => sorted[count / 2],
            _ => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
        };
        let outside = outside(count);
        let (low, high) = (sorted[outside], sorted[count - 1 - outside]);
        let stable = count >= LEAST && (high - low) / 2.0 < STABLE * median;
        Some(Self { median, low, high, samples: count, stable })
    }
}

/// Samples on each side outside of the interval: the ranks of a sign test.
fn outside(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    let mut rank = 0;
    loop {
        below += probability;
        if below > 0.025 || rank + 1 > count / 2 {
            return rank.saturating_sub(1).min(count.saturating_sub(1) / 2);
        }
        probability *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
}

/// Takes at least so many samples until their median is stable, for `time` or a little longer.
pub(crate) fn repeat(time: Duration, least: usize, mut sample: impl FnMut() -> f64) -> Estimate {
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    loop {
        samples.push(sample());
        let late = Instant::now() >= end + time;
        if samples.len() < if late { FEWEST } else { least } {
            continue;
        }
        if let Some(estimate) = Estimate::of(&samples)
            && (estimate.stable || samples.len() >= MOST || Instant::now() >= end)
        {
            return estimate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // Tables of the sign test: the interval of 10 samples is from the second to the ninth.
        for (count, rank) in [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (20, 5), (40, 13)] {
            assert_eq!(outside(count), rank, "{count}");
        }
    }

    #[test]
    fn medians_have_intervals() {
        let estimate = Estimate::of(&[5.0, 1.0, 3.0, 2.0, 4.0, 100.0]).unwrap();
        assert_eq!((estimate.median, estimate.low, estimate.high), (3.5, 1.0, 100.0));
        assert!(!estimate.stable);
        assert!(Estimate::of(&[100.0, 101.0, 99.0, 100.0, 100.5, 100.0, 99.5, 100.0, 100.0, 500.0]).unwrap().stable);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn repeats_end() {
        let mut calls = 0;
        let steady = repeat(Duration::from_secs(60), LEAST, || {
            calls += 1;
            7.0
        });
        assert_eq!((steady.median, steady.samples, steady.stable, calls), (7.0, LEAST, true, LEAST));
        let mut value = 0.0;
        let unsteady = repeat(Duration::ZERO, LEAST, || {
            value += 1.0;
            value
        });
        assert!(!unsteady.stable && unsteady.samples == FEWEST);
    }
}
