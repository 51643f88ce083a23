//! How fast code goes, from what its fastest parts take beside what the processor can.
//!
//! ```text
//!   time of an instruction     T_i = samples at it x time of a sample
//!   its executions             n_i                                          by trace windows: all of a class off by one factor, c
//!   cost of a span             mean of T_i / n_i over its instructions
//!   the cheapest quarter       waits for nothing: T_i / (c n_i) is what an instruction takes that the processor only has to retire
//! ```
//!
//! A sample's address is that of the oldest instruction that has not retired. So waiting is charged to single instructions, and what is
//! left between these retires as fast as the processor can, which is measured ([`super::super::retire`]). That the least cost in a
//! stretch of code tells how often it was executed is the idea of Anderson et al. ("Continuous profiling: where have all the cycles
//! gone?", 1997), who had a model of the processor for it.
//!
//! Where samples are few, spans look cheap that happened to have none. So half of the samples choose the cheapest, and both tell what
//! they cost: the one half too little, the other too much, and how far apart they are is how little is known.

use rustc_hash::FxHashMap;

use super::{Call, Survey, Time};
use crate::clock::counts::Instruction;
use crate::clock::counts::resample::Random;
use crate::trace_windows::SPAN;

/// Part (0..1) of all spans that is taken to wait for nothing.
const CHEAPEST: f64 = 0.25;
/// What is assumed of programs counts as if it were known of such a part (0..1) of this one.
const LEAST_PART: f64 = 0.05;
/// Samples without which nothing is told.
const LEAST_SAMPLES: f64 = 20.0;
/// Standard error of the logarithm of a rate, at best: from classes whose rate was known (docs/VALIDATION.md). The following ones come to it,
/// as squares.
const OF_MODEL: f64 = 0.5;
/// Where the two halves of the samples have nothing in common.
const OF_CHOICE: f64 = 0.5;
/// Of a loop that is hardly longer than a span, where the cheapest of these are no cheaper than all: each round may wait for the one
/// before, and nothing tells for how long.
const OF_EVENNESS: f64 = 0.6;
/// Its square, of a class that has one sample.
const OF_SAMPLES: f64 = 4.0;
/// Its square, of a class that one trace window began in.
const OF_TRACE_WINDOWS: f64 = 0.25;
/// Code of no more instructions is one loop of which each span shows about a round.
const SHORT_LOOP: usize = 2 * SPAN;
/// How much faster or slower one class of a program is than another, likewise, at least: four times are within two of these.
pub(super) const BETWEEN_CLASSES: f64 = 0.7;
/// Instructions in a nanosecond where nothing tells: one in a cycle of a fast processor.
pub(super) const RATE: f64 = 3.0;
/// How much faster or slower a program may be than that.
const BETWEEN_PROGRAMS: f64 = 1.0;
/// Rounds in which both are found, how fast code is and how much that differs.
const ROUNDS: usize = 10;

/// Where samples are, and which instructions follow each other.
#[derive(Debug, Default)]
pub(super) struct Spans {
    numbers: FxHashMap<(Instruction, usize), u32>,
    ops: Vec<Op>,
    /// By the state where trace windows began: the time that these stand for, in samples, by what followed each other.
    seen: FxHashMap<(u32, [u32; SPAN]), f64>,
    /// Those of trace windows that began behind a call, by the sum of the parts of an instruction in each.
    behind: FxHashMap<Call, Vec<([u32; SPAN], f64)>>,
    random: Random,
}

/// An instruction of a known function, in a phase.
#[derive(Debug)]
struct Op {
    state: usize,
    samples: [u32; 2],
}

/// How fast a class goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// What its executions are to be multiplied by: in instructions a nanosecond, if trace windows' relative rates are 1.
    pub rate: f64,
    /// Standard error of the logarithm of that.
    pub error: f64,
}

/// A class, and what is seen of it.
#[derive(Debug, Default)]
struct Class {
    spans: Vec<Found>,
    samples: f64,
    /// Executions of its instructions, at rate 1.
    executed: f64,
    trace_windows: u32,
    /// How many different ones were executed.
    instructions: usize,
}

/// A span and what it costs by each half of the samples, nanoseconds for each execution at rate 1.
#[derive(Debug)]
struct Found {
    weight: f64,
    cost: [f64; 2],
}

