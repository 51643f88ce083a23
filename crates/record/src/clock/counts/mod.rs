//! From samples, which measure time, to how often accesses were made.
//!
//! ```text
//!   samples -> evidence (per function and thread) -> frequency (runs of each block) -> factors (per instruction and thread)
//!                                                                                         |
//!   rows of the samples, spread evenly over their blocks ------------------------------> x  -> counts
//! ```
//!
//! A row's weight is a guess when it is made: its block's sample, divided by the accesses of the block. When the program has
//! ended it is known how often each block ran, and the weights of one instruction's rows are scaled to add up to that. Of a large
//! block each sample has rows of some operands only, so there the weights of the whole block's rows are scaled together.

pub mod evidence;
pub mod frequency;
pub mod graph;
pub mod resample;

use numamma_trace::{BasisRow, NONE, SampleRow};
use rustc_hash::FxHashMap;

use super::choice::MOST_ROWS;
use super::code::Function;
use super::lift::Code;
use evidence::{Evidence, Sample};
use frequency::{Frequencies, PER_OP_COLD, Time};
use graph::Graph;
use resample::{Random, resampled};

/// What an instruction that does not stall takes where nothing tells, nanoseconds.
const PER_OP: f64 = 0.25;
/// Accesses that a repeated string instruction makes in a nanosecond, of 32 bytes each: an assumption.
const REPEATED_PER_NS: f64 = 1.0;
/// Solutions of evidence drawn anew, for the error.
const REPLICATES: u64 = 8;
/// No count is better than this, relative: what the model leaves out.
const LEAST_ERROR: f64 = 0.01;
/// One in so many instructions of compiled code accesses memory (Hennessy, Patterson: loads and stores are a third or so).
const OPS_PER_ACCESS: f64 = 3.0;
/// Code with fewer samples tells nothing of what an instruction takes.
const LEAST_SAMPLES: u64 = 50;

/// Rows of one instruction in one thread: thread, run-time address, `samples.access`.
pub type RowKey = (i32, u64, i32);

/// An instruction of a function: the function, and the instruction's place in its code.
pub type Instruction = (Function, usize);

/// What has been learnt of a stretch of code.
#[derive(Debug, Default)]
pub struct Learnt {
    graph: Option<Graph>,
    threads: FxHashMap<i32, Evidence>,
    /// Sums of the weights of rows.
    weights: FxHashMap<RowKey, Weight>,
}

/// Of rows of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    op: usize,
    sum: f64,
}

impl Learnt {
    /// Adds what a sample of `thread` tells.
    pub fn add(&mut self, code: &Code, thread: i32, sample: Sample<'_>) {
        let graph = self.graph.get_or_insert_with(|| Graph::of(code));
        self.threads.entry(thread).or_default().add(code, graph, sample);
    }

    /// The innermost loop that instruction `op` is in, by number; `None` if it is in none.
    pub fn innermost_loop(&mut self, code: &Code, op: usize) -> Option<usize> {
        let graph = self.graph.get_or_insert_with(|| Graph::of(code));
        graph.loops_of(graph.block_of(op)).next()
    }

    /// Adds a row that was made of instruction `op`.
    pub fn weigh(&mut self, key: RowKey, op: usize, weight: f32) {
        let of = self.weights.entry(key).or_default();
        of.op = op;
        of.sum += f64::from(weight);
    }

    /// Regions with a single sample: outermost loops, and what of the code is in none. By Good and Turing's estimate, as much time
    /// as they have samples was spent in regions that no sample is in.
    fn seen_once(&self) -> usize {
        let Some(graph) = self.graph.as_ref() else { return 0 };
        let mut samples: FxHashMap<Option<usize>, u32> = FxHashMap::default();
        for (block, seen) in self.pooled().blocks.iter().enumerate() {
            *samples.entry(graph.loops_of(block).last()).or_default() += seen.samples;
        }
        samples.values().filter(|&&samples| samples == 1).count()
    }

    /// All threads together.
    fn pooled(&self) -> Evidence {
        let mut pooled = Evidence::default();
        self.threads.values().for_each(|evidence| pooled.join(evidence));
        pooled
    }

    fn solve(&self, code: &Code, time: Time) -> Option<(Evidence, Frequencies)> {
        // Of code that only trace windows came by there is a graph, and nothing else.
        let graph = self.graph.as_ref().filter(|_| !self.threads.is_empty())?;
        let evidence = self.pooled();
        let frequencies = frequency::solve(code, graph, &evidence, time);
        Some((evidence, frequencies))
    }

