//! How fast the code was that trace windows began in, from how often they came from there to other code and back.
//!
//! ```text
//!   instructions of g    I_g = sum over trace windows b   t_b r_f(b) c_bg / l_b     t_b: time that it stands for, f(b): where it began,
//!                                                                            c_bg of its l_b instructions are in g
//!   rate of f            r_f = I_f / T_f                                     T_f: time that trace windows stand for that began in f
//! ```
//!
//! Moments are drawn from time, so slow code is where trace windows begin too often. What they show of other code, a few thousand
//! instructions on, need not be corrected: the second line gives each stretch's rate from how often trace windows came to it, the first
//! how often they came to it from those rates, and both together are solved by going round. That is the stationary distribution of
//! a chain of Markov whose states are stretches of code.

use rustc_hash::FxHashMap;

use super::{Call, Survey, Time};

/// Rounds of the solution.
const ROUNDS: usize = 60;
/// So many trace windows' worth of the assumption that a stretch is as fast as all others: of those that fewer begin in, what they execute
/// is chance.
pub(super) const PRIOR: f64 = 20.0;

/// What trace windows show, in parts of 1 for each of those that stand for time.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By trace window.
    pub own: Vec<Row>,
    /// By call: what the trace windows behind it show together.
    pub behind: Vec<Vec<(usize, f64)>>,
}

/// What a trace window shows.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Parts by state.
    pub parts: Vec<(usize, f64)>,
    /// The part that is behind the system call at its end, and which that is in [`Rows::behind`].
    pub behind: Option<(usize, f64)>,
}

impl Survey {
    /// Trace windows that begin behind a system call, by where that is.
    pub(super) fn behind_calls(&self) -> FxHashMap<Call, Vec<usize>> {
        let mut behind: FxHashMap<Call, Vec<usize>> = FxHashMap::default();
        for (number, trace_window) in self.taken.iter().enumerate().filter(|(_, trace_window)| trace_window.time == 0.0)
        {
            behind.entry(trace_window.ip).or_default().push(number);
        }
        behind
    }

    /// What trace windows show.
    pub(super) fn rows(&self) -> Rows {
        let (mut numbers, mut behind) = (FxHashMap::default(), Vec::new());
        for (call, trace_windows) in self.behind_calls() {
            let mut sum: FxHashMap<usize, f64> = FxHashMap::default();
            for trace_window in trace_windows.iter().map(|&number| &self.taken[number]) {
                let of = trace_window.executed() * trace_windows.len() as f64;
                trace_window.parts.iter().for_each(|&(state, count)| *sum.entry(state).or_default() += count / of);
            }
            numbers.insert(call, behind.len());
            behind.push(sum.into_iter().collect());
        }
        let own = self.taken.iter().map(|trace_window| {
            if trace_window.time <= 0.0 {
                return Row::default();
            }
            let call = trace_window.call.and_then(|call| numbers.get(&call));
            let own = if call.is_some() { trace_window.part() } else { 1.0 };
            let of = trace_window.executed();
            let parts = trace_window.parts.iter().map(|&(state, count)| (state, count / of * own));
            Row { parts: parts.collect(), behind: call.map(|&call| (call, 1.0 - own)) }
        });
        Rows { own: own.collect(), behind }
    }

    /// By state: the rate at which instructions of trace windows were executed that began there, relative to the mean of all. What nothing tells of is
    /// as fast as that.
    pub(super) fn rates(&self, rows: &Rows, time: &Time) -> Vec<f64> {
        let mut weights: Vec<f64> = self
            .taken
            .iter()
            .map(|trace_window| trace_window.time * time.of_trace_window[trace_window.start])
            .collect();
        let all: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= all);
        let trace_windows = self.len() as f64;
        let mut begun = vec![0.0; self.states.len()];
        self.taken.iter().zip(&weights).for_each(|(trace_window, weight)| begun[trace_window.start] += weight);
        let mut rates = vec![1.0; self.states.len()];
        let (mut executed, mut behind) = (vec![0.0; self.states.len()], vec![0.0; rows.behind.len()]);
        for _ in 0..ROUNDS {
            let all: f64 =
                weights.iter().zip(&self.taken).map(|(weight, trace_window)| weight * rates[trace_window.start]).sum();
            executed.fill(0.0);
            behind.fill(0.0);
            for ((weight, trace_window), row) in weights.iter().zip(&self.taken).zip(&rows.own) {
                let weight = weight * rates[trace_window.start] / all;
                row.parts.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
                row.behind.iter().for_each(|&(call, part)| behind[call] += weight * part);
            }
            for (weight, parts) in behind.iter().zip(&rows.behind) {
                parts.iter().for_each(|&(stretch, part)| executed[stretch] += weight * part);
            }
            for ((rate, executed), begun) in rates.iter_mut().zip(&executed).zip(&begun) {
                *rate = (trace_windows * executed + PRIOR) / (trace_windows * begun + PRIOR);
            }
        }
        let mean: f64 =
            weights.iter().zip(&self.taken).map(|(weight, trace_window)| weight * rates[trace_window.start]).sum();
        rates.iter_mut().for_each(|rate| *rate /= mean);
        rates
    }
}
