//! How fast the code was that bursts began in, from how often they came from there to other code and back.
//!
//! ```text
//!   instructions of g    I_g = sum over bursts b   t_b r_f(b) c_bg / l_b     t_b: time that it stands for, f(b): where it began,
//!                                                                            c_bg of its l_b instructions are in g
//!   rate of f            r_f = I_f / T_f                                     T_f: time that bursts stand for that began in f
//! ```
//!
//! Moments are drawn from time, so slow code is where bursts begin too often. What they show of other code, a few thousand
//! instructions on, need not be corrected: the second line gives each stretch's rate from how often bursts came to it, the first
//! how often they came to it from those rates, and both together are solved by going round. That is the stationary distribution of
//! a chain of Markov whose states are stretches of code.

use rustc_hash::FxHashMap;

use super::{Survey, Taken};
use crate::tasks::ProcessId;

/// Rounds of the solution.
const ROUNDS: usize = 60;
/// So many bursts' worth of the assumption that a stretch is as fast as all others: of those that fewer begin in, what they execute
/// is chance.
const PRIOR: f64 = 20.0;

impl Survey {
    /// Bursts that begin behind a system call, by where that is.
    pub(super) fn behind_calls(&self) -> FxHashMap<(ProcessId, u64), Vec<usize>> {
        let mut behind: FxHashMap<(ProcessId, u64), Vec<usize>> = FxHashMap::default();
        for (number, burst) in self.taken.iter().enumerate().filter(|(_, burst)| burst.time == 0.0) {
            behind.entry(burst.ip).or_default().push(number);
        }
        behind
    }

    /// Of each burst that stands for time, the parts of what it shows, of 1 in all: its own, and what follows the system call at its end.
    pub(super) fn rows(&self) -> Vec<Vec<(usize, f64)>> {
        let behind = self.behind_calls();
        // What follows each call, all in all.
        let follow: FxHashMap<(ProcessId, u64), Vec<(usize, f64)>> = behind
            .iter()
            .map(|(&call, numbers)| {
                let mut sum: FxHashMap<usize, f64> = FxHashMap::default();
                for burst in numbers.iter().map(|&number| &self.taken[number]) {
                    let of = burst.length * numbers.len() as f64;
                    burst.parts.iter().for_each(|&(stretch, count)| *sum.entry(stretch).or_default() += count / of);
                }
                (call, sum.into_iter().collect())
            })
            .collect();
        let row = |burst: &Taken| {
            if burst.time <= 0.0 {
                return Vec::new();
            }
            let rest = burst.call.and_then(|call| follow.get(&call));
            let own = if rest.is_some() { burst.part() } else { 1.0 };
            let parts = burst.parts.iter().map(|&(stretch, count)| (stretch, count / burst.length * own));
            parts.chain(rest.into_iter().flatten().map(|&(stretch, part)| (stretch, part * (1.0 - own)))).collect()
        };
        self.taken.iter().map(row).collect()
    }

    /// The rate at which each burst's instructions were executed, relative to the mean of all. `shares`: see [`Survey::shares`].
    pub(super) fn rates(&self, rows: &[Vec<(usize, f64)>], shares: &[f64]) -> Vec<f64> {
        let weights: Vec<f64> = self.taken.iter().map(|burst| burst.time * shares[burst.start]).collect();
        let bursts = self.len() as f64;
        let mut begun = vec![0.0; self.samples.len()];
        self.taken.iter().zip(&weights).for_each(|(burst, weight)| begun[burst.start] += weight);
        let mut rates = vec![1.0; self.taken.len()];
        let mut executed = vec![0.0; self.samples.len()];
        for _ in 0..ROUNDS {
            let all: f64 = weights.iter().zip(&rates).map(|(weight, rate)| weight * rate).sum();
            executed.fill(0.0);
            for ((weight, rate), row) in weights.iter().zip(&rates).zip(rows) {
                let weight = weight * rate / all;
                row.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
            }
            for (burst, rate) in self.taken.iter().zip(&mut rates) {
                let of = burst.start;
                *rate = (bursts * executed[of] + PRIOR) / (bursts * begun[of] + PRIOR);
            }
        }
        let mean: f64 = weights.iter().zip(&rates).map(|(weight, rate)| weight * rate).sum();
        rates.iter_mut().for_each(|rate| *rate /= mean);
        rates
    }
}
