//! Phases of a program: times in which it executes the same code.
//!
//! A program that does one thing and then another may use the same functions for both, an interpreter's loop for one, and go round in
//! them at another speed. Which times are alike is told by where samples are: by the cosine of the angle between their distributions over
//! stretches of code, from which the part is taken out that is chance.

use rustc_hash::FxHashMap;

/// Times whose distributions have a smaller cosine are of two phases.
const ALIKE: f64 = 0.7;
/// Fewer samples tell nothing.
const LEAST_SAMPLES: f64 = 20.0;
/// Pairs of samples in the same stretch that tell how many there are.
const LEAST_PAIRS: f64 = 20.0;
/// Standard errors by which the cosine must be smaller.
const ERRORS: f64 = 2.0;
/// With more phases than these each has too few trace windows.
const MOST: usize = 16;

/// Samples by stretch.
pub(super) type Histogram = FxHashMap<usize, f64>;

/// Phases so far.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// Samples of each.
    of: Vec<Histogram>,
    latest: usize,
}

impl Phases {
    /// The phase that a time is of whose samples these are, by number.
    pub fn add(&mut self, samples: &Histogram) -> usize {
        if self.of.is_empty() {
            self.of.push(Histogram::default());
        }
        let phase = self.find(samples);
        for (stretch, samples) in samples {
            *self.of[phase].entry(*stretch).or_default() += samples;
        }
        self.latest = phase;
        phase
    }

    fn find(&mut self, samples: &Histogram) -> usize {
        if samples.values().sum::<f64>() < LEAST_SAMPLES {
            return self.latest;
        }
        let cosines = self.of.iter().map(|phase| cosine(samples, phase)).enumerate();
        // What goes on goes on, where nothing tells the difference.
        let better = |(one, a): &(usize, f64), (other, b): &(usize, f64)| {
            a.total_cmp(b).then((*one == self.latest).cmp(&(*other == self.latest)))
        };
        match cosines.max_by(better) {
            Some((phase, cosine)) if cosine >= ALIKE || self.of.len() == MOST => phase,
            _ => {
                self.of.push(Histogram::default());
                self.of.len() - 1
            }
        }
    }
}

/// The cosine of a time's distribution and a phase's, as large as chance allows; where nothing is known, just large enough.
fn cosine(time: &Histogram, phase: &Histogram) -> f64 {
    let (of_time, of_phase) = (time.values().sum::<f64>(), phase.values().sum::<f64>());
    // Pairs of samples in the same stretch: no sample is a pair with itself.
    let pairs = |of: &Histogram| of.values().map(|samples| samples * (samples - 1.0)).sum::<f64>();
    if pairs(phase) < LEAST_PAIRS {
        return ALIKE;
    }
    let square_of_phase = pairs(phase) / (of_phase * (of_phase - 1.0));
    let square_of_time = match pairs(time) {
        few if few < LEAST_PAIRS => square_of_phase,
        pairs => pairs / (of_time * (of_time - 1.0)),
    };
    let common = |power: i32| {
        let part = |stretch: &usize| phase.get(stretch).copied().unwrap_or(0.0) / of_phase;
        time.iter().map(|(stretch, samples)| samples * part(stretch).powi(power)).sum::<f64>()
    };
    (common(1) + ERRORS * common(2).sqrt()) / of_time / (square_of_time * square_of_phase).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(stretches: std::ops::Range<usize>, samples: f64) -> Histogram {
        stretches.map(|stretch| (stretch, samples)).collect()
    }

    #[test]
    fn times_in_the_same_code_are_one_phase() {
        let mut phases = Phases::default();
        assert_eq!(phases.add(&even(0..10, 20.0)), 0);
        // The first code has some of the second phase's time, too.
        let mut second = even(10..20, 20.0);
        second.extend(even(0..2, 20.0));
        assert_eq!(phases.add(&second), 1);
        assert_eq!(phases.add(&even(0..10, 5.0)), 0);
        assert_eq!(phases.add(&even(10..20, 5.0)), 1);
        // Too few to tell.
        assert_eq!(phases.add(&even(100..103, 1.0)), 1);
        // A phase of which little is known yet takes no time of others.
        assert_eq!(phases.add(&even(200..225, 1.0)), 2);
        assert_eq!(phases.add(&even(0..10, 5.0)), 0);
    }

    /// Of code that is spread over thousands of functions hardly two samples are in the same.
    #[test]
    fn chance_makes_no_phase() {
        let mut random = crate::clock::counts::resample::Random::new(5);
        let mut phases = Phases::default();
        for _ in 0..200 {
            let mut samples = Histogram::default();
            (0..130).for_each(|_| *samples.entry(random.below(2000)).or_default() += 1.0);
            assert_eq!(phases.add(&samples), 0);
        }
    }

    #[test]
    fn there_are_not_too_many() {
        let mut phases = Phases::default();
        let found = (0..3 * MOST).map(|n| phases.add(&even(10 * n..10 * n + 10, 20.0))).max();
        assert_eq!(found, Some(MOST - 1));
    }
}
