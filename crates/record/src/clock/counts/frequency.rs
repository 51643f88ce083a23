//! How often each basic block ran, from what samples tell.
//!
//! The unknowns are the flows along the edges of the graph. What is known of them:
//!
//! | of | is known | how firmly |
//! |---|---|---|
//! | a block | as much comes in as goes out | exactly |
//! | a loop with a good counter | its header ran as often as the counter moved on | exactly |
//! | a branch | the part of samples before it in which it was about to be taken | with the number of samples |
//! | a loop whose rounds to go are spread evenly over 0..N | it is entered once in N rounds | with the number of samples |
//! | a block | its time outside of stalls is its instructions times what one takes | hardly |
//!
//! They are met one after the other by scaling the flows that they are about, the soft ones only in part, until nothing
//! changes any more (multiplicative algebraic reconstruction: Gordon, Bender, Herman 1970). So flows stay positive.
//!
//! Outside of loops with a good counter only the last line counts, block by block: relations between guesses make them worse.

use super::super::lift::Code;
use super::evidence::{BlockEvidence, CounterEvidence, Evidence, Pairs, Remaining};
use super::graph::{Graph, Loop};

/// Fewer pairs of samples prove no counter.
const LEAST_PAIRS: u32 = 8;
/// A counter that begins anew between more pairs than this part of them tells of another loop.
const MOST_BROKEN: f64 = 0.15;
/// A loop with so many times the rounds between two samples cannot pass unnoticed.
const LONG: f64 = 1.5;
/// Fewer samples tell nothing of a loop's rounds.
const LEAST_REMAINING: u32 = 8;
/// Variance over squared mean of a number spread evenly over 0..N is 1/3; far from it, a loop's rounds differ.
const EVEN: std::ops::RangeInclusive<f64> = 0.2..=0.5;
/// Flows change by less than this part: enough.
const SETTLED: f64 = 1e-4;
const MOST_SWEEPS: usize = 400;
/// Edges that are looked at in all sweeps: the end of a recording must not wait for a function of a hundred thousand.
const MOST_STEPS: usize = 200_000;

/// What an instruction takes in code that runs seldom, nanoseconds: much of it is not in the caches.
pub const PER_OP_COLD: f64 = 1.0;
/// Samples of code that runs as fast as it can for half of its time.
const COLD: f64 = 16.0;

/// Of a sample that may have waited for memory, the part that is taken for work.
const STALLED: f64 = 0.25;

/// The most that a block without samples may have taken, in samples.
const UNSEEN: f64 = 0.2;

/// Instructions in a nanosecond that no processor retires: eight in a cycle of a sixth of that.
const MOST_PER_NS: f64 = 48.0;

/// What the solution rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Nanoseconds of the program's that a sample stands for: without what sampling takes.
    pub period: f64,
    /// What an instruction takes that does not stall, nanoseconds.
    pub per_op: f64,
}

/// How often blocks ran.
#[derive(Clone, Debug, Default)]
pub struct Frequencies {
    /// By block.
    pub runs: Vec<f64>,
    /// The innermost loop with a good counter that the block is in, by block: the basis on which its count stands.
    pub basis: Vec<Option<usize>>,
}

/// How fast a loop goes round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Rounds in a nanosecond.
    pub per_ns: f64,
    pairs: u32,
}

impl Rate {
    /// This rate of one thread, drawn towards that of all the more the fewer pairs it is from.
    pub fn drawn_to(&self, all: f64) -> f64 {
        const PAIRS: f64 = 50.0;
        let pairs = f64::from(self.pairs);
        (self.per_ns * pairs + all * PAIRS) / (pairs + PAIRS)
    }
}

/// The rate of a loop by its best counter, if one is to be trusted.
///
/// Pairs of samples close to each other, between which the loop hardly ever begins anew, give a first rate. By that rate the
/// loop, where it is known how many rounds it has, cannot have come past where it was between samples somewhat further apart:
/// those pairs count too, also if it did begin anew between them; without them slow stays would count for more than fast ones.
/// Samples yet further apart tell nothing, though half of their pairs look good.
pub fn rate(counters: &[CounterEvidence]) -> Option<Rate> {
    counters.iter().filter_map(rate_of).max_by_key(|rate| rate.pairs)
}