    /// Time of work in blocks whose count has a basis, nanoseconds, and the instructions that were executed there: work as it is told
    /// in blocks without a basis, for which this is the measure.
    fn busy(&self, code: &Code, time: Time) -> Option<(f64, f64)> {
        let (evidence, found) = self.solve(code, time)?;
        let graph = self.graph.as_ref()?;
        if evidence.samples() < LEAST_SAMPLES {
            return None;
        }
        let grounded = (0..graph.blocks.len()).filter(|&block| found.basis[block].is_some());
        Some(grounded.fold((0.0, 0.0), |(busy, ops), block| {
            let (of, seen) = (&graph.blocks[block], &evidence.blocks[block]);
            (busy + frequency::worked(seen) * time.period, ops + found.runs[block] * (of.last + 1 - of.first) as f64)
        }))
    }

    /// Adds by how much the weights of rows are to be multiplied, and on what basis.
    fn factors(&self, function: Option<Function>, code: &Code, time: Time, factors: &mut Factors) {
        let Some(((evidence, found), graph)) = self.solve(code, time).zip(self.graph.as_ref()) else { return };
        for block in (0..graph.blocks.len()).filter(|&block| found.basis[block].is_some()) {
            factors.covered += u64::from(evidence.blocks[block].samples);
            let Some(function) = function else { continue };
            let of = &graph.blocks[block];
            let samples = u64::from(evidence.blocks[block].samples);
            *factors.covered_of.entry((function, of.innermost)).or_default() += samples;
            factors.runs.extend((of.first..=of.last).map(|op| ((function, op), found.runs[block])));
        }
        factors.rowless = factors.rowless.hypot(self.rowless(code, graph, (&found, &evidence)));
        let errors = errors(code, graph, &evidence, &found, time);
        let mut bases: FxHashMap<(i32, usize), i32> = FxHashMap::default();
        // Programs may have many threads.
        let mut totals: FxHashMap<usize, f64> = FxHashMap::default();
        for (&(thread, ip, access), weight) in &self.weights {
            let block = graph.block_of(weight.op);
            let Some(own) = self.threads.get(&thread).filter(|_| weight.sum > 0.0) else { continue };
            let share = self.share(graph, block, found.basis[block], own, &evidence, &mut totals);
            let op = &code.ops[weight.op];
            let slots = op.operands.iter().flatten().filter(|operand| operand.access as i32 == access).count();
            let runs = match evidence.repeats.get(&weight.op) {
                // How much it moved in the time that was spent in it; how often it ran does not matter.
                Some(left) if op.repeats => f64::from(left.samples) * time.period * REPEATED_PER_NS,
                _ => found.runs[block],
            };
            let operands = operands_of(code, graph, block);
            let accesses = match operands > MOST_ROWS {
                // Rows of the operands that were chosen stand for those that were not, which may have none in this thread.
                true => {
                    let samples = own.blocks.get(block).map_or(1, |seen| seen.samples.max(1));
                    runs * share * operands as f64 * weight.sum / f64::from(samples)
                }
                false => runs * share * slots.max(1) as f64,
            };
            let basis = match (found.basis[block], graph.blocks[block].innermost) {
                (Some(_), Some(innermost)) => *bases.entry((thread, innermost)).or_insert_with(|| {
                    let of = &graph.loops[innermost];
                    let seen = |block: &usize| own.blocks.get(*block).map_or(0, |seen| i64::from(seen.samples));
                    // Rows carry run-time addresses.
                    let bias = ip.wrapping_sub(op.ip);
                    factors.basis(BasisRow {
                        basis: NONE,
                        thread,
                        ip: code.ops[graph.blocks[of.header].first].ip.wrapping_add(bias) as i64,
                        samples: of.blocks.iter().map(seen).sum(),
                        error: errors[of.header].max(LEAST_ERROR),
                        region_group: NONE,
                        region_group_error: 0.0,
                    })
                }),
                _ => NONE,
            };
            // Windows of code in memory may overlap: each has its part of an instruction's rows.
            let of = factors.of.entry((thread, ip, access)).or_default();
            *of = Factor { accesses: of.accesses + accesses, weight: of.weight + weight.sum, basis };
        }
    }

