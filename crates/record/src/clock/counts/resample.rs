//! How far a solution could be off: the evidence is drawn anew within what its own numbers allow, and solved again.
//!
//! Efron's bootstrap, with parametric draws: counts from Poisson distributions, means from normal ones.

use super::evidence::{Evidence, Remaining};

/// Random numbers that are the same each time.
#[derive(Debug)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One of `0..count`, each with equal chance; 0 if there is none.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Evenly spread over 0..1.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 0 and variance 1 (Irwin-Hall: enough for what it is used for).
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A count whose mean is `mean`.
    fn count(&mut self, mean: u32) -> u32 {
        let mean = f64::from(mean);
        if mean > 16.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u32;
        }
        // Knuth: how many factors until the product is below e^-mean.
        let (limit, mut product, mut count) = ((-mean).exp(), self.uniform(), 0);
        while product > limit {
            product *= self.uniform();
            count += 1;
        }
        count
    }
}

/// The evidence as another run might have given it.
pub fn resampled(evidence: &Evidence, random: &mut Random) -> Evidence {
    let mut other = evidence.clone();
    for block in &mut other.blocks {
        let busy = random.count(block.samples - block.stalled.min(block.samples));
        block.stalled = random.count(block.stalled);
        block.samples = busy + block.stalled;
        (block.taken, block.passed) = (random.count(block.taken), random.count(block.passed));
    }
    for counter in other.loops.iter_mut().flatten() {
        for gap in counter.gaps.iter_mut().filter(|gap| gap.good > 0) {
            let pairs = f64::from(gap.good);
            let mean = gap.rounds / pairs;
            let spread = (gap.squares / pairs - mean * mean).max(0.0).sqrt();
            gap.rounds = (gap.rounds + pairs.sqrt() * spread * random.normal()).max(0.0);
        }
        shift(&mut counter.remaining, random);
    }
    other
}

/// Moves the mean, and leaves the shape as it was.
fn shift(remaining: &mut Remaining, random: &mut Random) {
    let n = f64::from(remaining.samples);
    let mean = remaining.sum / n;
    if !(n > 0.0 && mean > 0.0) {
        return;
    }
    let spread = (remaining.squares / n - mean * mean).max(0.0).sqrt();
    let factor = (1.0 + spread / mean / n.sqrt() * random.normal()).max(0.1);
    remaining.sum *= factor;
    remaining.squares *= factor * factor;
}

#[cfg(test)]
mod tests {
    use super::super::evidence::BlockEvidence;
    use super::*;

    #[test]
    fn counts_vary_as_counts_do() {
        for mean in [3_u32, 400] {
            let mut random = Random::new(7);
            let drawn: Vec<f64> = (0..4000).map(|_| f64::from(random.count(mean))).collect();
            let average = drawn.iter().sum::<f64>() / 4000.0;
            let variance = drawn.iter().map(|x| (x - average).powi(2)).sum::<f64>() / 3999.0;
            assert!((average / f64::from(mean) - 1.0).abs() < 0.04, "{average}");
            assert!((variance / f64::from(mean) - 1.0).abs() < 0.1, "{variance}");
        }
    }

    #[test]
    fn what_was_never_seen_stays_unseen() {
        let mut evidence = Evidence::default();
        evidence.blocks = vec![BlockEvidence { samples: 9, stalled: 0, taken: 0, passed: 9 }];
        let other = resampled(&evidence, &mut Random::new(1));
        assert_eq!((other.blocks[0].stalled, other.blocks[0].taken), (0, 0));
        assert_ne!(resampled(&evidence, &mut Random::new(2)).blocks[0].samples, 0);
    }
}
