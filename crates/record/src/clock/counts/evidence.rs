//! What samples tell of how often code ran: counters that moved on between two samples, branches whose direction the flags
//! tell, rounds that a loop had left, and where time was spent.

use rustc_hash::FxHashMap;

use super::super::lift::{Code, Effect, STACK_POINTER};
use super::super::machine::Machine;
use super::graph::{Counter, Graph, Loop, Place, Step};

/// A pair of samples with more samples of the thread between them is not taken for one stay in a loop.
const LONGEST_GAP: u64 = 64;
/// Between samples that lie closer than so many times the cost of one, how much of the time is the program's is not certain.
const SHORTEST: i64 = 3;
/// Rounds per nanosecond that no machine makes.
const MOST_ROUNDS: f64 = 4.0;

/// What one thread's samples in one stretch of code tell.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    pub blocks: Vec<BlockEvidence>,
    /// By loop and counter.
    pub loops: Vec<Vec<CounterEvidence>>,
    /// Of repeated string instructions: how many elements they had left.
    pub repeats: FxHashMap<usize, Remaining>,
    last: Option<Last>,
}

/// Of a basic block.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockEvidence {
    pub samples: u32,
    /// Those of them that may have waited for memory, see [`Code::may_have_stalled`].
    pub stalled: u32,
    /// How often the branch at its end was about to be taken, and not.
    pub taken: u32,
    pub passed: u32,
}

/// Of a loop's counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterEvidence {
    /// By the time between the two samples of a pair, see [`gap_of`]: a loop that is short begins anew between distant samples.
    pub gaps: [Pairs; GAPS],
    /// Rounds that were left until the loop's test would end it.
    pub remaining: Remaining,
}

/// Pairs of samples in a loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairs {
    /// Those in one stay in the loop.
    pub good: u32,
    /// The rounds between them.
    pub rounds: f64,
    /// The squares of the rounds, for their spread.
    pub squares: f64,
    /// Nanoseconds between them.
    pub time: f64,
    /// Pairs between which the loop began anew.
    pub broken: u32,
    /// Those of them with nothing else between: rounds by which the counter stood further on (so less than 0).
    pub again: u32,
    pub again_rounds: f64,
    pub again_time: f64,
}

impl Pairs {
    pub fn join(&mut self, other: &Self) {
        self.good += other.good;
        self.rounds += other.rounds;
        self.squares += other.squares;
        self.time += other.time;
        self.broken += other.broken;
        self.again += other.again;
        self.again_rounds += other.again_rounds;
        self.again_time += other.again_time;
    }
}

/// Classes of times between two samples.
pub const GAPS: usize = 10;

/// The class: below 8 us, below 16 us, and so on.
fn gap_of(nanoseconds: i64) -> usize {
    ((nanoseconds.max(1) as u64 / 4000).max(1).ilog2() as usize).min(GAPS - 1)
}

/// Numbers of rounds, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remaining {
    pub samples: u32,
    pub sum: f64,
    pub squares: f64,
}

impl Remaining {
    fn add(&mut self, rounds: f64) {
        self.samples += 1;
        self.sum += rounds;
        self.squares += rounds * rounds;
    }

    fn join(&mut self, other: &Self) {
        self.samples += other.samples;
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// The last sample here.
#[derive(Clone, Debug)]
struct Last {
    block: usize,
    time: i64,
    /// Number of the sample among the thread's.
    number: u64,
    machine: Machine,
    slots: Vec<Option<u64>>,
}

/// How samples follow each other, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Longest time that can lie between two samples of a thread that runs.
    pub longest: i64,
    /// What a sample takes of it.
    pub cost: i64,
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Index of the sampled instruction.
    pub at: usize,
    /// Index of the one that the time went to, which may be in another block.
    pub center: usize,
    /// True if it may have waited for memory.
    pub stalled: bool,
    pub time: i64,
    pub clock: Clock,
    pub number: u64,
    pub machine: &'a Machine,
    /// Bytes from the stack pointer on.
    pub stack: &'a [u8],
}

/// What was known at a sample.
#[derive(Clone, Copy)]
struct State<'a> {
    machine: &'a Machine,
    /// By the graph's number.
    slots: &'a [Option<u64>],
}

impl State<'_> {
    fn value(&self, place: Place) -> Option<u64> {
        match place {
            Place::Register(register) => self.machine.register(register),
            Place::Slot(slot) => *self.slots.get(slot)?,
            Place::Immediate(value) => Some(value as u64),
        }
    }

    /// By how much a counter grows; `None` if it does not, or that is not known.
    fn step(&self, step: Step, wide: bool) -> Option<i64> {
        let from_register = match step.register {
            Some((register, times)) => (self.machine.register(register)? as i64).wrapping_mul(times),
            None => 0,
        };
        let by = step.constant.wrapping_add(from_register);
        Some(if wide { by } else { i64::from(by as i32) }).filter(|&by| by != 0)
    }
}

