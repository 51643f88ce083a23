//! Code that runs together, and code that does not: the communicating classes of the chain whose states are stretches of code in phases.
//!
//! How fast two states are beside each other follows from how often trace windows that began in the one came to the other, and back. A
//! program that does one thing and then another has parts between which none goes: [`super::flow`] gives each such part rates that are
//! right among themselves, and does not tell by how much all of them are off. Where a loop's counter tells how often some of the part's
//! code ran, that does; else how fast it went when that was measured ([`super::timed`]); else what its fastest code takes ([`super::pace`]); else the part is taken to be as fast as the others.

use rustc_hash::FxHashMap;

use super::flow::{PRIOR, Rows};
use super::pace::{Pace, pooled};
use super::{Survey, Time};
use crate::clock::counts::Instruction;

/// Trace windows that must have gone from one class to another before that tells how often they do.
const LINKS: u32 = 10;
/// Part of a trace window's instructions that must be elsewhere for it to have come there.
const LEAST_PART: f64 = 0.002;
/// Part of the time that a class stands for that both must tell of, so that the one is the measure of the other.
const LEAST_SHOWN: f64 = 0.05;
/// The same where nothing connects what is in the class.
const MOST_SHOWN: f64 = 0.5;
/// Standard error of the logarithm of how fast a stretch is beside its class, where that is assumed.
const ASSUMED: f64 = 0.7;
/// Relative standard error of what one trace window stands for: that it was taken at all is chance (a Poisson process).
const ERROR_OF_ONE: f64 = 1.0;
/// Of a class that is measured, at best: its counters tell of a part of it.
const LEAST_ERROR: f64 = 0.05;

/// Which states are connected.
struct Connected {
    /// The class of each state.
    of_state: Vec<usize>,
    /// How many classes there are.
    count: usize,
    /// Which of them were put together because little is known of their parts.
    loose: Vec<bool>,
}

/// What counters tell of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Executions of its instructions.
    runs: f64,
    /// As many by trace windows, were each of their rates what it is beside the others of the class.
    seen: f64,
}

/// The class of each state, and how fast each is.
#[derive(Debug, Default)]
pub struct Classes {
    pub of_state: Vec<usize>,
    /// Instructions in a nanosecond, by class, where rates of its trace windows are relative to the mean of all.
    pub rates: Vec<f64>,
    /// Standard errors of the logarithms of these.
    pub errors: Vec<f64>,
    /// True if so few trace windows began in a state that how fast it is beside its class is assumed rather than found.
    rare: Vec<bool>,
    /// Trace windows that began in each class.
    begun: Vec<u32>,
    /// True if nothing tells of any class.
    pub assumed: bool,
}

impl Classes {
    /// Of a trace window that began in a state: by how much it may be off by itself, what it is off together with, and by how much. Rare
    /// states of a class are each faster or slower than assumed, and all together, for code that is seldom executed waits for its
    /// caches.
    pub fn error(&self, state: usize) -> (f64, usize, f64) {
        let class = self.of_state[state];
        match self.rare[state] && self.begun[class] >= LINKS {
            true => (ERROR_OF_ONE.hypot(ASSUMED), self.rates.len(), self.errors[class].hypot(ASSUMED)),
            false => (ERROR_OF_ONE, class, self.errors[class]),
        }
    }
}