impl Spans {
    fn number(&mut self, instruction: Instruction, phase: usize, state: usize) -> u32 {
        let next = self.ops.len() as u32;
        let number = *self.numbers.entry((instruction, phase)).or_insert(next);
        if number == next {
            self.ops.push(Op { state, samples: [0; 2] });
        }
        number
    }

    /// Counts a sample at an instruction, which is in `state`.
    pub fn sample(&mut self, instruction: Instruction, phase: usize, state: usize) {
        let number = self.number(instruction, phase, state);
        // Not by turns: threads may take theirs by turns, too.
        let half = self.random.below(2);
        self.ops[number as usize].samples[half] += 1;
    }

    /// Adds a span of a trace window that began in state `start`, by states and instructions; `time`: samples that the trace window stands for, by its
    /// instructions.
    pub fn add(&mut self, start: usize, phase: usize, span: [(usize, Instruction); SPAN], time: f64) {
        let span = span.map(|(state, instruction)| self.number(instruction, phase, state));
        *self.seen.entry((start as u32, span)).or_default() += time;
    }

    /// Adds a span of a trace window that began behind a call; `part`: of an instruction in the trace window.
    pub fn add_behind(&mut self, call: Call, phase: usize, span: [(usize, Instruction); SPAN], part: f64) {
        let span = span.map(|(state, instruction)| self.number(instruction, phase, state));
        self.behind.entry(call).or_default().push((span, part));
    }
}

impl Survey {
    /// How fast each class goes, where that is known. `of_state`: the class of each state; `rates`: by state, relative; `fastest`: instructions that the
    /// processor retires in a nanosecond; `begun`: trace windows that began in each class.
    pub(super) fn paces(
        &self,
        of_state: &[usize],
        rates: &[f64],
        time: &Time,
        fastest: f64,
        begun: &[u32],
    ) -> Vec<Option<Pace>> {
        let Spans { numbers, ops, seen, behind, .. } = &self.spans;
        let class_of = |op: u32| of_state[ops[op as usize].state];
        let scale = |start: usize| rates[start] * time.of_trace_window[start];
        let mut executed = vec![0.0; ops.len()];
        self.executions(|instruction, start, times| {
            let op = numbers.get(&(instruction, self.states[start].phase));
            if let Some(&op) = op.filter(|&&op| class_of(op) == of_state[start]) {
                executed[op as usize] += times * scale(start);
            }
        });
        let mut classes: Vec<Class> =
            begun.iter().map(|&trace_windows| Class { trace_windows, ..Class::default() }).collect();
        for (op, executed) in ops.iter().zip(&executed).filter(|(_, executed)| **executed > 0.0) {
            let class = &mut classes[of_state[op.state]];
            class.samples += f64::from(op.samples[0] + op.samples[1]);
            class.instructions += 1;
            class.executed += executed;
        }
        let mut find = |class: usize, span: &[u32; SPAN], weight: f64| {
            if span.iter().all(|&op| class_of(op) == class && executed[op as usize] > 0.0) {
                let time = |op: u32, half: usize| 2.0 * f64::from(ops[op as usize].samples[half]) * time.of_sample;
                let of = |half: usize| span.iter().map(|&op| time(op, half) / executed[op as usize]).sum::<f64>();
                let cost = [of(0), of(1)].map(|cost| cost / SPAN as f64);
                classes[class].spans.push(Found { weight, cost });
            }
        };
        for ((start, span), weight) in seen {
            find(of_state[*start as usize], span, weight * scale(*start as usize));
        }
        // What comes behind a call comes there from all who made it.
        let mut rest: FxHashMap<(Call, usize), f64> = FxHashMap::default();
        for (&(start, call), times) in &self.rest {
            *rest.entry((call, of_state[start])).or_default() += times * scale(start);
        }
        let behind_calls = self.behind_calls();
        for ((call, class), times) in rest {
            let Some((spans, trace_windows)) = behind.get(&call).zip(behind_calls.get(&call)) else { continue };
            spans.iter().for_each(|(span, part)| find(class, span, times * part / trace_windows.len() as f64));
        }
        classes.iter_mut().map(|class| class.pace(fastest, time.of_sample)).collect()
    }
}

