//! Random programs whose accesses are counted exactly: what reports state of them is judged.
//!
//! ```text
//!   seed -> program (loops, arrays, language, compiler) -> source -> binary
//!                                                                    ├── emulated twice, few rounds -> exact counts of any number of rounds
//!                                                                    └── recorded, many rounds      -> what the report states
//!                                                                                                         └── claims, and whether they hold
//! ```
//!
//! Nothing here knows how counts are estimated. Constants of the estimator may be fitted on even seeds; odd seeds judge.

pub mod claims;
pub mod exact;
pub mod kinds;
pub mod program;
pub mod recorded;
pub mod source;
pub mod source_fortran;
pub mod table;

pub use claims::{Claim, Of};
pub use program::Program;
pub use recorded::{Mode, judge};

/// Random numbers that are the same for the same seed on any machine (SplitMix64: Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count.max(1) as u64) as usize
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Between two numbers, evenly on a logarithmic scale.
    pub fn scale(&mut self, low: f64, high: f64) -> f64 {
        let part = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        low * (high / low).powf(part)
    }
}
