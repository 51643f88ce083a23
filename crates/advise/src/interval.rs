//! A predicted time with its 95 % interval: causes that are independent of each other, added up in squares on each side.
//!
//! The time is that of the longest of many threads, and noise of samples makes one of them longer than it is. Resamplings have
//! that noise twice. Where threads are alike, the longest one grows with the root of the noise's variance, so what is to be
//! taken off is what resamplings have more, divided by (root of 2) - 1; where one thread is much longer, both are nothing.

use numamma_findings::Uncertainty;

use crate::model::Model;
use crate::random::Random;
use crate::time::Otherwise;
use crate::traffic::Traffic;

/// Resamplings of the samples: the 2.5 % quantile of 80 is the second smallest.
const RESAMPLES: usize = 80;
/// Nanoseconds of a load that a core can hide behind other work: a reorder buffer of 512 entries at 6 instructions a cycle and
/// 3 GHz (Intel Golden Cove; older cores hide less).
const HIDDEN_NS: f64 = 28.0;
/// Loads that a core can have under way at once where nothing tells their number: line fill buffers of Intel's cores from Nehalem
/// to Broadwell.
const FILL_BUFFERS: f64 = 10.0;

/// The time without the noise's share, and the parts of its interval.
pub fn corrected(
    model: &Model<'_>,
    thread_nodes: &[usize],
    traffic: &Traffic,
    plain_s: f64,
) -> (f64, Vec<Uncertainty>) {
    let time = |otherwise| model.cost(thread_nodes, traffic, otherwise).time_s;
    let part = |cause: &str, times: &[f64]| Uncertainty {
        cause: cause.to_owned(),
        below_s: times.iter().map(|time| plain_s - time).fold(0.0, f64::max),
        above_s: times.iter().map(|time| time - plain_s).fold(0.0, f64::max),
    };
    let (mut time_s, mut parts) = (plain_s, Vec::new());
    if !model.demand.is_exact() {
        let [low, mean, high] = resampled(model, thread_nodes, traffic);
        let more_s = (mean - plain_s).max(0.0);
        time_s = (plain_s - more_s / (std::f64::consts::SQRT_2 - 1.0)).max(0.0);
        // Threads may be less alike, up to where only what resamplings have more is to be taken off.
        let above_s = mean - low + (plain_s - more_s - time_s);
        parts.push(Uncertainty { cause: "samples".into(), below_s: high - mean, above_s });
    }
    if model.demand.stall_error.iter().any(|&error| error > 0.0) {
        let times = [-1.0, 1.0].map(|stalls| time(Otherwise { stalls, ..Otherwise::default() }));
        parts.push(part("stalls", &times));
    }
    if !model.demand.memory_only {
        parts.push(part("overlap", &overlapped(model, thread_nodes, traffic)));
    }
    parts.push(Uncertainty { cause: "cpus".into(), below_s: model.demand.crowded_s, above_s: model.demand.left_out_s });
    parts.push(part("bursts", &[time(Otherwise { bursts: true, ..Otherwise::default() })]));
    parts.retain(|part| part.below_s > 0.0 || part.above_s > 0.0);
    (time_s, parts)
}

/// Lower and upper end.
pub fn interval(time_s: f64, parts: &[Uncertainty]) -> (f64, f64) {
    let root = |of: fn(&Uncertainty) -> f64| parts.iter().map(|part| of(part).powi(2)).sum::<f64>().sqrt();
    ((time_s - root(|part| part.below_s)).max(0.0), time_s + root(|part| part.above_s))
}

/// The 2.5 % quantile, mean and 97.5 % quantile of the time if other samples had been taken. Sums of many samples are normal; the time that
/// recorded loads took moves with their number, so an unchanged placement keeps its time.
fn resampled(model: &Model<'_>, thread_nodes: &[usize], traffic: &Traffic) -> [f64; 3] {
    let mut random = Random::new(0);
    let mut resample = traffic.clone();
    let mut times = [0.0; RESAMPLES];
    for time in &mut times {
        for at in 0..traffic.misses.len() {
            let misses = traffic.misses[at];
            if misses > 0.0 {
                let factor = (1.0 + traffic.variance[at].sqrt() / misses * random.normal()).max(0.0);
                resample.misses[at] = factor * misses;
                resample.recorded_s[at] = factor * traffic.recorded_s[at];
            }
        }
        *time = model.cost(thread_nodes, &resample, Otherwise::default()).time_s;
    }
    times.sort_by(f64::total_cmp);
    [times[1], times.iter().sum::<f64>() / RESAMPLES as f64, times[RESAMPLES - 2]]
}

/// Times if cores hide a part of each load, or if more loads are under way at once than assumed.
fn overlapped(model: &Model<'_>, thread_nodes: &[usize], traffic: &Traffic) -> Vec<f64> {
    let hidden = Otherwise { hidden_ns: HIDDEN_NS, ..Otherwise::default() };
    let mut times = vec![model.cost(thread_nodes, traffic, hidden).time_s];
    let calibration = model.options.calibration;
    let is_known = calibration.is_some_and(|calibration| calibration.memory_s <= 0.0);
    if model.demand.is_counted() && !is_known && model.demand.overlap < FILL_BUFFERS {
        let part = model.demand.overlap / FILL_BUFFERS;
        let mut fewer = model.no_traffic();
        fewer.add_all(traffic, part);
        // The measured run took as long as it did: the rest of its memory time was work.
        let work_s = calibration.map_or(0.0, |calibration| (1.0 - part) * calibration.memory_s);
        times.push(model.cost(thread_nodes, &fewer, Otherwise::default()).time_s + work_s);
    }
    times
}