    /// Accesses of blocks whose count has a basis, by instructions that no row is of: of a block without a sample, or at an address
    /// that the registers never told. Nobody knows their objects.
    fn rowless(&self, code: &Code, graph: &Graph, (found, evidence): (&Frequencies, &Evidence)) -> f64 {
        let mut has_rows = vec![false; code.ops.len()];
        self.weights.values().filter(|weight| weight.sum > 0.0).for_each(|weight| has_rows[weight.op] = true);
        let grounded = (0..graph.blocks.len()).filter(|&block| found.basis[block].is_some());
        let of_block = grounded.map(|block| {
            let of = &graph.blocks[block];
            let rowless = (of.first..=of.last).filter(|&op| !has_rows[op]);
            let operands: usize = rowless.map(|op| code.ops[op].operands.iter().flatten().count()).sum();
            // Those that no sample chose are like those that were.
            let chosen = MOST_ROWS.saturating_mul(evidence.blocks[block].samples.max(1) as usize);
            let unchosen = operands_of(code, graph, block).saturating_sub(chosen);
            (found.runs[block] * operands.saturating_sub(unchosen) as f64).powi(2)
        });
        of_block.sum::<f64>().sqrt()
    }

    /// The part of a block's runs that a thread made. `totals`: what is known of all threads' rounds, by loop.
    fn share(
        &self,
        graph: &Graph,
        block: usize,
        basis: Option<usize>,
        own: &Evidence,
        all: &Evidence,
        totals: &mut FxHashMap<usize, f64>,
    ) -> f64 {
        let samples = |evidence: &Evidence, blocks: &[usize]| -> f64 {
            blocks.iter().filter_map(|&block| evidence.blocks.get(block)).map(|seen| f64::from(seen.samples)).sum()
        };
        if let Some(n) = basis {
            // Rounds in the thread's own time, for threads may be of different speed.
            let blocks = &graph.loops[n].blocks;
            let pooled = frequency::rate(&all.loops[n]).map_or(0.0, |rate| rate.per_ns);
            let rounds = |evidence: &Evidence| {
                let rate = evidence.loops.get(n).and_then(|counters| frequency::rate(counters));
                rate.map_or(pooled, |rate| rate.drawn_to(pooled)) * samples(evidence, blocks)
            };
            let total = *totals.entry(n).or_insert_with(|| self.threads.values().map(rounds).sum());
            if total > 0.0 {
                return rounds(own) / total;
            }
        }
        let total = samples(all, &[block]);
        if total > 0.0 {
            return samples(own, &[block]) / total;
        }
        let blocks: Vec<usize> = (0..graph.blocks.len()).collect();
        samples(own, &blocks) / samples(all, &blocks).max(1.0)
    }
}

/// Accesses of a run of a block.
fn operands_of(code: &Code, graph: &Graph, block: usize) -> usize {
    let of = &graph.blocks[block];
    code.ops[of.first..=of.last].iter().flat_map(|op| op.operands.iter().flatten()).count()
}

/// Relative standard errors of the runs of blocks.
fn errors(code: &Code, graph: &Graph, evidence: &Evidence, found: &Frequencies, time: Time) -> Vec<f64> {
    let mut squares = vec![0.0; graph.blocks.len()];
    if !found.basis.iter().any(Option::is_some) {
        return squares;
    }
    let mut random = Random::new(code.ops.first().map_or(0, |op| op.ip));
    for _ in 0..REPLICATES {
        let other = frequency::solve(code, graph, &resampled(evidence, &mut random), time);
        for (square, (other, runs)) in squares.iter_mut().zip(other.runs.iter().zip(&found.runs)) {
            *square += (other / runs).ln().powi(2);
        }
    }
    squares.iter().map(|square| (square / REPLICATES as f64).sqrt()).collect()
}

/// What the rows of one key stand for.
#[derive(Clone, Copy, Debug, Default)]
struct Factor {
    accesses: f64,
    weight: f64,
    basis: i32,
}

/// What turns weights into counts.
#[derive(Debug, Default)]
pub struct Factors {
    of: FxHashMap<RowKey, Factor>,
    pub bases: Vec<BasisRow>,
    /// Samples in code whose counts have a basis.
    pub covered: u64,
    /// The same by function and innermost loop.
    pub covered_of: FxHashMap<(Function, Option<usize>), u64>,
    /// Accesses in code that no sample was in, as a standard error.
    pub unseen: f64,
    /// Those of instructions that no row is of, in code whose counts have a basis, likewise.
    pub rowless: f64,
    /// How often instructions were executed whose number has a basis.
    pub runs: FxHashMap<Instruction, f64>,
}

