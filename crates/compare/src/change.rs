//! Differences and their errors.

use numamma_findings::{Basis, Change, RemoteBasis, share_error};

/// A number and its error.
pub type Measured = (f64, Option<f64>);

/// The difference of two numbers that were measured independently of each other.
pub fn change((a, a_error): Measured, (b, b_error): Measured, comparable: bool) -> Change {
    let difference = comparable.then_some(b - a);
    let error = a_error.zip(b_error).filter(|_| comparable).map(|(a, b)| a.hypot(b));
    Change {
        a,
        a_error,
        b,
        b_error,
        difference,
        error,
        significant: difference.zip(error).map(|(difference, error)| difference.abs() > error),
    }
}

/// Time, with the error that follows from the number of its samples among all that were taken. (How many were taken in all
/// is no matter of chance: the clock ticks evenly.)
pub fn seconds(basis: &Basis, samples: u64, seconds: f64) -> Measured {
    if basis.data_samples == 0 {
        return (seconds, None);
    }
    let all = basis.data_cost_s / basis.data_samples as f64 * basis.recorded as f64;
    (seconds, share_error(samples, basis.recorded).map(|error| error * all))
}

/// A share of remote accesses; `None` if it is one of nothing. What was counted and not sampled has no error.
pub fn remote_share(of: RemoteBasis, exact: bool) -> Option<Measured> {
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
        let of = change((1.0, Some(0.3)), (2.0, Some(0.4)), true);
        assert_eq!((of.difference, of.error, of.significant), (Some(1.0), Some(0.5), Some(true)));
        let of = change((1.0, Some(0.3)), (0.6, Some(0.4)), true);
        assert!((of.difference.unwrap() + 0.4).abs() < 1e-12 && of.significant == Some(false), "{of:?}");
    }

    #[test]
    fn nothing_is_said_without_ground() {
        let of = change((1.0, None), (2.0, Some(0.4)), true);
        assert_eq!((of.difference, of.error, of.significant), (Some(1.0), None, None));
        let of = change((1.0, Some(0.3)), (2.0, Some(0.4)), false);
        assert_eq!((of.difference, of.error, of.significant), (None, None, None));
    }

    #[test]
    fn equal_recordings_differ_by_nothing() {
        let of = change((1.0, Some(0.0)), (1.0, Some(0.0)), true);
        assert_eq!((of.difference, of.significant), (Some(0.0), Some(false)));
    }

    #[test]
    fn time_has_the_error_of_its_share_of_all_samples() {
        let basis = Basis { recorded: 200, data_samples: 100, data_cost_s: 10.0, ..Basis::default() };
        // 50 of 200 samples of 0.1 s each: 0.25 +0.0643 (Wilson: 0.1951 .. 0.3143, the farther end) of 20 s.
        let (value, error) = seconds(&basis, 50, 5.0);
        assert_eq!(value, 5.0);
        assert!((error.unwrap() - 20.0 * 0.0643).abs() < 0.002, "{error:?}");
        assert_eq!(seconds(&Basis::default(), 0, 0.0), (0.0, None));
    }

    #[test]
    fn a_remote_share_has_the_error_of_its_samples_not_of_its_accesses() {
        let of = |samples, exact| remote_share(RemoteBasis { remote: 500.0, known: 1000.0, samples }, exact);
        let (share, error) = of(100, false).unwrap();
        assert!(share == 0.5 && (error.unwrap() - 0.0962).abs() < 1e-4, "{error:?}");
        assert!(of(10_000, false).unwrap().1.unwrap() < 0.01);
        assert_eq!(of(3, true), Some((0.5, Some(0.0))));
        assert_eq!(remote_share(RemoteBasis::default(), false), None);
    }
}
