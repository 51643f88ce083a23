//! How fast each class goes, from moments for which that was measured.
//!
//! ```text
//!   v_s     mean of the speeds that were measured where the thread was in state s, and once more of all of the class
//!   v   =   sum over s  T_s v_s  /  sum over s  T_s            T_s: time in s, over the states with timings
//!   c   =   v / r                                              r: the mean rate of the class by trace windows, over all of its states
//! ```
//!
//! Moments are drawn from time, and all are about as long, so the mean of speeds is that of the instructions in a time. They are long
//! beside how long a thread stays in a state, as a rule: what was measured in one tells of those, too, that it comes to from there.

use super::Survey;
use super::pace::{BETWEEN_CLASSES, Pace};

/// Standard error of the logarithm of a speed, at best: that of a sample's cost, and of what else a moment is not typical in.
const OF_TIMING: f64 = 0.2;
/// Standard deviation of the logarithms of speeds in a class, before it is known.
const WITHIN_CLASS: f64 = 0.5;
/// So many timings' worth of what is assumed of deviations.
const PRIOR: f64 = 2.0;

/// A class with timings.
#[derive(Clone, Debug)]
struct Class {
    /// Instructions in a nanosecond: the mean over time.
    speed: f64,
    /// How many timings that is from, if all weighed the same.
    timings: f64,
    /// Mean square of their relative deviations.
    deviation: f64,
    /// The part (0..1) of its time in states where there was none.
    elsewhere: f64,
}

impl Survey {
    /// How fast each class goes, where that was measured. `of_state`: the class of each state; `in_state`: nanoseconds that trace windows
    /// stand for, by the state where they began; `mean`: the rate of each class by trace windows, whose unit is what is asked for.
    pub(super) fn timed(&self, of_state: &[usize], in_state: &[f64], mean: &[f64]) -> Vec<Option<Pace>> {
        let mut speeds: Vec<Vec<(usize, f64)>> = vec![Vec::new(); mean.len()];
        self.timed.iter().for_each(|&(state, speed)| speeds[of_state[state]].push((state, speed)));
        let mut spent = vec![0.0; mean.len()];
        of_state.iter().zip(in_state).for_each(|(&class, time)| spent[class] += time);
        let class = |(speeds, &spent): (&Vec<(usize, f64)>, &f64)| Class::of(speeds, in_state, spent);
        let classes: Vec<Option<Class>> = speeds.iter().zip(&spent).map(class).collect();
        // How much speeds differ in all classes tells of those with few of them.
        let told = classes.iter().flatten().map(|of| (of.timings - 1.0, of.timings * of.deviation));
        let prior = (PRIOR, PRIOR * WITHIN_CLASS.powi(2));
        let (freedom, squares) = told.fold(prior, |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let usual = squares / freedom;
        let pace = |(of, mean): (&Option<Class>, &f64)| of.as_ref().map(|of| of.pace(usual, *mean));
        classes.iter().zip(mean).map(pace).collect()
    }
}

impl Class {
    /// `speeds`: with the states of the class that they were measured in; `spent`: time in all of these.
    fn of(speeds: &[(usize, f64)], in_state: &[f64], spent: f64) -> Option<Self> {
        let mut states: Vec<usize> = speeds.iter().map(|(state, _)| *state).collect();
        states.sort_unstable();
        states.dedup();
        let seen: f64 = states.iter().map(|&state| in_state[state]).sum();
        if seen <= 0.0 {
            return None;
        }
        let all = speeds.iter().map(|(_, speed)| speed).sum::<f64>() / speeds.len() as f64;
        let (mut speed, mut weights) = (0.0, Vec::with_capacity(speeds.len()));
        for state in states {
            let there = speeds.iter().filter(|(of, _)| *of == state).map(|(_, speed)| speed);
            let (sum, count) = there.fold((all, 1.0), |(sum, count), speed| (sum + speed, count + 1.0));
            let part = in_state[state] / seen;
            speed += part * sum / count;
            weights.extend(std::iter::repeat_n(part / (count - 1.0), count as usize - 1));
        }
        let deviation = speeds.iter().map(|(_, of)| (of / speed - 1.0).powi(2)).sum::<f64>() / speeds.len() as f64;
        let timings = weights.iter().map(|weight| weight * weight).sum::<f64>().recip();
        Some(Self { speed, timings, deviation, elsewhere: 1.0 - seen / spent })
    }

    /// `usual`: the variance of the logarithms of speeds in a class.
    fn pace(&self, usual: f64, mean: f64) -> Pace {
        let variance = (self.timings * self.deviation + PRIOR * usual) / (self.timings - 1.0 + PRIOR);
        let error = (variance / self.timings).sqrt().hypot(OF_TIMING).hypot(BETWEEN_CLASSES * self.elsewhere);
        Pace { rate: self.speed / mean, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_count_by_their_time() {
        // Half of the timings are in a state that has a tenth of the time.
        let in_state = [0.9, 0.1, 1.0];
        let speeds: Vec<(usize, f64)> = (0..100).map(|n| if n % 2 == 0 { (0, 1.0) } else { (1, 11.0) }).collect();
        let class = Class::of(&speeds, &in_state, 2.0).expect("timings");
        assert!((class.speed - 2.0).abs() < 0.1 && class.elsewhere == 0.5, "{class:?}");
        // Those in the first say most.
        assert!((50.0..70.0).contains(&class.timings), "{class:?}");
        assert!(Class::of(&[], &in_state, 2.0).is_none());
        assert!(Class::of(&[(2, 5.0)], &[0.0; 3], 2.0).is_none());
    }

    #[test]
    fn the_fewer_the_less_is_known() {
        let pace = |speeds: &[f64]| {
            let speeds: Vec<(usize, f64)> = speeds.iter().map(|&speed| (0, speed)).collect();
            Class::of(&speeds, &[1.0], 1.0).expect("timings").pace(0.09, 0.5)
        };
        let (one, many) = (pace(&[4.0]), pace(&[4.0; 50]));
        assert!((one.rate - 8.0).abs() < 1e-9 && (many.rate - 8.0).abs() < 1e-9);
        assert!(many.error < 0.21 && (0.3..0.4).contains(&one.error), "{many:?} {one:?}");
        assert!(pace(&[1.0, 7.0]).error > one.error);
    }
}