fn rate_of(counter: &CounterEvidence) -> Option<Rate> {
    let seldom = |gap: &&Pairs| f64::from(gap.broken) <= MOST_BROKEN * f64::from(gap.good + gap.broken);
    let mut close = Pairs::default();
    let gaps: Vec<&Pairs> = counter.gaps.iter().filter(|gap| gap.good + gap.broken > 0).collect();
    let first = gaps.iter().take_while(|gap| seldom(gap)).inspect(|gap| close.join(gap)).count();
    if close.good < LEAST_PAIRS || close.rounds <= 0.0 {
        return None;
    }
    if begins_anew_unseen(&counter.gaps) {
        return None;
    }
    let (mut pairs, mut moved, mut time) = (close.good, close.rounds, close.time);
    if let Some(rounds) = rounds_of(&counter.remaining) {
        let per_ns = close.rounds / close.time;
        for gap in gaps[first..].iter().filter(|gap| gap.good + gap.again == gap.good + gap.broken) {
            let each = (gap.time + gap.again_time) / f64::from(gap.good + gap.again);
            if per_ns * each * LONG <= rounds {
                pairs += gap.good + gap.again;
                moved += gap.rounds + gap.again_rounds + f64::from(gap.again) * rounds;
                time += gap.time + gap.again_time;
            }
        }
    }
    Some(Rate { per_ns: moved / time, pairs })
}

/// True if a loop begins anew between most pairs of samples, and only seems not to. Where it is a little shorter than the shortest times
/// between samples, its counter stands a little further on at the second sample of each such pair, whole turns later. Such a loop shows at
/// times that are twice as long: half of those pairs are broken at once. Of any other loop twice as many are as before.
fn begins_anew_unseen(gaps: &[Pairs]) -> bool {
    let broken =
        |gap: &Pairs| (f64::from(gap.broken) / f64::from(gap.good + gap.broken), f64::from(gap.good + gap.broken));
    let known = |gap: &&Pairs| gap.good + gap.broken >= LEAST_PAIRS;
    let first_broken = gaps.iter().position(|gap| known(&gap) && broken(gap).0 > MOST_BROKEN);
    let Some(at) = first_broken else { return false };
    let Some(before) = gaps[..at].iter().rposition(|gap| gap.good + gap.broken > 0) else { return false };
    let ((now, pairs), (then, pairs_before)) = (broken(&gaps[at]), broken(&gaps[before]));
    let times = (1_u32 << (at - before).min(16)) as f64;
    // What few pairs hide: one more that is broken, and three standard errors.
    let expected = times * (then * pairs_before + 1.0) / (pairs_before + 2.0);
    let spread = 3.0 * (0.25 / pairs).sqrt();
    // Times are not spread evenly over a class, so twice as many may be four times.
    now > 2.0 * expected + spread.max(0.1)
}

/// Rounds of a loop from one entry to the next, if they are the same each time.
fn rounds_of(remaining: &Remaining) -> Option<f64> {
    let n = f64::from(remaining.samples);
    let mean = remaining.sum / n;
    let variance = remaining.squares / n - mean * mean;
    let even = remaining.samples >= LEAST_REMAINING && mean >= 1.0 && EVEN.contains(&(variance / (mean * mean)));
    even.then_some(2.0 * mean + 1.0)
}

/// Samples of a block in which it worked, as far as that can be told from waiting.
pub fn worked(seen: &BlockEvidence) -> f64 {
    let busy = f64::from(seen.samples - seen.stalled.min(seen.samples));
    busy + STALLED * f64::from(seen.stalled)
}

