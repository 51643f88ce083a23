//! The promise of a plan, and the result.

use numamma_findings::{Change, Comparison, Promise};
use numamma_plan::Predicted;

/// Holds the prediction of a plan against a comparison of recordings without the plan (A) and under it (B).
pub fn promise(predicted: &Predicted, comparison: &Comparison) -> Promise {
    let part = |planned: Option<f64>, now: Option<f64>| Some(planned? / now.filter(|&now| now > 0.0)?);
    let time = part(predicted.planned_s, predicted.now_s);
    // An unknown, such as how long loads waited, makes both times longer or both shorter.
    let ends = [part(predicted.low_s, predicted.now_low_s), part(predicted.high_s, predicted.now_high_s), time];
    let ends = ends.into_iter().collect::<Option<Vec<f64>>>();
    let time_low = ends.as_ref().map(|ends| ends.iter().copied().fold(f64::INFINITY, f64::min));
    let time_high = ends.as_ref().map(|ends| ends.iter().copied().fold(0.0, f64::max));
    let (time_reached, time_error) = ratio(&comparison.total.wall_time).unzip();
    let time_error = time_error.flatten();
    let kept = |low: f64, high: f64, reached: f64| {
        let error = time_error.unwrap_or(0.0);
        reached + error >= low && reached - error <= high
    };
    Promise {
        machine: predicted.machine.clone(),
        time,
        time_low,
        time_high,
        time_reached,
        time_error,
        time_kept: match (time_low, time_high, time_reached) {
            // Of one run each, chance is in what was reached.
            (Some(low), Some(high), Some(reached)) => {
                Some(kept(low, high, reached)).filter(|&kept| kept || time_error.is_some())
            }
            _ => None,
        },
        remote: predicted.remote_planned,
        remote_reached: comparison.total.remote.as_ref().map(|remote| remote.b),
    }
}

/// B as a part of A, and its error by the first-order propagation of both.
fn ratio(of: &Change) -> Option<(f64, Option<f64>)> {
    let ratio = (of.a > 0.0).then(|| of.b / of.a)?;
    let error = of.a_error.zip(of.b_error).map(|(a, b)| ((b / of.a).powi(2) + (ratio * a / of.a).powi(2)).sqrt());
    Some((ratio, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted() -> Predicted {
        Predicted {
            machine: "m".into(),
            now_s: Some(100.0),
            now_low_s: Some(90.0),
            now_high_s: Some(120.0),
            planned_s: Some(80.0),
            low_s: Some(75.0),
            high_s: Some(84.0),
            remote_now: 0.75,
            remote_planned: 0.01,
        }
    }

    fn comparison(a: f64, b: f64, error: Option<f64>) -> Comparison {
        let mut comparison = Comparison::default();
        comparison.total.wall_time = Change { a, b, a_error: error, b_error: error, ..Change::default() };
        comparison
    }

    #[test]
    fn a_promise_is_of_parts() {
        // Twice as long a run on another machine: the part counts.
        let kept = promise(&predicted(), &comparison(200.0, 164.0, None));
        assert_eq!((kept.time, kept.time_low, kept.time_high), (Some(0.8), Some(0.7), Some(75.0 / 90.0)));
        assert_eq!((kept.time_reached, kept.time_kept), (Some(0.82), Some(true)));
        // Of one run each, nobody knows what chance did.
        assert_eq!(promise(&predicted(), &comparison(200.0, 190.0, None)).time_kept, None);
        assert_eq!(promise(&predicted(), &comparison(200.0, 190.0, Some(2.0))).time_kept, Some(false));
        // 0.95 +- 0.15 reaches into the interval.
        assert_eq!(promise(&predicted(), &comparison(200.0, 190.0, Some(22.0))).time_kept, Some(true));
    }

    #[test]
    fn a_promise_of_memory_alone_says_nothing_of_the_time() {
        let alone = Predicted {
            now_s: None,
            planned_s: None,
            low_s: None,
            high_s: None,
            now_low_s: None,
            now_high_s: None,
            ..predicted()
        };
        let promise = promise(&alone, &comparison(200.0, 170.0, None));
        assert_eq!((promise.time, promise.time_kept, promise.remote), (None, None, 0.01));
    }
}