impl Class {
    /// `of_sample`: nanoseconds of a sample.
    fn pace(&mut self, fastest: f64, of_sample: f64) -> Option<Pace> {
        if self.samples < LEAST_SAMPLES || self.spans.is_empty() || fastest <= 0.0 {
            return None;
        }
        let (mut chosen, mut others) = (0.0, 0.0);
        for half in [0, 1] {
            let cost = cheapest(&mut self.spans, half);
            chosen += cost[half] / 2.0;
            others += cost[1 - half] / 2.0;
        }
        // Where none is, there might have been one half the time.
        let cost = ((chosen + others) / 2.0).max(of_sample / 2.0 / (CHEAPEST * self.executed));
        let evenness = if self.instructions > SHORT_LOOP { 0.0 } else { (cost / self.mean_cost()).min(1.0) };
        let rate = fastest * cost * (1.0 - evenness / 2.0);
        let alike = if others > 0.0 { (chosen / others).min(1.0) } else { 0.0 };
        let error = OF_MODEL.hypot(OF_CHOICE * (1.0 - alike)).hypot(OF_EVENNESS * evenness);
        let error = error.hypot((OF_SAMPLES / self.samples).sqrt());
        let error = error.hypot((OF_TRACE_WINDOWS / f64::from(self.trace_windows.max(1))).sqrt());
        rate.is_finite().then_some(Pace { rate, error })
    }

    fn mean_cost(&self) -> f64 {
        let sum: f64 = self.spans.iter().map(|span| span.weight * (span.cost[0] + span.cost[1]) / 2.0).sum();
        sum / self.spans.iter().map(|span| span.weight).sum::<f64>()
    }
}

impl Pace {
    /// What both say together, each by how sure it is.
    pub fn and(self, other: Self) -> Self {
        let (own, others) = (self.error.powi(-2), other.error.powi(-2));
        let rate = ((own * self.rate.ln() + others * other.rate.ln()) / (own + others)).exp();
        Self { rate, error: (own + others).sqrt().recip() }
    }
}

/// Draws what is known of each class towards what is known of all, the more the less it is (empirical Bayes): code of one program is
/// similar, by as much as is seen of it. `parts`: what each has of the time.
pub(super) fn pooled(known: &[Option<Pace>], parts: &[f64]) -> Vec<Pace> {
    let mut between = BETWEEN_CLASSES;
    let mut all = mean(known, parts, between);
    for _ in 0..ROUNDS {
        // How far they are apart, beyond what is not known of them.
        let apart = |(of, part): (&Option<Pace>, &f64)| {
            of.map(|of| (part * ((of.rate.ln() - all).powi(2) - of.error.powi(2)), *part))
        };
        let told = known.iter().zip(parts).filter_map(apart);
        let prior = (LEAST_PART * BETWEEN_CLASSES.powi(2), LEAST_PART);
        let (sum, weights) = told.fold(prior, |sum, (apart, part)| (sum.0 + apart, sum.1 + part));
        between = (sum / weights).max(BETWEEN_CLASSES.powi(2)).sqrt();
        all = mean(known, parts, between);
    }
    let common = Pace { rate: all.exp(), error: between };
    known.iter().map(|of| of.map_or(common, |of| of.and(common))).collect()
}

/// The mean logarithm of the rates of a program's classes, if they differ by `between`.
fn mean(known: &[Option<Pace>], parts: &[f64], between: f64) -> f64 {
    let told =
        |(of, part): (&Option<Pace>, &f64)| of.map(|of| (of.rate.ln(), part / (of.error.powi(2) + between.powi(2))));
    let beyond = (RATE.ln(), LEAST_PART / BETWEEN_PROGRAMS.powi(2));
    let told = known.iter().zip(parts).filter_map(told).chain([beyond]);
    let (sum, weights) = told.fold((0.0, 0.0), |sum, (rate, weight)| (sum.0 + rate * weight, sum.1 + weight));
    sum / weights
}