/// Solves for the frequencies of `graph`'s blocks.
pub fn solve(code: &Code, graph: &Graph, evidence: &Evidence, time: Time) -> Frequencies {
    let mut system = System::new(code, graph, evidence, time);
    // Without a counter each block stands for itself, and large functions take fewer looks.
    let most = match system.rates.iter().any(Option::is_some) {
        true => (MOST_STEPS / graph.edges.len().max(1)).clamp(10, MOST_SWEEPS),
        false => 0,
    };
    for _ in 0..most {
        if system.sweep() < SETTLED {
            break;
        }
    }
    let impossible: Vec<bool> = (0..graph.loops.len()).map(|n| system.is_impossible(n, code, time)).collect();
    let basis = (0..graph.blocks.len()).map(|block| {
        let possible = graph.loops_of(block).all(|n| !impossible[n]);
        graph.loops_of(block).find(|&n| system.rates[n].is_some()).filter(|_| possible)
    });
    let basis: Vec<Option<usize>> = basis.collect();
    let runs = basis.iter().enumerate().map(|(block, basis)| match basis {
        Some(_) => system.through(block),
        None => system.density[block].0,
    });
    Frequencies { runs: runs.collect(), basis }
}

/// The edges of a loop.
#[derive(Debug, Default)]
struct LoopEdges {
    enters: Vec<usize>,
    leaves: Vec<usize>,
    within: Vec<usize>,
    /// Those within that lead to the header.
    back: Vec<usize>,
}

impl LoopEdges {
    fn of(graph: &Graph, of: &Loop) -> Self {
        let mut edges = Self::default();
        let is_in = |block: Option<usize>| block.is_some_and(|block| of.contains(block));
        for (n, edge) in graph.edges.iter().enumerate() {
            match (is_in(edge.from), is_in(edge.to)) {
                (true, true) => {
                    edges.within.push(n);
                    if edge.to == Some(of.header) {
                        edges.back.push(n);
                    }
                }
                (true, false) => edges.leaves.push(n),
                (false, true) => edges.enters.push(n),
                (false, false) => {}
            }
        }
        edges
    }
}

struct System<'a> {
    graph: &'a Graph,
    evidence: &'a Evidence,
    /// By loop.
    edges: Vec<LoopEdges>,
    /// By edge.
    flow: Vec<f64>,
    /// By loop: how often its header ran, if a counter tells.
    rates: Vec<Option<f64>>,
    /// By loop: rounds from entry to entry.
    rounds: Vec<Option<f64>>,
    /// By block: how often it ran by its time, and how much that counts.
    density: Vec<(f64, f64)>,
}

impl<'a> System<'a> {
    fn new(code: &Code, graph: &'a Graph, evidence: &'a Evidence, time: Time) -> Self {
        let samples = evidence.samples() as f64;
        let per_op = (samples * time.per_op + COLD * PER_OP_COLD.max(time.per_op)) / (samples + COLD);
        let density: Vec<(f64, f64)> = graph
            .blocks
            .iter()
            .zip(&evidence.blocks)
            .map(|(block, seen)| {
                let ops = code.ops[block.first..=block.last].len() as f64;
                let busy = f64::from(seen.samples - seen.stalled.min(seen.samples));
                // A block that was never seen may have run, but not often.
                let worked = worked(seen).max(UNSEEN);
                let runs = worked * time.period / (ops * per_op);
                (runs, 0.05 * (busy + 0.5) / (busy + 4.0))
            })
            .collect();
        let mut flow = vec![0.0; graph.edges.len()];
        for (block, (runs, _)) in graph.blocks.iter().zip(&density) {
            for &edge in &block.out {
                flow[edge] += runs / block.out.len() as f64;
            }
            for &edge in block.into.iter().filter(|&&edge| graph.edges[edge].from.is_none()) {
                flow[edge] += runs / block.into.len() as f64;
            }
        }
        let rates = graph.loops.iter().zip(&evidence.loops).map(|(of, counters)| {
            let rate = rate(counters)?;
            let samples: u32 = of.blocks.iter().map(|&block| evidence.blocks[block].samples).sum();
            Some((rate.per_ns * f64::from(samples) * time.period).max(1.0))
        });
        let rounds = evidence.loops.iter().map(|counters| {
            counters.iter().max_by_key(|c| c.remaining.samples).and_then(|counter| rounds_of(&counter.remaining))
        });
        let edges = graph.loops.iter().map(|of| LoopEdges::of(graph, of)).collect();
        Self { graph, evidence, edges, rates: rates.collect(), rounds: rounds.collect(), density, flow }
    }