impl Evidence {
    /// Adds what a sample tells.
    pub fn add(&mut self, code: &Code, graph: &Graph, sample: Sample<'_>) {
        self.blocks.resize(graph.blocks.len(), BlockEvidence::default());
        self.loops.resize_with(graph.loops.len(), Vec::new);
        let block = graph.block_of(sample.at);
        let center = &mut self.blocks[graph.block_of(sample.center)];
        center.samples += 1;
        center.stalled += u32::from(sample.stalled);
        if let Some(taken) = direction(code, graph, &sample) {
            let of = &mut self.blocks[block];
            *(if taken { &mut of.taken } else { &mut of.passed }) += 1;
        }
        if code.ops[sample.at].repeats
            && let Some(left) = sample.machine.register(1)
        {
            self.repeats.entry(sample.at).or_default().add(left as f64);
        }
        let slots: Vec<Option<u64>> = graph.slots.iter().map(|slot| slot.value(sample.machine, sample.stack)).collect();
        let state = State { machine: sample.machine, slots: &slots };
        for n in graph.loops_of(block) {
            let of = &graph.loops[n];
            self.loops[n].resize(of.counters.len(), CounterEvidence::default());
            for test in &of.tests {
                if let Some(rounds) = left(&of.counters[test.counter], test.bound, state) {
                    self.loops[n][test.counter].remaining.add(rounds);
                }
            }
            let Some(last) = self.last.as_ref().filter(|last| of.contains(last.block)) else { continue };
            if sample.number - last.number > LONGEST_GAP
                || sample.machine.register(STACK_POINTER) != last.machine.register(STACK_POINTER)
            {
                continue;
            }
            let time = sample.time - last.time;
            let next = sample.number == last.number + 1;
            // The program's own; the cost of a sample comes behind its registers.
            let own = time - sample.clock.cost * (sample.number - last.number) as i64;
            if own < SHORTEST * sample.clock.cost || next && time > sample.clock.longest {
                // Too short to tell, or the thread did not run all the time.
                continue;
            }
            let before = State { machine: &last.machine, slots: &last.slots };
            let entered_anew = !is_one_stay(of, before, state);
            for (number, (counter, evidence)) in of.counters.iter().zip(&mut self.loops[n]).enumerate() {
                let pairs = &mut evidence.gaps[gap_of(own)];
                let most = most_rounds(of, number, before).min(own as f64 * MOST_ROUNDS);
                match rounds(counter, before, state).filter(|_| !entered_anew) {
                    Some(rounds) if (0.0..=most).contains(&rounds) => {
                        pairs.good += 1;
                        pairs.rounds += rounds;
                        pairs.squares += rounds * rounds;
                        pairs.time += own as f64;
                    }
                    moved => {
                        pairs.broken += 1;
                        if let Some(moved) = moved.filter(|moved| *moved < 0.0 && next) {
                            pairs.again += 1;
                            pairs.again_rounds += moved;
                            pairs.again_time += own as f64;
                        }
                    }
                }
            }
        }
        self.last = Some(Last { block, time: sample.time, number: sample.number, machine: *sample.machine, slots });
    }

    /// Adds what another thread's samples of the same code tell.
    pub fn join(&mut self, other: &Self) {
        self.blocks.resize(other.blocks.len(), BlockEvidence::default());
        for (to, from) in self.blocks.iter_mut().zip(&other.blocks) {
            to.samples += from.samples;
            to.stalled += from.stalled;
            to.taken += from.taken;
            to.passed += from.passed;
        }
        self.loops.resize_with(other.loops.len(), Vec::new);
        for (to, from) in self.loops.iter_mut().zip(&other.loops) {
            to.resize(to.len().max(from.len()), CounterEvidence::default());
            for (to, from) in to.iter_mut().zip(from) {
                to.gaps.iter_mut().zip(&from.gaps).for_each(|(to, from)| to.join(from));
                to.remaining.join(&from.remaining);
            }
        }
        for (&op, remaining) in &other.repeats {
            self.repeats.entry(op).or_default().join(remaining);
        }
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.samples)).sum()
    }
}

/// True if the branch at the end of the sampled block was about to be taken; `None` if the registers do not tell.
fn direction(code: &Code, graph: &Graph, sample: &Sample<'_>) -> Option<bool> {
    let last = graph.blocks[graph.block_of(sample.at)].last;
    let Effect::Branch { condition, .. } = code.ops[last].effect else { return None };
    let mut machine = *sample.machine;
    code.ops[sample.at..last].iter().for_each(|op| machine.step(op));
    machine.taken(condition)
}