impl Survey {
    /// Finds the classes. `rows`: what each trace window shows; `rates`: by state, relative; `fastest`: instructions that the processor
    /// retires in a nanosecond; `runs`: how often an instruction was executed, where samples tell.
    pub(super) fn classes(
        &self,
        rows: &Rows,
        rates: &[f64],
        time: &Time,
        fastest: f64,
        runs: impl Fn(Instruction) -> Option<f64>,
    ) -> Classes {
        let Connected { of_state, count, loose } = self.connected(rows);
        let begun = self.begun(&of_state, count);
        let mut spent = vec![0.0; count];
        let mut in_state = vec![0.0; of_state.len()];
        for trace_window in self.taken.iter().filter(|trace_window| trace_window.time > 0.0) {
            let time = trace_window.time * time.of_trace_window[trace_window.start];
            spent[of_state[trace_window.start]] += time;
            in_state[trace_window.start] += time;
        }
        let all: f64 = spent.iter().sum();
        let rare = in_state.iter().map(|time| time * self.len() as f64 <= PRIOR * all).collect();

        // Rates are relative to what trace windows show, which differs by class.
        let mut shown = vec![0.0; count];
        for trace_window in self.taken.iter().filter(|trace_window| trace_window.time > 0.0) {
            shown[of_state[trace_window.start]] +=
                trace_window.time * time.of_trace_window[trace_window.start] * rates[trace_window.start];
        }
        let mean = |(shown, spent): (&f64, &f64)| if *shown > 0.0 { shown / spent } else { 1.0 };
        let mean: Vec<f64> = shown.iter().zip(&spent).map(mean).collect();
        let counted = self.counted(&of_state, count, rates, time, runs);
        let timed = self.timed(&of_state, &in_state, &mean);
        let paces = self.paces(&of_state, rates, time, fastest, &begun);
        let known = |class: usize| {
            let Counted { runs, seen } = counted[class];
            // A few of them may be anything; and what nothing connects, no part of it tells of.
            let enough = if loose[class] { MOST_SHOWN } else { LEAST_SHOWN };
            if begun[class] >= LINKS && seen > enough * spent[class] {
                let error = f64::from(begun[class]).sqrt().recip().max(LEAST_ERROR);
                return Some(Pace { rate: runs / seen, error });
            }
            timed[class].or(paces[class])
        };
        let most = if fastest > 0.0 { fastest } else { f64::INFINITY };
        let speed = |class| known(class).map(|of| Pace { rate: (of.rate * mean[class]).min(most), ..of });
        let speeds: Vec<Option<Pace>> = (0..count).map(speed).collect();
        let parts: Vec<f64> = spent.iter().map(|time| time / all).collect();
        let pooled = pooled(&speeds, &parts);
        let rates = pooled.iter().enumerate().map(|(class, of)| of.rate / mean[class]).collect();
        let errors = pooled.iter().map(|of| of.error).collect();
        Classes { of_state, rates, errors, rare, begun, assumed: speeds.iter().all(Option::is_none) }
    }

    /// By class: what loops' counters tell of its code.
    fn counted(
        &self,
        of_state: &[usize],
        count: usize,
        rates: &[f64],
        time: &Time,
        runs: impl Fn(Instruction) -> Option<f64>,
    ) -> Vec<Counted> {
        // Of each instruction that a counter tells of, what trace windows of each class show.
        let mut shown: FxHashMap<Instruction, FxHashMap<usize, f64>> = FxHashMap::default();
        self.executions(|instruction, start, times| {
            if runs(instruction).is_some() {
                let times = times * rates[start] * time.of_trace_window[start];
                *shown.entry(instruction).or_default().entry(of_state[start]).or_default() += times;
            }
        });
        let mut counted = vec![Counted::default(); count];
        for (instruction, by_class) in shown {
            let all: f64 = by_class.values().sum();
            let Some(runs) = runs(instruction).filter(|_| all > 0.0) else { continue };
            for (class, shown) in by_class {
                counted[class].runs += runs * shown / all;
                counted[class].seen += shown;
            }
        }
        counted
    }

    /// The class of each state, and how many there are: what trace windows go round in, in both directions or in a circle; with them code that
    /// trace windows come to, but too few began in to tell whether they go back; and what of a phase too few began in altogether.
    fn connected(&self, rows: &Rows) -> Connected {
        let mut few = vec![false; self.states.len()];
        let mut class: Vec<usize> = (0..self.states.len()).collect();
        let mut count = class.len();
        loop {
            let links = self.links(rows, &class);
            let mut next = vec![Vec::new(); count];
            links
                .iter()
                .filter(|(_, trace_windows)| **trace_windows >= LINKS)
                .for_each(|(&(from, to), _)| next[from].push(to));
            let (mut joined, mut fewer) = components(&next);
            if fewer == count {
                (joined, fewer) = self.with_tails(&links, &class, count);
            }
            if fewer == count {
                let before = &class;
                (joined, fewer) = self.with_few(before, count);
                let mut parts = vec![0; fewer];
                joined.iter().for_each(|&class| parts[class] += 1);
                few.iter_mut().zip(before).for_each(|(few, class)| *few |= parts[joined[*class]] > 1);
            }
            class.iter_mut().for_each(|class| *class = joined[*class]);
            if fewer == count {
                let mut loose = vec![false; count];
                class.iter().zip(few).for_each(|(&class, few)| loose[class] |= few);
                return Connected { of_state: class, count, loose };
            }
            count = fewer;
        }
    }