    fn sum(&self, edges: &[usize]) -> f64 {
        edges.iter().map(|&edge| self.flow[edge]).sum()
    }

    /// How often a block ran.
    fn through(&self, block: usize) -> f64 {
        let of = &self.graph.blocks[block];
        if of.out.is_empty() { self.sum(&of.into) } else { self.sum(&of.out) }
    }

    /// True if no processor could have run a loop as often in the time that it had.
    fn is_impossible(&self, n: usize, code: &Code, time: Time) -> bool {
        let blocks = &self.graph.loops[n].blocks;
        let samples: f64 = blocks.iter().map(|&block| f64::from(self.evidence.blocks[block].samples)).sum();
        let instructions: f64 = blocks
            .iter()
            .map(|&block| {
                let of = &self.graph.blocks[block];
                self.through(block) * code.ops[of.first..=of.last].len() as f64
            })
            .sum();
        // By chance it may have had some samples less.
        let most = (samples + 3.0 * samples.sqrt() + 3.0) * time.period * MOST_PER_NS;
        instructions.is_nan() || instructions > most
    }

    fn scale(&mut self, edges: &[usize], factor: f64) {
        for &edge in edges {
            self.flow[edge] *= factor;
        }
    }

    /// Scales flows that add up to `have` towards `wanted`, by the part `firmness` of the way.
    fn pull(&mut self, edges: &[usize], wanted: f64, firmness: f64) {
        let have = self.sum(edges);
        if have > 0.0 && wanted > 0.0 {
            self.scale(edges, (wanted / have).powf(firmness));
        }
    }

    /// Meets everything once; returns by which part the flow of a block with samples changed most.
    fn sweep(&mut self) -> f64 {
        let graph = self.graph;
        let before: Vec<f64> = (0..graph.blocks.len()).map(|block| self.through(block)).collect();
        for (n, block) in graph.blocks.iter().enumerate() {
            let (runs, firmness) = self.density[n];
            if !graph.loops_of(n).any(|of| self.rates[of].is_some()) {
                self.pull(&block.out, runs, firmness);
                self.pull(&block.into, runs, firmness);
            } else if self.evidence.blocks[n].samples == 0 && self.through(n) > runs {
                // Time speaks against it, whatever else does not.
                self.pull(&block.out, runs, 0.02);
            }
            self.branch(n);
        }
        for n in 0..graph.loops.len() {
            self.round(n);
        }
        for n in (0..graph.blocks.len()).chain((0..graph.blocks.len()).rev()) {
            self.balance(n);
        }
        let seen = |n: &usize| self.evidence.blocks[*n].samples > 0;
        (0..graph.blocks.len()).filter(seen).map(|n| (self.through(n) / before[n] - 1.0).abs()).fold(0.0, f64::max)
    }

    /// Of a loop: as much enters as leaves; its header ran as its counter says, or as often as it has rounds. What flows
    /// within it is scaled as a whole: it is much more than what enters, and single blocks would pass it on slowly.
    fn round(&mut self, n: usize) {
        let (within, enters, leaves) = (&self.edges[n].within, &self.edges[n].enters, &self.edges[n].leaves);
        let back = &self.edges[n].back;
        let (entering, leaving, again) = (self.sum(enters), self.sum(leaves), self.sum(back));
        if !(entering > 0.0 && leaving > 0.0 && again > 0.0) {
            return;
        }
        let even = (leaving / entering).sqrt();
        let (mut inner, mut outer) = (1.0, 1.0);
        if let (Some(rate), Some(rounds)) = (self.rates[n], self.rounds[n]) {
            // Else the loop might as well be entered each time anew.
            outer = (rate / rounds / entering.max(leaving)).powf(0.25);
            inner = (rate - entering * outer).max(0.1 * rate) / again;
        } else if let Some(rate) = self.rates[n] {
            inner = rate / (entering + again);
        } else if let Some(rounds) = self.rounds[n] {
            outer = (again / (entering.max(leaving) * (rounds - 1.0))).powf(0.25);
            inner = 1.0 / outer;
        }
        let (within, enters, leaves) = (within.clone(), enters.clone(), leaves.clone());
        self.scale(&within, inner);
        self.scale(&enters, outer * even);
        self.scale(&leaves, outer / even);
    }

