//! Code that runs together, and code that does not: the communicating classes of the chain of stretches.
//!
//! How fast two stretches are beside each other follows from how often bursts that began in the one came to the other, and back. A
//! program that does one thing and then another has parts between which none goes: [`super::flow`] gives each such part rates that are
//! right among themselves, and nothing tells by how much all of them are off. Where a loop's counter tells how often some of the part's
//! code ran, that does; else the part is taken to be as fast as the others, with the error of a guess.

use rustc_hash::FxHashMap;

use super::Survey;
use super::flow::{PRIOR, Rows};
use crate::clock::counts::Instruction;

/// Bursts that must have gone from one class to another before that tells how often they do.
const LINKS: u32 = 10;
/// Part of a burst's instructions that must be elsewhere for it to have come there.
const LEAST_PART: f64 = 0.002;
/// Part of the time that a class stands for that both must tell of, so that the one is the measure of the other.
const LEAST_SHOWN: f64 = 0.05;
/// Relative standard error of how fast a class is that nothing measures; from 1 on readers take it for a guess, which may be off by a
/// factor: two instructions in a nanosecond where code waits for memory, and twenty in a small loop, were seen in one program.
const GUESSED: f64 = 1.2;
/// The same of a stretch beside its class, where that is assumed.
const ASSUMED: f64 = 0.7;
/// Relative standard error of what one burst stands for: that it was taken at all is chance (a Poisson process).
const ERROR_OF_ONE: f64 = 1.0;
/// Of one that is measured, at best: its counters tell of a part of it.
const LEAST_ERROR: f64 = 0.05;
/// Instructions in a nanosecond where nothing tells: one in a cycle of a fast processor.
pub(super) const RATE: f64 = 3.0;

/// The class of each stretch, and how fast each is.
#[derive(Debug, Default)]
pub struct Classes {
    pub of_stretch: Vec<usize>,
    /// Instructions in a nanosecond, by class, where rates of its bursts are relative to the mean of all.
    pub rates: Vec<f64>,
    /// Relative standard errors of these.
    pub errors: Vec<f64>,
    /// Whether so few bursts began in a stretch that how fast it is beside its class is assumed rather than found.
    rare: Vec<bool>,
    /// Bursts that began in each class.
    begun: Vec<u32>,
    /// Whether nothing tells of any class.
    pub assumed: bool,
}

impl Classes {
    /// Of a burst that began in a stretch: by how much it may be off by itself, what it is off together with, and by how much. Rare
    /// stretches of a class are each faster or slower than assumed, and all together, for code that is seldom executed waits for its
    /// caches. What too few bursts began in to be of a class is guessed each by itself.
    pub fn error(&self, stretch: usize) -> (f64, usize, f64) {
        let class = self.of_stretch[stretch];
        match self.rare[stretch] && self.begun[class] >= LINKS {
            true => (ERROR_OF_ONE.hypot(ASSUMED), self.rates.len(), self.errors[class].max(ASSUMED)),
            false => (ERROR_OF_ONE, class, self.errors[class]),
        }
    }
}