/// True if nothing says that a loop was left and entered anew between two samples: what it does not write is as it was. Where blocks of
/// one loop are dealt out to threads, the counter stands a whole turn further on in the next block, and only the bound tells.
fn is_one_stay(of: &Loop, before: State<'_>, after: State<'_>) -> bool {
    let registers = (0..16_u8).filter(|register| of.writes >> register & 1 == 0);
    let places = registers.map(Place::Register).chain(of.tests.iter().map(|test| test.bound));
    places.into_iter().all(|place| match (before.value(place), after.value(place)) {
        (Some(before), Some(after)) => before == after,
        _ => true,
    })
}

/// The rounds that were left for a loop at a sample, by the exit conditions of one of its counters: after more it was left.
fn most_rounds(of: &Loop, counter: usize, before: State<'_>) -> f64 {
    let tests = of.tests.iter().filter(|test| test.counter == counter);
    let rounds = tests.filter_map(|test| left(&of.counters[counter], test.bound, before));
    // Where the counter stands beside its exit condition is not looked at.
    rounds.fold(f64::INFINITY, f64::min) + 1.0
}

/// By how much a counter moved on between two samples, in rounds; less than 0 if it stood further on before. `None` if it does
/// not count these rounds, or that is not known.
fn rounds(counter: &Counter, before: State<'_>, after: State<'_>) -> Option<f64> {
    let step = before.step(counter.step, counter.wide)?;
    if after.step(counter.step, counter.wide) != Some(step) {
        return None;
    }
    let (before, after) = (before.value(counter.place)?, after.value(counter.place)?);
    let moved = match counter.wide {
        true => after.wrapping_sub(before) as i64,
        false => i64::from((after as u32).wrapping_sub(before as u32) as i32),
    };
    let rounds = moved.checked_div(step)?;
    (moved.wrapping_rem(step) == 0).then_some(rounds as f64)
}

/// Rounds until a counter comes to its bound; `None` if it is beyond.
fn left(counter: &Counter, bound: Place, state: State<'_>) -> Option<f64> {
    let (at, bound) = (state.value(counter.place)?, state.value(bound)?);
    let way = match counter.wide {
        true => bound.wrapping_sub(at) as i64,
        false => i64::from((bound as u32).wrapping_sub(at as u32) as i32),
    };
    let rounds = way.checked_div(state.step(counter.step, counter.wide)?)?;
    (rounds >= 0).then_some(rounds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L: add rax,[rdi+rcx*8]; inc rcx; cmp rcx,rsi; jne L; ret
    const LOOP: &[u8] = &[0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x75, 0xf4, 0xc3];

    /// Pairs of the loop's counter between samples that stand at those rounds of a loop with that bound, 100 us apart.
    fn pairs(samples: &[(u64, u64)]) -> Pairs {
        let code = Code::decode(LOOP, 0x1000, true);
        let graph = Graph::of(&code);
        let mut evidence = Evidence::default();
        for (number, &(at, bound)) in samples.iter().enumerate() {
            let mut registers = [0; 16];
            (registers[1], registers[6]) = (at, bound);
            let machine = Machine::new(registers, 0, 0, None);
            let sample = Sample {
                at: 1,
                center: 0,
                stalled: false,
                time: number as i64 * 100_000,
                clock: Clock { longest: 1_000_000, cost: 0 },
                number: number as u64,
                machine: &machine,
                stack: &[],
            };
            evidence.add(&code, &graph, sample);
        }
        let mut all = Pairs::default();
        evidence.loops[0][0].gaps.iter().for_each(|gap| all.join(gap));
        all
    }

    #[test]
    fn rounds_are_counted_within_one_stay() {
        let all = pairs(&[(0, 90_000), (30_000, 90_000), (60_000, 90_000)]);
        assert_eq!((all.good, all.broken, all.rounds), (2, 0, 60_000.0));
    }

    #[test]
    fn blocks_dealt_out_to_four_threads_are_not_one_stay() {
        // Blocks of 1000 rounds: 3000 of other threads lie between the end of one and the beginning of the next.
        let all = pairs(&[(100, 1000), (4200, 5000), (8300, 9000), (12_400, 13_000)]);
        assert_eq!((all.good, all.broken), (0, 3));
        // The register with the bound may be one that the loop writes; then what was left tells.
        let left = pairs(&[(100, 1000), (1200, 1000)]);
        assert_eq!((left.good, left.broken), (0, 1));
    }
}