    /// Divides what goes out of a block as the branch at its end was seen to.
    fn branch(&mut self, n: usize) {
        let (block, seen) = (&self.graph.blocks[n], &self.evidence.blocks[n]);
        let [a, b] = block.out[..] else { return };
        let directions = f64::from(seen.taken + seen.passed);
        // Of a loop with a known number of rounds that says more of its test than samples do.
        let tests = self.graph.blocks[n].innermost.is_some_and(|of| {
            (self.rates[of].is_some() || self.rounds[of].is_some())
                && self.edges[of].leaves.iter().any(|edge| block.out.contains(edge))
        });
        if directions == 0.0 || tests {
            return;
        }
        let (taken, passed) = if self.graph.edges[a].taken { (a, b) } else { (b, a) };
        let out = self.flow[taken] + self.flow[passed];
        let firmness = directions / (directions + 4.0);
        let now = self.flow[taken] / out;
        let part = match (seen.taken, seen.passed) {
            // What was not seen may be rare, and how rare is not known.
            (0, _) => now.min(1.0 / (directions + 2.0)),
            (_, 0) => now.max(1.0 - 1.0 / (directions + 2.0)),
            _ => (f64::from(seen.taken) + 0.5) / (directions + 1.0),
        };
        self.pull(&[taken], out * part, firmness);
        self.pull(&[passed], out * (1.0 - part), firmness);
    }