impl Factors {
    /// From all code that was sampled, with the functions that it is; `period` in nanoseconds.
    pub fn find<'a>(
        units: impl Iterator<Item = (Option<Function>, &'a Code, &'a Learnt)> + Clone,
        period: f64,
    ) -> Self {
        let mut time = Time { period, per_op: PER_OP };
        let busy = units.clone().filter_map(|(_, code, learnt)| learnt.busy(code, time));
        let (busy, ops) = busy.fold((0.0, 0.0), |(a, b), (busy, ops)| (a + busy, b + ops));
        if busy > 0.0 && ops > 0.0 {
            // Within what processors do, from eight instructions a cycle to code that waits in each round.
            time.per_op = (busy / ops).clamp(0.03, PER_OP_COLD);
        }
        let mut factors = Factors::default();
        let mut once = 0.0;
        for (function, code, learnt) in units {
            learnt.factors(function, code, time, &mut factors);
            once += learnt.seen_once() as f64;
        }
        // As many samples' worth as there are regions with one, of Poisson's variance; and if there is none, one may have been missed
        // all the same. What such code does is not known: a loop at its best, at worst.
        let each = time.period / (OPS_PER_ACCESS * PER_OP);
        factors.unseen = (once * once + once + 1.0).sqrt() * each;
        factors
    }

    /// Turns the weight of a row into a count.
    pub fn apply(&self, row: &mut SampleRow) {
        if let Some(of) = self.of.get(&(row.thread, row.ip as u64, row.access))
            && row.accesses > 0.0
        {
            row.accesses *= (of.accesses / of.weight) as f32;
            row.basis = of.basis;
        }
    }

    /// Numbers a basis.
    fn basis(&mut self, row: BasisRow) -> i32 {
        let basis = self.bases.len() as i32;
        self.bases.push(BasisRow { basis, ..row });
        basis
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::evidence::Clock;
    use super::*;

    /// add rax,[rdi]; ret
    const LOAD: &[u8] = &[0x48, 0x03, 0x07, 0xc3];

    fn sampled(code: &Code, samples: u64) -> Learnt {
        let (mut learnt, machine) = (Learnt::default(), Machine::new([0; 16], 0, 0, None));
        for number in 0..samples {
            let sample = Sample {
                at: 1,
                center: 0,
                stalled: false,
                time: number as i64 * 1_000_000,
                clock: Clock::default(),
                number,
                machine: &machine,
                stack: &[],
            };
            learnt.add(code, 7, sample);
            learnt.weigh((7, 0x1000, 1), 0, 1.0);
        }
        learnt
    }

    fn row() -> SampleRow {
        SampleRow {
            time: 0,
            thread: 7,
            cpu: 0,
            ip: 0x1000,
            addr: 0,
            bytes: 8,
            access: 1,
            rule: 3,
            cost: 0,
            accesses: 1.0,
            basis: NONE,
        }
    }

    fn counted(units: &[(&Code, &Learnt)], rows: u64) -> f64 {
        let factors = Factors::find(units.iter().map(|&(code, learnt)| (None, code, learnt)), 1e6);
        let mut row = row();
        factors.apply(&mut row);
        f64::from(row.accesses) * rows as f64
    }

    #[test]
    fn windows_that_hold_the_same_instruction_share_its_rows() {
        let code = Code::decode(LOAD, 0x1000, true);
        let (few, many) = (sampled(&code, 10), sampled(&code, 30));
        let apart = counted(&[(&code, &few)], 10) + counted(&[(&code, &many)], 30);
        let together = counted(&[(&code, &few), (&code, &many)], 40);
        assert!((together / apart - 1.0).abs() < 1e-5, "{together} {apart}");
    }

    #[test]
    fn code_seen_once_tells_of_code_that_was_not_seen() {
        let code = Code::decode(LOAD, 0x1000, true);
        let unseen = |samples: &[u64]| {
            let learnt: Vec<Learnt> = samples.iter().map(|&samples| sampled(&code, samples)).collect();
            Factors::find(learnt.iter().map(|learnt| (None, &code, learnt)), 1e6).unseen
        };
        // In a millisecond, four instructions a nanosecond make 4/3 M accesses.
        let each = 4e6 / 3.0;
        assert!((unseen(&[5, 7]) / each - 1.0).abs() < 1e-9);
        assert!((unseen(&[5, 1, 1, 7]) / (7.0_f64.sqrt() * each) - 1.0).abs() < 1e-9);
    }
}