impl Survey {
    /// Finds the classes. `rows`: what each burst shows; `rates`: of each burst; `shares`: see [`Survey::shares`]; `all_time`: the
    /// program's user time, nanoseconds; `runs`: how often an instruction was executed, where samples tell.
    pub(super) fn classes(
        &self,
        rows: &Rows,
        rates: &[f64],
        shares: &[f64],
        all_time: f64,
        runs: impl Fn(Instruction) -> Option<f64>,
    ) -> Classes {
        let (of_stretch, count) = self.connected(rows);
        let mut time = vec![0.0; count];
        let mut bursts = vec![0.0; count];
        let mut of_start: FxHashMap<usize, f64> = FxHashMap::default();
        for (burst, rate) in self.taken.iter().zip(rates).filter(|(burst, _)| burst.time > 0.0) {
            time[of_stretch[burst.start]] += burst.time * shares[burst.start] * all_time;
            bursts[of_stretch[burst.start]] += 1.0;
            of_start.insert(burst.start, rate * shares[burst.start] * all_time);
        }
        // Of each instruction that a counter tells of, what bursts of each class show: their own, and those behind their calls.
        let mut shown: FxHashMap<Instruction, FxHashMap<usize, f64>> = FxHashMap::default();
        let mut show = |instruction, start: usize, time: f64| {
            if runs(instruction).is_some() {
                let time = time * of_start.get(&start).copied().unwrap_or(0.0);
                *shown.entry(instruction).or_default().entry(of_stretch[start]).or_default() += time;
            }
        };
        let behind = self.behind_calls();
        for (&(start, call, instruction), executed) in &self.executed {
            let goes_on = call.is_some_and(|call| behind.contains_key(&call));
            show(instruction, start, if goes_on { executed.own } else { executed.whole });
        }
        for ((start, call), rest) in &self.rest {
            let Some((parts, bursts)) = self.behind.get(call).zip(behind.get(call)) else { continue };
            parts.iter().for_each(|(&instruction, part)| show(instruction, *start, rest * part / bursts.len() as f64));
        }
        let (mut counted, mut seen) = (vec![0.0; count], vec![0.0; count]);
        for (instruction, by_class) in shown {
            let all: f64 = by_class.values().sum();
            let Some(runs) = runs(instruction).filter(|_| all > 0.0) else { continue };
            for (class, shown) in by_class {
                counted[class] += runs * shown / all;
                seen[class] += shown;
            }
        }
        // A few of them may be anything.
        let tells = |class: &usize| bursts[*class] >= f64::from(LINKS) && seen[*class] > LEAST_SHOWN * time[*class];
        let measured: Vec<usize> = (0..count).filter(tells).collect();
        // What has a counter is a loop, and faster than most code.
        let sum = |of: &[f64]| measured.iter().map(|&class| of[class]).sum::<f64>();
        let usual = if measured.is_empty() { RATE } else { (sum(&counted) / sum(&seen) * RATE).sqrt() };
        let (mut class_rates, mut errors) = (vec![usual; count], vec![GUESSED; count]);
        for &class in &measured {
            class_rates[class] = counted[class] / seen[class];
            errors[class] = bursts[class].sqrt().recip().max(LEAST_ERROR);
        }
        let mut rare = vec![0.0; of_stretch.len()];
        self.taken.iter().for_each(|burst| rare[burst.start] += burst.time * shares[burst.start]);
        let rare = rare.into_iter().map(|begun| begun * self.len() as f64 <= PRIOR).collect();
        let begun = bursts.iter().map(|&bursts| bursts as u32).collect();
        Classes { of_stretch, rates: class_rates, errors, rare, begun, assumed: measured.is_empty() }
    }

    /// The class of each stretch, and how many there are: what bursts go round in, in both directions or in a circle; with them code that
    /// bursts come to, but too few began in to tell whether they go back.
    fn connected(&self, rows: &Rows) -> (Vec<usize>, usize) {
        let mut class: Vec<usize> = (0..self.samples.len()).collect();
        let mut count = class.len();
        loop {
            let links = self.links(rows, &class);
            let mut next = vec![Vec::new(); count];
            links.iter().filter(|(_, bursts)| **bursts >= LINKS).for_each(|(&(from, to), _)| next[from].push(to));
            let (mut joined, mut fewer) = components(&next);
            if fewer == count {
                (joined, fewer) = self.with_tails(&links, &class, count);
            }
            class.iter_mut().for_each(|class| *class = joined[*class]);
            if fewer == count {
                return (class, count);
            }
            count = fewer;
        }
    }

    /// How many bursts that began in one class came to another.
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
        for (burst, row) in self.taken.iter().zip(&rows.own) {
            let from = class[burst.start];
            let mut there = classes_of(&row.parts);
            there.extend(row.behind.iter().flat_map(|(call, _)| &behind[*call]));
            there.sort_unstable();
            there.dedup();
            there.iter().filter(|&&to| to != from).for_each(|&to| *links.entry((from, to)).or_default() += 1);
        }
        links
    }

    /// Puts classes that few bursts began in into the one that most bursts come to them from, if those are enough: how often they are
    /// executed follows from these.
    fn with_tails(&self, links: &FxHashMap<(usize, usize), u32>, class: &[usize], count: usize) -> (Vec<usize>, usize) {
        let mut begun = vec![0; count];
        self.taken.iter().filter(|burst| burst.time > 0.0).for_each(|burst| begun[class[burst.start]] += 1);
        let mut into: Vec<Option<(u32, usize)>> = vec![None; count];
        for (&(from, to), &bursts) in links {
            if bursts >= LINKS && begun[to] < LINKS && begun[from] >= LINKS {
                into[to] = into[to].max(Some((bursts, from)));
            }
        }
        // Those that stay are numbered anew.
        let mut joined = vec![0; count];
        let mut fewer = 0;
        for class in (0..count).filter(|&class| into[class].is_none()) {
            joined[class] = fewer;
            fewer += 1;
        }
        for (class, into) in into.iter().enumerate() {
            joined[class] = into.map_or(joined[class], |(_, from)| joined[from]);
        }
        (joined, fewer)
    }
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
}