    /// Makes as much come in as goes out; of the header of a loop with a good counter, what the counter says.
    fn balance(&mut self, n: usize) {
        let block = &self.graph.blocks[n];
        // What goes round a block by itself comes in and goes out.
        let passes = |edges: &[usize]| -> Vec<usize> {
            edges.iter().copied().filter(|&edge| self.graph.edges[edge].from != self.graph.edges[edge].to).collect()
        };
        let (into_edges, out_edges) = (passes(&block.into), passes(&block.out));
        let rate = block.innermost.filter(|&of| self.graph.loops[of].header == n).and_then(|of| self.rates[of]);
        let rate = rate.filter(|_| into_edges.len() == block.into.len());
        let (into, out) = (self.sum(&into_edges), self.sum(&out_edges));
        let runs = rate.unwrap_or_else(|| if out_edges.is_empty() { into } else { (into * out).sqrt() });
        if into > 0.0 {
            self.scale(&into_edges, runs / into);
        }
        if out > 0.0 {
            self.scale(&out_edges, runs / out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Time = Time { period: 1e6, per_op: 0.25 };

    /// L1: xor ecx,ecx; L2: add rax,[rdi+rcx*8]; inc rcx; cmp rcx,rsi; jne L2; add rdi,64; dec rdx; jne L1; ret
    const NEST: &[u8] = &[
        0x31, 0xc9, 0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x75, 0xf4, 0x48, 0x83, 0xc7, 0x40,
        0x48, 0xff, 0xca, 0x75, 0xe9, 0xc3,
    ];

    fn evidence(graph: &Graph) -> Evidence {
        let mut evidence = Evidence::default();
        evidence.blocks = vec![BlockEvidence::default(); graph.blocks.len()];
        evidence.loops = graph.loops.iter().map(|l| vec![CounterEvidence::default(); l.counters.len()]).collect();
        evidence
    }

    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.05, "{got} instead of {expected}");
    }

    /// Pairs of samples in a loop of `lap` nanoseconds and `rounds` rounds, 24 us apart and more, at all phases.
    fn pairs(lap: f64, rounds: f64) -> CounterEvidence {
        let mut counter = CounterEvidence::default();
        for gap in (24_000..400_000).step_by(400) {
            for phase in 0..101 {
                let from = f64::from(phase) / 101.0;
                let to = (from + f64::from(gap) / lap).fract();
                let class = ((gap as u64 / 4000).max(1).ilog2() as usize).min(counter.gaps.len() - 1);
                let pairs = &mut counter.gaps[class];
                if to >= from {
                    pairs.good += 1;
                    pairs.rounds += (to - from) * rounds;
                    pairs.time += f64::from(gap);
                } else {
                    pairs.broken += 1;
                }
            }
        }
        counter
    }

    #[test]
    fn whole_turns_between_samples_are_not_overlooked() {
        // Shorter than the shortest time between two samples, by little or by much: what the counter moved on by is not what it made.
        for lap in [1_000.0, 5_000.0, 12_000.0, 17_500.0, 20_000.0, 22_000.0, 23_500.0] {
            assert!(rate_of(&pairs(lap, 8192.0)).is_none(), "{lap}");
        }
        for lap in [400_000.0, 1_000_000.0, 1e9] {
            let rate = rate_of(&pairs(lap, 8192.0)).expect("it is long enough");
            near(rate.per_ns * lap, 8192.0);
        }
    }

    #[test]
    fn the_rounds_to_go_tell_how_often_an_inner_loop_is_entered() {
        let code = Code::decode(NEST, 0x1000, true);
        let graph = Graph::of(&code);
        let mut evidence = evidence(&graph);
        // 1000 samples, all in the inner loop; between two of them the outer counter moves on by 500 rounds.
        evidence.blocks[1] = BlockEvidence { samples: 1000, stalled: 900, ..BlockEvidence::default() };
        evidence.loops[0][0] = counter(999, 500e-6, 0);
        let rest = &mut evidence.loops[1][0].remaining;
        (0..1000).for_each(|n| {
            let left = f64::from(n % 100);
            *rest = Remaining { samples: rest.samples + 1, sum: rest.sum + left, squares: rest.squares + left * left };
        });
        let found = solve(&code, &graph, &evidence, TIME);
        near(found.runs[0], 500_000.0);
        near(found.runs[1], 50_000_000.0);
        near(found.runs[2], 500_000.0);
        assert_eq!(found.basis[..3], [Some(0), Some(0), Some(0)]);
        assert_eq!(found.basis[3], None);
    }

    #[test]
    fn a_branch_divides_as_it_was_seen_to() {
        // L: inc rcx; test al,al; je M; add rbx,[rdi]; M: cmp rcx,rsi; jne L; ret
        let bytes = [0x48, 0xff, 0xc1, 0x84, 0xc0, 0x74, 0x03, 0x48, 0x03, 0x1f, 0x48, 0x39, 0xf1, 0x75, 0xf1, 0xc3];
        let code = Code::decode(&bytes, 0x1000, true);
        let graph = Graph::of(&code);
        let mut evidence = evidence(&graph);
        evidence.blocks[0] = BlockEvidence { samples: 400, stalled: 0, taken: 300, passed: 100 };
        // It stalls, and so is seen far more often than it runs.
        evidence.blocks[1] = BlockEvidence { samples: 2000, stalled: 2000, ..BlockEvidence::default() };
        evidence.loops[0][0] = counter(2000, 1e-3, 0);
        let found = solve(&code, &graph, &evidence, TIME);
        near(found.runs[0], 2.4e6);
        near(found.runs[1], 0.6e6);
        near(found.runs[2], 2.4e6);
    }

    #[test]
    fn a_count_that_no_processor_makes_has_no_basis() {
        let code = Code::decode(NEST, 0x1000, true);
        let graph = Graph::of(&code);
        let mut evidence = evidence(&graph);
        evidence.blocks[1] = BlockEvidence { samples: 100, stalled: 90, ..BlockEvidence::default() };
        evidence.loops[0][0] = counter(99, 500e-6, 0);
        // A register that is no bound: a hundred million rounds to go, in a loop that goes round in 2 us.
        let rest = &mut evidence.loops[1][0].remaining;
        (0..100).for_each(|n| {
            let left = f64::from(n) * 1e6;
            *rest = Remaining { samples: rest.samples + 1, sum: rest.sum + left, squares: rest.squares + left * left };
        });
        let found = solve(&code, &graph, &evidence, TIME);
        assert_eq!(found.basis, [None; 4]);
        // Nor is what then stands there more than time allows.
        assert!(found.runs.iter().all(|&runs| runs < 1e8 * 1e6 / 0.03), "{:?}", found.runs);
    }

    #[test]
    fn without_a_counter_time_decides_and_there_is_no_basis() {
        // add rax,rcx; ret
        let code = Code::decode(&[0x48, 0x01, 0xc8, 0xc3], 0x1000, true);
        let graph = Graph::of(&code);
        let mut evidence = evidence(&graph);
        evidence.blocks[0].samples = 100;
        let found = solve(&code, &graph, &evidence, TIME);
        // Not quite as fast as code that is known to be hot.
        near(found.runs[0], 1.415e8);
        assert_eq!(found.basis, [None]);
    }

    fn counter(good: u32, rounds_per_ns: f64, broken: u32) -> CounterEvidence {
        let mut counter = CounterEvidence::default();
        let (n, rounds) = (f64::from(good), rounds_per_ns * 1e6);
        counter.gaps[7] =
            Pairs { good, rounds: n * rounds, squares: n * rounds * rounds, time: n * 1e6, broken, ..Pairs::default() };
        counter
    }

    #[test]
    fn a_counter_that_often_begins_anew_is_not_trusted() {
        let (good, bad) = (counter(90, 0.5, 10), counter(80, 0.25, 20));
        assert_eq!(rate(&[bad, good]).map(|rate| rate.per_ns), Some(0.5));
        assert_eq!(rate(&[bad]), None);
    }

    #[test]
    fn pairs_at_random_places_of_a_short_loop_do_not_count() {
        // 1000 rounds in 50 us. Samples 10 us apart tell; of those a millisecond apart half look good.
        let mut counter = counter(100, 333e-6, 100);
        counter.gaps[2] = Pairs { good: 20, rounds: 4000.0, squares: 8e5, time: 20.0 * 1e4, ..Pairs::default() };
        let of = &mut counter.remaining;
        (of.samples, of.sum, of.squares) = (100, 50_000.0, 33e6);
        let found = rate(&[counter]).expect("from the close ones").per_ns;
        assert!((found / 0.02 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn a_loop_of_known_length_may_begin_anew_once() {
        // 1000 rounds, 400 between two samples: two of five pairs have a new beginning between them.
        let mut counter = CounterEvidence::default();
        counter.gaps[7] = Pairs {
            good: 60,
            rounds: 60.0 * 400.0,
            squares: 60.0 * 400.0 * 400.0,
            time: 60.0 * 1e6,
            broken: 40,
            again: 40,
            again_rounds: -40.0 * 600.0,
            again_time: 40.0 * 1e6,
        };
        assert_eq!(rate(&[counter]), None);
        // Close ones tell the rate.
        counter.gaps[2] =
            Pairs { good: 9, rounds: 9.0 * 8.0, squares: 9.0 * 64.0, time: 9.0 * 2e4, ..Pairs::default() };
        for n in 0..100 {
            let left = f64::from(n) * 10.0;
            let of = &mut counter.remaining;
            (of.samples, of.sum, of.squares) = (of.samples + 1, of.sum + left, of.squares + left * left);
        }
        let found = rate(&[counter]).expect("it is known how long it is").per_ns;
        assert!((found / 400e-6 - 1.0).abs() < 0.01, "{found}");
    }
}
