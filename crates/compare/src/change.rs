//! Differences and their errors.

use numamma_findings::{Change, ForComparison, RemoteSamples, share_error};

/// A number and its error.
pub type Measured = (f64, Option<f64>);

/// The difference of a number between the runs of two sides, which were measured independently of each other.
pub fn change(a: &[Measured], b: &[Measured], comparable: bool) -> Change {
    let ((a_mean, a_error), (b_mean, b_error)) = (mean(a), mean(b));
    let difference = comparable.then_some(b_mean - a_mean);
    let sampling = sampling_error(a).zip(sampling_error(b)).map(|(a, b)| a.hypot(b));
    let error = larger(sampling, spread_of_difference(a, b)).filter(|_| comparable);
    let (a, b) = (a_mean, b_mean);
    let significant = difference.zip(error).map(|(difference, error)| difference.abs() > error);
    Change { a, a_error, b, b_error, difference, error, significant }
}

/// The same of a time, or of a share of it. These differ between runs by more than sampling tells (of a triad on a busy machine
/// every second pair of recordings), so one run of each side shows nothing.
pub fn time_change(a: &[Measured], b: &[Measured], comparable: bool) -> Change {
    let mut change = change(a, b, comparable);
    // A recording compared with itself differs by nothing.
    if a.len() == 1 && b.len() == 1 {
        change.significant = None;
    }
    change
}

/// The mean over runs with its 95 % error: of the samples, or of the spread between runs, whichever is larger.
fn mean(runs: &[Measured]) -> Measured {
    let (mean, variance) = mean_and_variance(runs);
    let spread = variance.map(|variance| student(runs.len() as f64 - 1.0) * (variance / runs.len() as f64).sqrt());
    (mean, larger(sampling_error(runs), spread))
}

/// 95 % error of the mean that the samples of the runs leave.
fn sampling_error(runs: &[Measured]) -> Option<f64> {
    let squares: Option<f64> = runs.iter().map(|(_, error)| error.map(|error| error * error)).sum();
    squares.map(|squares| squares.sqrt() / runs.len() as f64)
}

/// 95 % error of the difference of two means from the spread of each (Welch). Where one side has a single run, that of the
/// other must do for both; `None` where both have.
fn spread_of_difference(a: &[Measured], b: &[Measured]) -> Option<f64> {
    let of = |runs: &[Measured]| (runs.len() as f64, mean_and_variance(runs).1);
    let ((n, a), (m, b)) = (of(a), of(b));
    let (square, freedom) = match (a, b) {
        (Some(a), Some(b)) => {
            let (a, b) = (a / n, b / m);
            let all = a * a / (n - 1.0) + b * b / (m - 1.0);
            (a + b, if all > 0.0 { (a + b).powi(2) / all } else { n + m - 2.0 })
        }
        (Some(one), None) => (one * (1.0 + 1.0 / n), n - 1.0),
        (None, Some(one)) => (one * (1.0 + 1.0 / m), m - 1.0),
        (None, None) => return None,
    };
    Some(student(freedom) * square.sqrt())
}

/// The variance is that of one run, and `None` for a single one.
fn mean_and_variance(runs: &[Measured]) -> (f64, Option<f64>) {
    let n = runs.len() as f64;
    let mean = runs.iter().map(|(value, _)| value).sum::<f64>() / n;
    let squares = || runs.iter().map(|(value, _)| (value - mean).powi(2)).sum::<f64>();
    (mean, (runs.len() > 1).then(|| squares() / (n - 1.0)))
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// 97.5 % quantile of Student's distribution; freedoms in between count as the lower one.
fn student(freedom: f64) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    const Z: f64 = 1.959_963_984_540_054;
    let nearly = freedom + 1e-9;
    FEW.get((nearly.max(1.0) as usize) - 1).copied().unwrap_or_else(|| {
        // Cornish and Fisher's expansion.
        let (z3, z5) = (Z.powi(3), Z.powi(5));
        Z + (z3 + Z) / (4.0 * freedom) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * freedom * freedom)
    })
}

/// Time, with the error that follows from the number of its samples among all that were taken. (How many were taken in all
/// is no matter of chance: the clock ticks evenly.)
pub fn seconds(basis: &ForComparison, samples: u64, seconds: f64) -> Measured {
    if basis.data_samples == 0 {
        return (seconds, None);
    }
    let all = basis.data_cost_s / basis.data_samples as f64 * basis.recorded as f64;
    (seconds, share_error(samples, basis.recorded).map(|error| error * all))
}