    /// How many trace windows began in each class.
    fn begun(&self, class: &[usize], count: usize) -> Vec<u32> {
        let mut begun = vec![0; count];
        self.taken
            .iter()
            .filter(|trace_window| trace_window.time > 0.0)
            .for_each(|trace_window| begun[class[trace_window.start]] += 1);
        begun
    }

    /// How many trace windows that began in one class came to another.
    fn links(&self, rows: &Rows, class: &[usize]) -> FxHashMap<(usize, usize), u32> {
        let classes_of = |parts: &[(usize, f64)]| {
            let there = parts.iter().filter(|(_, part)| *part >= LEAST_PART).map(|&(stretch, _)| class[stretch]);
            let mut there: Vec<usize> = there.collect();
            there.sort_unstable();
            there.dedup();
            there
        };
        let behind: Vec<Vec<usize>> = rows.behind.iter().map(|parts| classes_of(parts)).collect();
        let mut links: FxHashMap<(usize, usize), u32> = FxHashMap::default();
        for (trace_window, row) in self.taken.iter().zip(&rows.own) {
            let from = class[trace_window.start];
            let mut there = classes_of(&row.parts);
            there.extend(row.behind.iter().flat_map(|(call, _)| &behind[*call]));
            there.sort_unstable();
            there.dedup();
            there.iter().filter(|&&to| to != from).for_each(|&to| *links.entry((from, to)).or_default() += 1);
        }
        links
    }

    /// Puts classes that few trace windows began in into the one that most trace windows come to them from, if those are enough: how often they are
    /// executed follows from these.
    fn with_tails(&self, links: &FxHashMap<(usize, usize), u32>, class: &[usize], count: usize) -> (Vec<usize>, usize) {
        let begun = self.begun(class, count);
        let mut into: Vec<Option<(u32, usize)>> = vec![None; count];
        for (&(from, to), &trace_windows) in links {
            if trace_windows >= LINKS && begun[to] < LINKS && begun[from] >= LINKS {
                into[to] = into[to].max(Some((trace_windows, from)));
            }
        }
        renumbered(&into.into_iter().map(|into| into.map(|(_, from)| from)).collect::<Vec<_>>())
    }

    /// Puts classes together that too few trace windows began in to tell whether they are connected, if they are of the same phase.
    fn with_few(&self, class: &[usize], count: usize) -> (Vec<usize>, usize) {
        let begun = self.begun(class, count);
        let mut first: FxHashMap<usize, usize> = FxHashMap::default();
        let mut into = vec![None; count];
        for (state, &class) in self.states.iter().zip(class).filter(|(_, class)| begun[**class] < LINKS) {
            let first = *first.entry(state.phase).or_insert(class);
            into[class] = Some(first).filter(|first| *first != class);
        }
        renumbered(&into)
    }
}

/// Numbers of classes, some of which went into others that stay, and how many stay.
fn renumbered(into: &[Option<usize>]) -> (Vec<usize>, usize) {
    let mut numbers = vec![0; into.len()];
    let mut fewer = 0;
    for class in (0..into.len()).filter(|&class| into[class].is_none()) {
        numbers[class] = fewer;
        fewer += 1;
    }
    let number = |class: usize| numbers[into[class].unwrap_or(class)];
    ((0..into.len()).map(number).collect(), fewer)
}

