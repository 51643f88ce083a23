//! Ranges of an object that belong to one node, or to all: the sequence of owners without its noise.
//!
//! A page's accesses come from its owner with probability `r`, else from any other node; in a shared range from each node as often as
//! in the whole object. The sequence of states with the shortest description is found by dynamic programming (Viterbi): a
//! change costs what it takes to say where it is and to which state, ln(pages) + ln(states). So a single strange page
//! makes no run, and one sample in each of many neighbouring pages does.

use crate::evidence::Evidence;

/// Rounds of estimating `r`; it changes little after the second.
const ROUNDS: usize = 3;
/// First estimate, and bounds: an owner has most samples, and no sample is impossible.
const FIRST: f64 = 0.9;
const LEAST: f64 = 0.5;
const MOST: f64 = 0.99;

/// Pages in a row of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The owner; `None`: shared by all.
    pub node: Option<usize>,
    /// First page.
    pub start: usize,
    /// Page behind the last.
    pub end: usize,
}

/// The runs of an object, from its first page to its last.
pub fn runs(evidence: &Evidence) -> Vec<Run> {
    let mut owned = FIRST;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        runs = shortest(evidence, owned);
        let (mut own, mut all) = (0.0, 0.0);
        for run in &runs {
            if let Some(node) = run.node {
                own += evidence.before(run.end)[node] - evidence.before(run.start)[node];
                all += evidence.within(run.start, run.end).sum::<f64>();
            }
        }
        let next = if all > 0.0 { f64::clamp(own / all, LEAST, MOST) } else { return runs };
        if (next - owned).abs() < 0.01 {
            return runs;
        }
        owned = next;
    }
    runs
}

/// Share of the accesses at their owner's pages; a shared page is local to one of as many nodes as use the object.
pub fn local_share(evidence: &Evidence, runs: &[Run]) -> f64 {
    let users = evidence.all().iter().filter(|&&samples| samples > 0.0).count().max(1) as f64;
    let of_run = |run: &Run| match run.node {
        Some(node) => evidence.before(run.end)[node] - evidence.before(run.start)[node],
        None => evidence.within(run.start, run.end).sum::<f64>() / users,
    };
    runs.iter().map(of_run).sum::<f64>() / evidence.pages().max(f64::MIN_POSITIVE)
}

/// Share of the used pages that are in ranges with an owner.
pub fn owned_share(evidence: &Evidence, runs: &[Run]) -> f64 {
    let owned = runs.iter().filter(|run| run.node.is_some());
    let pages: f64 = owned.flat_map(|run| evidence.within(run.start, run.end)).sum();
    pages / evidence.pages().max(f64::MIN_POSITIVE)
}

/// The sequence of states with the shortest description.
fn shortest(evidence: &Evidence, owned: f64) -> Vec<Run> {
    let users: Vec<usize> = (0..evidence.nodes).filter(|&node| evidence.all()[node] > 0.0).collect();
    if users.len() < 2 || evidence.units == 0 {
        return vec![Run { node: users.first().copied(), start: 0, end: evidence.units }];
    }
    let shared = users.len();
    let change = (evidence.units as f64).ln() + (users.len() as f64 + 1.0).ln();
    let (own, other) = (owned.ln(), ((1.0 - owned) / (users.len() as f64 - 1.0)).ln());
    let mixture: Vec<f64> = users.iter().map(|&node| (evidence.all()[node] / evidence.pages()).ln()).collect();
    // Cost of the best sequence that ends in a state; the best state of the page before; whether a state was changed to here.
    let mut costs = vec![0.0_f64; users.len() + 1];
    let mut best_before = Vec::with_capacity(evidence.units);
    let mut changed = vec![false; evidence.units * costs.len()];
    for unit in 0..evidence.units {
        let best = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(shared);
        let from_best = costs[best] + change;
        best_before.push(best);
        let (before, behind) = (evidence.before(unit), evidence.before(unit + 1));
        let samples = |user: usize| behind[users[user]] - before[users[user]];
        let all: f64 = (0..users.len()).map(samples).sum();
        for (state, cost) in costs.iter_mut().enumerate() {
            if unit > 0 && from_best < *cost {
                *cost = from_best;
                changed[unit * (users.len() + 1) + state] = true;
            }
            if all > 0.0 {
                *cost -= match state == shared {
                    true => (0..users.len()).map(|user| samples(user) * mixture[user]).sum(),
                    false => samples(state) * own + (all - samples(state)) * other,
                };
            }
        }
    }
    let mut state = (0..costs.len()).rev().min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(shared);
    let mut runs = Vec::new();
    let mut end = evidence.units;
    for unit in (0..evidence.units).rev() {
        let is_start = unit == 0 || changed[unit * costs.len() + state];
        if is_start {
            runs.push(Run { node: users.get(state).copied(), start: unit, end });
            (end, state) = (unit, best_before[unit]);
        }
    }
    runs.reverse();
    runs
}

/// True if the order of owners is no accident: hardly more runs than there are owners, or neighbours follow each other more often than
/// owners drawn at random would in one of a thousand cases. `owners` without repetitions.
pub fn is_orderly(owners: &[usize]) -> bool {
    let mut distinct = owners.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let nodes = distinct.len();
    // One range for each, and one more at each end.
    if owners.len() <= nodes + 2 {
        return true;
    }
    let number = |owner: &usize| distinct.partition_point(|of| of < owner);
    let follows = owners.windows(2).filter(|pair| number(&pair[1]) == (number(&pair[0]) + 1) % nodes).count();
    // Two that take turns follow each other always.
    nodes > 2 && tail(owners.len() - 1, follows, 1.0 / (nodes as f64 - 1.0)) < 0.001
}

/// Probability of at least `k` successes in `n` trials.
fn tail(n: usize, k: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powi(n as i32);
    let mut below = 0.0;
    for i in 0..k {
        below += term;
        term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
    }
    1.0 - below
}