/// A share of remote accesses; `None` if it is one of nothing. Accesses that were counted and not sampled have no error.
pub fn remote_share(of: RemoteSamples, exact: bool) -> Option<Measured> {
    let share = (of.known > 0.0).then(|| of.remote / of.known)?;
    // As many samples as would show that share: accesses are estimated from samples, which alone are independent.
    let error = || share_error((share * of.samples as f64).round() as u64, of.samples);
    Some((share, if exact { Some(0.0) } else { error() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_add_up_in_squares() {
        let of = change(&[(1.0, Some(0.3))], &[(2.0, Some(0.4))], true);
        assert_eq!((of.difference, of.error, of.significant), (Some(1.0), Some(0.5), Some(true)));
        let of = change(&[(1.0, Some(0.3))], &[(0.6, Some(0.4))], true);
        assert!((of.difference.unwrap() + 0.4).abs() < 1e-12 && of.significant == Some(false), "{of:?}");
    }

    fn runs(values: &[f64]) -> Vec<Measured> {
        values.iter().map(|&value| (value, Some(0.01))).collect()
    }

    #[test]
    fn runs_tell_more_than_samples() {
        // Means 2 and 4, variances 1 and 4 of three runs each: Welch's 2.94 degrees of freedom, root of 5/3.
        let of = change(&runs(&[1.0, 2.0, 3.0]), &runs(&[2.0, 4.0, 6.0]), true);
        assert_eq!((of.a, of.b, of.difference, of.significant), (2.0, 4.0, Some(2.0), Some(false)));
        assert!((of.error.unwrap() - 4.303 * (5.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{of:?}");
        assert!((of.a_error.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9, "{of:?}");
        let of = change(&runs(&[1.0, 1.1, 1.2]), &runs(&[2.0, 2.1, 2.2]), true);
        assert_eq!(of.significant, Some(true));
    }

    #[test]
    fn one_run_is_judged_by_the_spread_of_the_others() {
        let of = change(&runs(&[1.0, 2.0, 3.0]), &runs(&[7.0]), true);
        assert!((of.error.unwrap() - 4.303 * (4.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{of:?}");
        assert_eq!((of.b_error, of.significant), (Some(0.01), Some(true)));
    }

    #[test]
    fn equal_runs_have_the_error_of_their_samples() {
        let of = change(&runs(&[1.0, 1.0]), &runs(&[1.0, 1.0]), true);
        assert!((of.error.unwrap() - 0.01).abs() < 1e-9 && of.significant == Some(false), "{of:?}");
    }

    #[test]
    fn times_of_one_run_each_show_nothing() {
        assert_eq!(time_change(&runs(&[1.0]), &runs(&[9.0]), true).significant, None);
        assert_eq!(time_change(&runs(&[1.0, 1.1]), &runs(&[9.0, 9.1]), true).significant, Some(true));
    }

    #[test]
    fn quantiles_are_students() {
        for (freedom, quantile) in [(1.0, 12.706), (2.94, 4.303), (10.0, 2.228), (20.0, 2.086), (1000.0, 1.962)] {
            assert!((student(freedom) - quantile).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn nothing_is_said_without_basis() {
        let of = change(&[(1.0, None)], &[(2.0, Some(0.4))], true);
        assert_eq!((of.difference, of.error, of.significant), (Some(1.0), None, None));
        let of = change(&[(1.0, Some(0.3))], &[(2.0, Some(0.4))], false);
        assert_eq!((of.difference, of.error, of.significant), (None, None, None));
    }

    #[test]
    fn equal_recordings_differ_by_nothing() {
        let of = change(&[(1.0, Some(0.0))], &[(1.0, Some(0.0))], true);
        assert_eq!((of.difference, of.significant), (Some(0.0), Some(false)));
    }

    #[test]
    fn time_has_the_error_of_its_share_of_all_samples() {
        let basis = ForComparison { recorded: 200, data_samples: 100, data_cost_s: 10.0, ..ForComparison::default() };
        // 50 of 200 samples of 0.1 s each: 0.25 +0.0643 (Wilson: 0.1951 .. 0.3143, the farther end) of 20 s.
        let (value, error) = seconds(&basis, 50, 5.0);
        assert_eq!(value, 5.0);
        assert!((error.unwrap() - 20.0 * 0.0643).abs() < 0.002, "{error:?}");
        assert_eq!(seconds(&ForComparison::default(), 0, 0.0), (0.0, None));
    }

    #[test]
    fn a_remote_share_has_the_error_of_its_samples_not_of_its_accesses() {
        let of = |samples, exact| remote_share(RemoteSamples { remote: 500.0, known: 1000.0, samples }, exact);
        let (share, error) = of(100, false).unwrap();
        assert!(share == 0.5 && (error.unwrap() - 0.0962).abs() < 1e-4, "{error:?}");
        assert!(of(10_000, false).unwrap().1.unwrap() < 0.01);
        assert_eq!(of(3, true), Some((0.5, Some(0.0))));
        assert_eq!(remote_share(RemoteSamples::default(), false), None);
    }
}
