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

use super::{Call, Survey, Time};

/// Rounds of the solution.
const ROUNDS: usize = 60;
/// So many bursts' worth of the assumption that a stretch is as fast as all others: of those that fewer begin in, what they execute
/// is chance.
pub(super) const PRIOR: f64 = 20.0;

/// What bursts show, in parts of 1 for each of those that stand for time.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By burst.
    pub own: Vec<Row>,
    /// By call: what the bursts behind it show together.
    pub behind: Vec<Vec<(usize, f64)>>,
}

/// What a burst shows.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Parts by state.
    pub parts: Vec<(usize, f64)>,
    /// The part that is behind the system call at its end, and which that is in [`Rows::behind`].
    pub behind: Option<(usize, f64)>,
}

impl Survey {
    /// Bursts that begin behind a system call, by where that is.
    pub(super) fn behind_calls(&self) -> FxHashMap<Call, Vec<usize>> {
        let mut behind: FxHashMap<Call, Vec<usize>> = FxHashMap::default();
        for (number, burst) in self.taken.iter().enumerate().filter(|(_, burst)| burst.time == 0.0) {
            behind.entry(burst.ip).or_default().push(number);
        }
        behind
    }

    /// What bursts show.
    pub(super) fn rows(&self) -> Rows {
        let (mut numbers, mut behind) = (FxHashMap::default(), Vec::new());
        for (call, bursts) in self.behind_calls() {
            let mut sum: FxHashMap<usize, f64> = FxHashMap::default();
            for burst in bursts.iter().map(|&number| &self.taken[number]) {
                let of = burst.executed() * bursts.len() as f64;
                burst.parts.iter().for_each(|&(state, count)| *sum.entry(state).or_default() += count / of);
            }
            numbers.insert(call, behind.len());
            behind.push(sum.into_iter().collect());
        }
        let own = self.taken.iter().map(|burst| {
            if burst.time <= 0.0 {
                return Row::default();
            }
            let call = burst.call.and_then(|call| numbers.get(&call));
            let own = if call.is_some() { burst.part() } else { 1.0 };
            let of = burst.executed();
            let parts = burst.parts.iter().map(|&(state, count)| (state, count / of * own));
            Row { parts: parts.collect(), behind: call.map(|&call| (call, 1.0 - own)) }
        });
        Rows { own: own.collect(), behind }
    }

    /// By state: the rate at which instructions of bursts were executed that began there, relative to the mean of all. What nothing tells of is
    /// as fast as that.
    pub(super) fn rates(&self, rows: &Rows, time: &Time) -> Vec<f64> {
        let mut weights: Vec<f64> = self.taken.iter().map(|burst| burst.time * time.of_burst[burst.start]).collect();
        let all: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= all);
        let bursts = self.len() as f64;
        let mut begun = vec![0.0; self.states.len()];
        self.taken.iter().zip(&weights).for_each(|(burst, weight)| begun[burst.start] += weight);
        let mut rates = vec![1.0; self.states.len()];
        let (mut executed, mut behind) = (vec![0.0; self.states.len()], vec![0.0; rows.behind.len()]);
        for _ in 0..ROUNDS {
            let all: f64 = weights.iter().zip(&self.taken).map(|(weight, burst)| weight * rates[burst.start]).sum();
            executed.fill(0.0);
            behind.fill(0.0);
            for ((weight, burst), row) in weights.iter().zip(&self.taken).zip(&rows.own) {
                let weight = weight * rates[burst.start] / all;
                row.parts.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
                row.behind.iter().for_each(|&(call, part)| behind[call] += weight * part);
            }
            for (weight, parts) in behind.iter().zip(&rows.behind) {
                parts.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
            }
            for ((rate, executed), begun) in rates.iter_mut().zip(&executed).zip(&begun) {
                *rate = (bursts * executed + PRIOR) / (bursts * begun + PRIOR);
            }
        }
        let mean: f64 = weights.iter().zip(&self.taken).map(|(weight, burst)| weight * rates[burst.start]).sum();
        rates.iter_mut().for_each(|rate| *rate /= mean);
        rates
    }
}