/// Mean costs, by each half of the samples, of the part of all spans that is cheapest by one half.
fn cheapest(spans: &mut [Found], by: usize) -> [f64; 2] {
    spans.sort_unstable_by(|a, b| a.cost[by].total_cmp(&b.cost[by]));
    let wanted = CHEAPEST * spans.iter().map(|span| span.weight).sum::<f64>();
    let (mut left, mut sums) = (wanted, [0.0; 2]);
    // Of those that cost the same none is chosen before the other.
    for alike in spans.chunk_by(|a, b| a.cost[by] == b.cost[by]) {
        let weight: f64 = alike.iter().map(|span| span.weight).sum();
        let part = if weight > left { left / weight } else { 1.0 };
        for (half, sum) in sums.iter_mut().enumerate() {
            *sum += part * alike.iter().map(|span| span.weight * span.cost[half]).sum::<f64>();
        }
        left -= weight;
        if left <= 0.0 {
            break;
        }
    }
    sums.map(|sum| sum / wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(instructions: usize, costs: &[[f64; 2]]) -> Class {
        let spans = costs.iter().map(|&cost| Found { weight: 1.0, cost }).collect();
        Class { spans, samples: 1e4, executed: 1e6, trace_windows: 100, instructions }
    }

    #[test]
    fn the_cheapest_quarter_waits_for_nothing() {
        let mut costs = vec![[0.5; 2]; 30];
        costs.extend([[8.0; 2]; 70]);
        let found = class(100, &costs).pace(20.0, 1.0).expect("samples");
        assert!((found.rate - 10.0).abs() < 1e-9 && found.error < 0.52, "{found:?}");
        // Of a loop of which each span is a round, nothing tells how long that waits.
        let even = class(8, &[[0.5; 2]; 10]).pace(20.0, 1.0).expect("samples");
        assert!((even.rate - 5.0).abs() < 1e-9 && even.error > 0.7, "{even:?}");
        let few = Class { samples: LEAST_SAMPLES - 1.0, ..class(100, &costs) };
        assert_eq!({ few }.pace(20.0, 1.0), None);
        assert_eq!(class(100, &[]).pace(20.0, 1.0), None);
        // No sample there, where there should have been one in a quarter of a million executions.
        let cheap = class(100, &[[0.0; 2], [0.0; 2], [9.0; 2]]).pace(20.0, 1.0).expect("samples");
        assert!((cheap.rate - 20.0 * 0.5 / 250_000.0).abs() < 1e-9 && cheap.error > 0.7, "{cheap:?}");
    }

    /// Spans that cost the same, of which the samples are here or there by chance.
    #[test]
    fn chance_makes_nothing_cheap() {
        let costs: Vec<[f64; 2]> = (0..100).map(|n| if n % 2 == 0 { [0.0, 1.0] } else { [1.0, 0.0] }).collect();
        let found = class(100, &costs).pace(1.0, 1.0).expect("samples");
        assert!((found.rate - 0.5).abs() < 1e-9 && found.error > 0.69, "{found:?}");
    }

    #[test]
    fn little_is_known_of_a_class_where_nothing_is_known_of_it() {
        let known = Pace { rate: 12.0, error: 0.1 };
        let vague = Pace { rate: 1.0, error: 0.7 };
        let all = pooled(&[Some(known), Some(vague), None], &[0.8, 0.1, 0.1]);
        assert!((all[0].rate / 12.0 - 1.0).abs() < 0.05 && all[0].error < 0.1, "{all:?}");
        assert!((2.0..6.0).contains(&all[1].rate) && (0.4..0.6).contains(&all[1].error), "{all:?}");
        assert!((6.0..12.0).contains(&all[2].rate) && all[2].error >= BETWEEN_CLASSES, "{all:?}");
        assert_eq!(pooled(&[None], &[1.0])[0].rate.round(), RATE);
    }

    #[test]
    fn code_that_differs_is_hardly_drawn_together() {
        let pace = |rate, error| Some(Pace { rate, error });
        let all = pooled(&[pace(12.0, 0.1), pace(0.1, 0.1), pace(12.0, 0.6), None], &[0.5, 0.4, 0.05, 0.05]);
        assert!(all[2].rate > 9.0 && all[3].error > 2.0, "{all:?}");
        let alike = pooled(&[pace(12.0, 0.1), pace(11.0, 0.1), pace(1.0, 0.6)], &[0.5, 0.4, 0.1]);
        assert!(alike[2].rate > 2.0 && alike[0].rate > 11.5, "{alike:?}");
    }
}