/// Strongly connected components of a graph, by its lists of successors: the component of each node, and how many there are (Kosaraju
/// and Sharir: what is reached backwards, in the reverse order in which nodes were left forwards).
fn components(next: &[Vec<usize>]) -> (Vec<usize>, usize) {
    let mut before = vec![Vec::new(); next.len()];
    next.iter().enumerate().for_each(|(from, to)| to.iter().for_each(|&to| before[to].push(from)));
    let mut left = Vec::with_capacity(next.len());
    let mut seen = vec![false; next.len()];
    for start in 0..next.len() {
        if !seen[start] {
            seen[start] = true;
            walk(start, next, &mut seen, |node| left.push(node));
        }
    }
    let mut component = vec![0; next.len()];
    let mut count = 0;
    let mut seen = vec![false; next.len()];
    for &start in left.iter().rev() {
        if !seen[start] {
            seen[start] = true;
            walk(start, &before, &mut seen, |node| component[node] = count);
            count += 1;
        }
    }
    (component, count)
}

/// Goes on from `start` to all nodes that were not seen, depth first; says which it leaves.
fn walk(start: usize, next: &[Vec<usize>], seen: &mut [bool], mut leaves: impl FnMut(usize)) {
    let mut path = vec![(start, 0)];
    while let Some((node, at)) = path.last_mut() {
        match next[*node].get(*at) {
            Some(&to) => {
                *at += 1;
                if !std::mem::replace(&mut seen[to], true) {
                    path.push((to, 0));
                }
            }
            None => {
                leaves(*node);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Recording;
    use super::*;

    #[test]
    fn components_are_what_goes_round() {
        // 0 -> 1 -> 2 -> 0, which lead to 3 <-> 4; 5 leads to 0.
        let (component, count) = components(&[vec![1], vec![2, 3], vec![0], vec![4], vec![3], vec![0]]);
        assert_eq!(count, 3);
        assert_eq!([component[1], component[2]], [component[0]; 2]);
        assert_eq!(component[3], component[4]);
        assert_eq!(std::collections::BTreeSet::from([component[0], component[3], component[5]]).len(), 3);
        assert_eq!(components(&[]), (vec![], 0));
    }

    /// Which class instructions are in.
    fn classes_of(recording: &mut Recording, ips: &[u64]) -> Vec<usize> {
        recording.survey.close();
        let survey = &recording.survey;
        let Connected { of_state: class, .. } = survey.connected(&survey.rows());
        let of = |ip: &u64| {
            let (stretch, _) = survey.known(0, *ip).expect("its place was said");
            class[survey.state_of[&(stretch, 0)]]
        };
        ips.iter().map(of).collect()
    }

    #[test]
    fn what_trace_windows_come_to_is_with_them() {
        let mut recording = Recording::new();
        let ips = [0x1000, 0x2000, 0x3000, 0x4000];
        ips.iter().for_each(|&ip| recording.place(ip, None));
        for n in 0..40 {
            ips.iter().for_each(|&ip| recording.samples(ip, 1));
            // The first two go to the second; three trace windows began in the third, which the first comes to.
            recording.trace_window(0x1000, &[(0x1000, 3000), (0x2000, 1000), (0x3000, 1000)]);
            recording.trace_window(0x2000, &[(0x2000, 5000)]);
            if n < 3 {
                recording.trace_window(0x3000, &[(0x3000, 5000)]);
                recording.trace_window(0x4000, &[(0x4000, 5000)]);
            }
        }
        let [first, second, third, fourth] = classes_of(&mut recording, &ips)[..] else { panic!("four") };
        assert_eq!(third, first);
        assert!(second != first && fourth != first && fourth != second);
    }

    #[test]
    fn what_few_trace_windows_began_in_is_together() {
        let mut recording = Recording::new();
        let ips: Vec<u64> = (1..20).map(|n| 0x1000 * n).collect();
        for &ip in &ips {
            recording.place(ip, None);
            recording.samples(ip, 1);
            recording.trace_window(ip, &[(ip, 5000)]);
        }
        let classes = classes_of(&mut recording, &ips);
        assert!(classes.iter().all(|class| *class == classes[0]), "{classes:?}");
    }
}
