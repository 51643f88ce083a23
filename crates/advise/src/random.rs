//! Random numbers that are the same in every run.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0, variance 1: the sum of 12 shares, which is normal within three deviations.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }

    /// Number of samples drawn anew where there were `mean`.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (limit, mut product, mut count) = ((-mean).exp(), self.share(), 0.0);
        while product > limit {
            product *= self.share();
            count += 1.0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_samples_have_their_mean_as_variance() {
        let mut random = Random::new(1);
        for mean in [0.5, 3.0, 50.0] {
            let draws: Vec<f64> = (0..20_000).map(|_| random.poisson(mean)).collect();
            let average = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|draw| (draw - average).powi(2)).sum::<f64>() / 20_000.0;
            assert!((average / mean - 1.0).abs() < 0.03, "{average} of {mean}");
            assert!((variance / mean - 1.0).abs() < 0.05, "{variance} of {mean}");
        }
    }
}
