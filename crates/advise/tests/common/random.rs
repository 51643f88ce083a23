//! Random numbers and sampling for tests.

use numamma_findings::Usage;

/// A linear congruential generator (Knuth's MMIX), its high bits.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        (0..4).for_each(|_| _ = random.share());
        random
    }

    pub fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.share() * n as f64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Arrivals in a unit of time.
    pub fn poisson(&mut self, mean: f64) -> u64 {
        let (mut at, mut count) = (0.0, 0);
        if mean > 500.0 {
            let normal: f64 = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
            return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
        }
        loop {
            at -= (1.0 - self.share()).ln();
            if at > mean {
                return count;
            }
            count += 1;
        }
    }
}

/// The same run as sampling shows it: `samples` in all, each of the same part of `memory`.
pub fn sampled(usage: &Usage, samples: f64, random: &mut Random) -> Usage {
    let mut sampled = usage.clone();
    let instances = || usage.objects.iter().flat_map(|object| &object.instances);
    let all: f64 = instances().flat_map(|of| &of.pages).flat_map(|page| &page.by_thread).map(|of| of.memory).sum();
    for page in sampled.objects.iter_mut().flat_map(|object| &mut object.instances).flat_map(|of| &mut of.pages) {
        for of in &mut page.by_thread {
            of.samples = random.poisson(of.memory / all * samples);
            of.memory = of.samples as f64 * all / samples;
        }
        page.by_thread.retain(|of| of.samples > 0);
    }
    sampled
}
