//! The flow graph of a function: basic blocks, the ways between them, loops and what counts their rounds.
//!
//! ```text
//!          entry
//!            |
//!            v
//!      +-> header <-+      a loop is its header and everything on a way back to it (natural loops: Aho, Sethi, Ullman,
//!      |    |   |   |      "Compilers", 10.4); loops of one header are one loop. Code with several heads (a goto into a
//!      |    v   v   |      loop) has none.
//!      +-- a     b -+
//! ```

use numamma_trace::Access;

use super::super::frame::{Slot, SlotUse};
use super::super::lift::{Arithmetic, Code, Effect, Leaves, Op, STACK_POINTER, Value};

/// Registers that a call may change: rax, rcx, rdx, rsi, rdi, r8 to r11 (System V ABI, 3.2.1).
const CALL_CLOBBERS: u16 = 0b0000_1111_1100_0111;

/// The flow graph of one stretch of code.
#[derive(Debug, Default)]
pub struct Graph {
    pub blocks: Vec<Block>,
    pub edges: Vec<Edge>,
    /// Outer loops before those inside them.
    pub loops: Vec<Loop>,
    /// Places on the frame that counters and bounds are in.
    pub slots: Vec<Slot>,
    of_op: Vec<u32>,
}

/// A basic block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its first and last instruction.
    pub first: usize,
    pub last: usize,
    /// Edges that lead here and from here.
    pub into: Vec<usize>,
    pub out: Vec<usize>,
    /// The innermost loop that it is in.
    pub innermost: Option<usize>,
    /// True if every way here from the entry is known.
    pub known: bool,
}

/// A way between two blocks; `None` is outside of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: Option<usize>,
    pub to: Option<usize>,
    /// The branch was taken; false for the way behind it.
    pub taken: bool,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    pub header: usize,
    pub parent: Option<usize>,
    /// In order of their numbers.
    pub blocks: Vec<usize>,
    pub counters: Vec<Counter>,
    pub tests: Vec<Test>,
    /// Registers that it may write, as a mask: the others hold the same for as long as the loop is not left.
    pub writes: u16,
}

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Register(u8),
    /// On the frame: number of the graph's slot.
    Slot(usize),
    /// In the code.
    Immediate(i64),
}

impl From<Value> for Place {
    fn from(value: Value) -> Self {
        match value {
            Value::Register(register) => Place::Register(register),
            Value::Immediate(value) => Place::Immediate(value),
        }
    }
}

/// A register, or a place on the frame, that grows by the same amount in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub place: Place,
    pub step: Step,
    /// 64 bits; else 32.
    pub wide: bool,
}

/// By how much a counter grows: a constant, and a multiple of a register that stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub constant: i64,
    pub register: Option<(u8, i64)>,
}

impl From<i64> for Step {
    fn from(constant: i64) -> Self {
        Self { constant, register: None }
    }
}

/// A branch that leaves the loop when a counter has come to a bound that stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub counter: usize,
    pub bound: Place,
}

impl Loop {
    pub fn contains(&self, block: usize) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }
}

impl Graph {
    /// The graph of `code`.
    pub fn of(code: &Code) -> Self {
        let mut graph = Graph::default();
        graph.find_blocks(code);
        graph.find_edges(code);
        let dominators = graph.dominators();
        graph.find_loops(&dominators);
        for n in 0..graph.loops.len() {
            let frame = graph.frame(code, n, &dominators);
            let mut counters = graph.counters(code, n, &dominators);
            for (slot, step) in frame.counters() {
                let place = Place::Slot(number_of(&mut graph.slots, slot));
                counters.push(Counter { place, step: step.into(), wide: slot.wide });
            }
            graph.loops[n].counters = counters;
            graph.loops[n].writes = graph.writes(code, n);
            let mut slots = std::mem::take(&mut graph.slots);
            graph.loops[n].tests = graph.tests(code, n, &frame, &mut slots);
            graph.slots = slots;
        }
        graph
    }

    /// The block that holds an instruction.
    pub fn block_of(&self, op: usize) -> usize {
        self.of_op[op] as usize
    }

    /// The loops that a block is in, the innermost first.
    pub fn loops_of(&self, block: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.blocks[block].innermost, |&n| self.loops[n].parent)
    }

    fn find_blocks(&mut self, code: &Code) {
        for (n, op) in code.ops.iter().enumerate() {
            if op.leader || n == 0 {
                self.blocks.push(Block { first: n, last: n, ..Block::default() });
            }
            self.blocks.last_mut().expect("the first instruction began one").last = n;
            self.of_op.push(self.blocks.len() as u32 - 1);
        }
    }

    fn find_edges(&mut self, code: &Code) {
        let mut indirect = Vec::new();
        for from in 0..self.blocks.len() {
            let target = |to: u64| code.index(to).map(|op| self.of_op[op] as usize);
            let next = (from + 1 < self.blocks.len()).then_some(from + 1);
            let op = &code.ops[self.blocks[from].last];
            let (taken, behind) = match op.effect {
                Effect::Jump { to } => (Some(target(to)), None),
                Effect::Branch { to, .. } => (Some(target(to)), Some(next)),
                Effect::Leave => match op.leaves {
                    Leaves::Call(_) => (None, Some(next)),
                    Leaves::Indirect => {
                        indirect.push(from);
                        (None, None)
                    }
                    Leaves::End => (Some(None), None),
                },
                _ => (None, Some(next)),
            };
            for (to, taken) in [(taken, true), (behind, false)] {
                if let Some(to) = to {
                    self.connect(Some(from), to, taken);
                }
            }
        }
        // The cases of a switch are where no other way leads.
        let cases: Vec<usize> = (1..self.blocks.len()).filter(|&to| self.blocks[to].into.is_empty()).collect();
        for &from in &indirect {
            cases.iter().for_each(|&to| self.connect(Some(from), Some(to), true));
            // It may also be a call at the end of the function.
            self.connect(Some(from), None, true);
        }
        for to in 0..self.blocks.len() {
            self.blocks[to].known = to != 0 && !self.blocks[to].into.is_empty();
            if !self.blocks[to].known {
                self.connect(None, Some(to), false);
            }
        }
    }

    fn connect(&mut self, from: Option<usize>, to: Option<usize>, taken: bool) {
        let edge = self.edges.len();
        self.edges.push(Edge { from, to, taken });
        if let Some(from) = from {
            self.blocks[from].out.push(edge);
        }
        if let Some(to) = to {
            self.blocks[to].into.push(edge);
        }
    }

    fn successors(&self, block: usize) -> impl Iterator<Item = usize> {
        self.blocks[block].out.iter().filter_map(|&edge| self.edges[edge].to)
    }

    fn predecessors(&self, block: usize) -> impl Iterator<Item = usize> {
        self.blocks[block].into.iter().filter_map(|&edge| self.edges[edge].from)
    }

    /// Blocks that can be reached, each behind those before it on some way; what lies outside leads to the first of them.
    fn reverse_postorder(&self) -> Vec<usize> {
        let (mut seen, mut order) = (vec![false; self.blocks.len()], Vec::new());
        for root in (0..self.blocks.len()).filter(|&block| !self.blocks[block].known) {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let mut open = vec![(root, self.successors(root).collect::<Vec<_>>())];
            while let Some((block, left)) = open.last_mut() {
                match left.pop() {
                    Some(next) if !std::mem::replace(&mut seen[next], true) => {
                        open.push((next, self.successors(next).collect()));
                    }
                    Some(_) => {}
                    None => {
                        order.push(*block);
                        open.pop();
                    }
                }
            }
        }
        order.reverse();
        order
    }

    /// The immediate dominator of each block (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm"); what lies
    /// outside dominates the blocks that it leads to.
    fn dominators(&self) -> Dominators {
        const UNSEEN: usize = usize::MAX;
        let order = self.reverse_postorder();
        // Number 0 is the outside.
        let mut number = vec![UNSEEN; self.blocks.len()];
        for (n, &block) in order.iter().enumerate() {
            number[block] = n + 1;
        }
        let mut above = vec![UNSEEN; order.len() + 1];
        above[0] = 0;
        loop {
            let mut changed = false;
            for (n, &block) in order.iter().enumerate().map(|(n, block)| (n + 1, block)) {
                let outside = (!self.blocks[block].known).then_some(0);
                let ways = self.predecessors(block).map(|from| number[from]).filter(|&from| from != UNSEEN);
                let found = ways.chain(outside).filter(|&from| above[from] != UNSEEN).reduce(|mut a, mut b| {
                    while a != b {
                        while a > b {
                            a = above[a];
                        }
                        while b > a {
                            b = above[b];
                        }
                    }
                    a
                });
                if let Some(found) = found
                    && above[n] != found
                {
                    above[n] = found;
                    changed = true;
                }
            }
            if !changed {
                return Dominators { number, above };
            }
        }
    }

    fn find_loops(&mut self, dominators: &Dominators) {
        let mut found: Vec<Loop> = Vec::new();
        for header in 0..self.blocks.len() {
            let mut open: Vec<usize> =
                self.predecessors(header).filter(|&from| dominators.dominates(header, from)).collect();
            if open.is_empty() {
                continue;
            }
            let mut blocks = vec![header];
            while let Some(block) = open.pop() {
                if !blocks.contains(&block) {
                    blocks.push(block);
                    open.extend(self.predecessors(block));
                }
            }
            blocks.sort_unstable();
            found.push(Loop { header, parent: None, blocks, counters: Vec::new(), tests: Vec::new(), writes: 0 });
        }
        found.sort_by_key(|l| std::cmp::Reverse(l.blocks.len()));
        for n in 0..found.len() {
            // The smallest of the larger ones that hold it; two loops share no block or one holds the other.
            found[n].parent = (0..n).rev().find(|&outer| found[outer].contains(found[n].header));
            for &block in &found[n].blocks {
                self.blocks[block].innermost = Some(n);
            }
        }
        self.loops = found;
    }

    /// Registers that one instruction alone changes in the loop, by a constant, once in each round.
    fn counters(&self, code: &Code, n: usize, dominators: &Dominators) -> Vec<Counter> {
        let body = &self.loops[n];
        let latches: Vec<usize> = self.predecessors(body.header).filter(|&from| body.contains(from)).collect();
        let (mut once, mut often, mut steps) = (0_u16, 1_u16 << STACK_POINTER, [None; 16]);
        for &block in &body.blocks {
            for op in &code.ops[self.blocks[block].first..=self.blocks[block].last] {
                let clobbers = match (op.effect, op.leaves) {
                    (Effect::Leave, Leaves::Call(_)) => CALL_CLOBBERS,
                    _ => 0,
                };
                often |= op.writes & once | clobbers;
                once |= op.writes;
                let in_each_round = self.blocks[block].innermost == Some(n)
                    && latches.iter().all(|&latch| dominators.dominates(block, latch));
                let by = |register: u8, times: i64, constant: i64| Step { constant, register: Some((register, times)) };
                let step = match op.effect {
                    Effect::Arithmetic { op: Arithmetic::Add, to, from: Value::Immediate(by), wide } => {
                        Some((to, by.into(), wide))
                    }
                    Effect::Arithmetic { op: Arithmetic::Sub, to, from: Value::Immediate(by), wide } => {
                        Some((to, by.wrapping_neg().into(), wide))
                    }
                    Effect::Arithmetic { op: Arithmetic::Add, to, from: Value::Register(from), wide } if from != to => {
                        Some((to, by(from, 1, 0), wide))
                    }
                    Effect::Arithmetic { op: Arithmetic::Sub, to, from: Value::Register(from), wide } if from != to => {
                        Some((to, by(from, -1, 0), wide))
                    }
                    Effect::Address { to, operand, wide } if operand.base == Some(to) && !operand.thread_relative => {
                        match operand.index {
                            None => Some((to, operand.displacement.into(), wide)),
                            Some(index) if index != to => {
                                Some((to, by(index, operand.scale.into(), operand.displacement), wide))
                            }
                            Some(_) => None,
                        }
                    }
                    _ => None,
                };
                if let Some((register, step, wide)) = step.filter(|(_, step, _)| in_each_round && *step != 0.into()) {
                    steps[usize::from(register)] = Some(Counter { place: Place::Register(register), step, wide });
                }
            }
        }
        // What is added must be the same in all rounds.
        let is_fixed =
            |counter: &Counter| counter.step.register.is_none_or(|(register, _)| (once | often) >> register & 1 == 0);
        let steady = (0..16_u8).zip(steps).filter(|(register, _)| (once & !often) >> register & 1 == 1);
        steady.filter_map(|(_, counter)| counter).filter(is_fixed).collect()
    }

    /// Registers that a loop, or what it calls, may write.
    fn writes(&self, code: &Code, n: usize) -> u16 {
        let ops = |block: usize| &code.ops[self.blocks[block].first..=self.blocks[block].last];
        self.loops[n].blocks.iter().flat_map(|&block| ops(block)).fold(0, |mask, op| {
            let calls = op.effect == Effect::Leave && matches!(op.leaves, Leaves::Call(_));
            mask | op.writes | if calls { CALL_CLOBBERS } else { 0 }
        })
    }

    /// What a loop does with its function's frame.
    fn frame(&self, code: &Code, n: usize, dominators: &Dominators) -> FrameUse {
        let body = &self.loops[n];
        let latches: Vec<usize> = self.predecessors(body.header).filter(|&from| body.contains(from)).collect();
        let mut frame = FrameUse::default();
        for &block in &body.blocks {
            let in_each_round = self.blocks[block].innermost == Some(n)
                && latches.iter().all(|&latch| dominators.dominates(block, latch));
            let mut held = Held::default();
            for op in &code.ops[self.blocks[block].first..=self.blocks[block].last] {
                frame.note(op, &held, in_each_round);
                held.step(op);
            }
        }
        frame
    }

    /// Branches out of the loop that compare a counter with what stays the same. Places of bounds are added to `slots`.
    fn tests(&self, code: &Code, n: usize, frame: &FrameUse, slots: &mut Vec<Slot>) -> Vec<Test> {
        let body = &self.loops[n];
        let ops = |block: usize| &code.ops[self.blocks[block].first..=self.blocks[block].last];
        let stays = |value: Value| match value {
            Value::Register(r) => body.writes >> r & 1 == 0,
            Value::Immediate(_) => true,
        };
        let counter =
            |register: u8| body.counters.iter().position(|counter| counter.place == Place::Register(register));
        let mut tests = Vec::new();
        for &block in &body.blocks {
            let leaves =
                self.blocks[block].out.iter().any(|&edge| !self.edges[edge].to.is_some_and(|to| body.contains(to)));
            if !leaves || !matches!(code.ops[self.blocks[block].last].effect, Effect::Branch { .. }) {
                continue;
            }
            let Some(at) = ops(block).iter().rposition(|op| op.writes_flags) else { continue };
            let flags = &ops(block)[at];
            let mut held = Held::default();
            ops(block)[..at].iter().for_each(|op| held.step(op));
            if let Some((moving, bound)) = frame.test(flags, &held, &stays) {
                let counter = match moving {
                    Compared::Slot(slot) => {
                        let number = number_of(slots, slot);
                        body.counters.iter().position(|counter| counter.place == Place::Slot(number))
                    }
                    Compared::Value(Value::Register(register)) => counter(register),
                    Compared::Value(Value::Immediate(_)) => None,
                };
                let bound = match bound {
                    Compared::Slot(slot) => Place::Slot(number_of(slots, slot)),
                    Compared::Value(value) => value.into(),
                };
                tests.extend(counter.map(|counter| Test { counter, bound }));
                continue;
            }
            let test = match flags.effect {
                Effect::Compare { a, b, test: false, .. } if stays(b) => counter(a).map(|counter| (counter, b)),
                Effect::Compare { a, b: Value::Register(b), test: false, .. } if stays(Value::Register(a)) => {
                    counter(b).map(|counter| (counter, Value::Register(a)))
                }
                Effect::Compare { a, b: Value::Register(b), test: true, .. } if a == b => {
                    counter(a).map(|counter| (counter, Value::Immediate(0)))
                }
                Effect::Arithmetic { op: Arithmetic::Add | Arithmetic::Sub, to, .. } | Effect::Address { to, .. } => {
                    counter(to).map(|counter| (counter, Value::Immediate(0)))
                }
                _ => None,
            };
            tests.extend(test.map(|(counter, bound)| Test { counter, bound: bound.into() }));
        }
        tests
    }
}

/// The number of a slot, a new one if need be.
fn number_of(slots: &mut Vec<Slot>, slot: Slot) -> usize {
    slots.iter().position(|known| *known == slot).unwrap_or_else(|| {
        slots.push(slot);
        slots.len() - 1
    })
}

/// Registers that hold what was loaded from the frame in this block, and by how much they have moved on since.
#[derive(Clone, Copy, Debug, Default)]
struct Held([Option<(Slot, i64)>; 16]);

impl Held {
    fn of(&self, register: u8) -> Option<(Slot, i64)> {
        self.0[usize::from(register)]
    }

    fn step(&mut self, op: &Op) {
        let before = *self;
        let clobbers = match (op.effect, op.leaves) {
            (Effect::Leave, Leaves::Call(_)) => CALL_CLOBBERS,
            _ => 0,
        };
        for register in 0..16 {
            if (op.writes | clobbers) >> register & 1 == 1 {
                self.0[register] = None;
            }
        }
        let moved = |register: u8, by: i64| before.of(register).map(|(slot, moved)| (slot, moved.wrapping_add(by)));
        let (to, now) = match (op.slot, op.effect) {
            (Some(SlotUse::Load { to }), _) => (to, op.operands[0].as_ref().and_then(Slot::of).map(|slot| (slot, 0))),
            (_, Effect::Move { to, from: Value::Register(from), .. }) => (to, before.of(from)),
            (_, Effect::Extend { to, from, bits: 32, .. }) => (to, before.of(from)),
            (_, Effect::Arithmetic { op: Arithmetic::Add, to, from: Value::Immediate(by), .. }) => (to, moved(to, by)),
            (_, Effect::Arithmetic { op: Arithmetic::Sub, to, from: Value::Immediate(by), .. }) => {
                (to, moved(to, by.wrapping_neg()))
            }
            (_, Effect::Address { to, operand, .. }) if operand.index.is_none() && !operand.thread_relative => {
                (to, operand.base.and_then(|base| moved(base, operand.displacement)))
            }
            _ => return,
        };
        self.0[usize::from(to)] = now;
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Slot(Slot),
    Value(Value),
}

/// What a loop does with its function's frame.
#[derive(Debug, Default)]
struct FrameUse {
    /// Places that are written: the bytes, and by how much they grow if that is the same each round.
    written: Vec<(Slot, u32, Option<i64>)>,
    /// Registers that are written, but for what calls do to the stack pointer: they come back as they went.
    registers: u16,
}

impl FrameUse {
    fn note(&mut self, op: &Op, held: &Held, in_each_round: bool) {
        let is_call = op.effect == Effect::Leave && matches!(op.leaves, Leaves::Call(_));
        self.registers |= if is_call { op.writes & !(1 << STACK_POINTER) } else { op.writes };
        for operand in op.operands.iter().flatten().filter(|operand| operand.access as i32 & Access::Write as i32 != 0)
        {
            let Some(slot) = Slot::of(operand) else { continue };
            let by = match op.slot {
                Some(SlotUse::Add(by)) => Some(by),
                Some(SlotUse::Store { from }) => held.of(from).filter(|(from, _)| *from == slot).map(|(_, by)| by),
                _ => None,
            };
            self.written.push((slot, operand.bytes, by.filter(|&by| in_each_round && by != 0)));
        }
    }

    /// True if nothing in the loop changes where a slot is.
    fn is_there(&self, slot: Slot) -> bool {
        self.registers >> slot.base & 1 == 0
    }

    /// True if a place is the same in all rounds.
    fn stays(&self, slot: Slot) -> bool {
        self.is_there(slot) && !self.written.iter().any(|(other, bytes, _)| slot.meets(*other, *bytes))
    }

    /// Places that one instruction alone changes, by a constant, once in each round.
    fn counters(&self) -> impl Iterator<Item = (Slot, i64)> {
        let alone =
            |slot: Slot| self.written.iter().filter(|(other, bytes, _)| slot.meets(*other, *bytes)).count() == 1;
        let steps = self.written.iter().filter_map(|&(slot, _, step)| Some((slot, step?)));
        steps.filter(move |&(slot, _)| self.is_there(slot) && alone(slot))
    }

    /// A comparison with the frame in it: what moves on, and what stays.
    fn test(&self, op: &Op, held: &Held, stays: &impl Fn(Value) -> bool) -> Option<(Compared, Compared)> {
        // What a register was loaded with is the place itself, as long as it is as it was.
        let meant = |value: Value| match value {
            Value::Register(register) => {
                held.of(register).map_or(Compared::Value(value), |(slot, _)| Compared::Slot(slot))
            }
            Value::Immediate(_) => Compared::Value(value),
        };
        let place = op.operands[0].as_ref().and_then(Slot::of);
        let (a, b) = match (op.slot, op.effect) {
            (Some(SlotUse::Compare(with)), _) => (Compared::Slot(place?), meant(with)),
            (Some(SlotUse::CompareTo(register)), _) => (meant(Value::Register(register)), Compared::Slot(place?)),
            (_, Effect::Compare { a, b, test: false, .. }) => (meant(Value::Register(a)), meant(b)),
            _ => return None,
        };
        if !matches!(a, Compared::Slot(_)) && !matches!(b, Compared::Slot(_)) {
            return None;
        }
        let is_fixed = |compared: Compared| match compared {
            Compared::Slot(slot) => self.stays(slot),
            Compared::Value(value) => stays(value),
        };
        match (is_fixed(a), is_fixed(b)) {
            (false, true) => Some((a, b)),
            (true, false) => Some((b, a)),
            _ => None,
        }
    }
}

/// Which blocks stand on every way to which.
struct Dominators {
    /// Place of a block in the order of the walk, from 1 on; 0 is the outside.
    number: Vec<usize>,
    /// By number: that of the immediate dominator.
    above: Vec<usize>,
}

impl Dominators {
    fn dominates(&self, block: usize, other: usize) -> bool {
        let (Some(&wanted), Some(&start)) = (self.number.get(block), self.number.get(other)) else { return false };
        if wanted == usize::MAX || start == usize::MAX {
            return false;
        }
        let mut at = start;
        while at > wanted {
            at = self.above[at];
        }
        at == wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(bytes: &[u8]) -> (Code, Graph) {
        let code = Code::decode(bytes, 0x1000, true);
        let graph = Graph::of(&code);
        (code, graph)
    }

    /// xor ecx,ecx; L: add rax,[rdi+rcx*8]; inc rcx; cmp rcx,rsi; jne L; ret
    const SUM: &[u8] = &[0x31, 0xc9, 0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x75, 0xf4, 0xc3];

    #[test]
    fn a_loop_knows_its_counter_and_its_bound() {
        let (_, graph) = graph(SUM);
        assert_eq!(graph.blocks.len(), 3);
        let [only] = graph.loops.as_slice() else { panic!("{:?}", graph.loops) };
        assert_eq!((only.header, only.blocks.as_slice()), (1, &[1][..]));
        assert_eq!(only.counters, [Counter { place: Place::Register(1), step: Step::from(1), wide: true }]);
        assert_eq!(only.tests, [Test { counter: 0, bound: Place::Register(6) }]);
    }

    /// mov qword [rbp-8],0; jmp C; B: mov rax,[rbp-8]; add [rdi+rax*8],rdx; add qword [rbp-8],1; C: mov rax,[rbp-8];
    /// cmp rax,[rbp-16]; jl B; ret
    const UNOPTIMISED: &[u8] = &[
        0x48, 0xc7, 0x45, 0xf8, 0x00, 0x00, 0x00, 0x00, 0xeb, 0x0d, 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x01, 0x14, 0xc7,
        0x48, 0x83, 0x45, 0xf8, 0x01, 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x3b, 0x45, 0xf0, 0x7c, 0xe9, 0xc3,
    ];

    #[test]
    fn a_counter_may_be_on_the_frame() {
        let (_, graph) = graph(UNOPTIMISED);
        let [only] = graph.loops.as_slice() else { panic!("{:?}", graph.loops) };
        let slot = |displacement| Slot { base: 5, displacement, wide: true };
        assert_eq!(graph.slots, [slot(-8), slot(-16)]);
        assert_eq!(only.counters, [Counter { place: Place::Slot(0), step: Step::from(1), wide: true }]);
        assert_eq!(only.tests, [Test { counter: 0, bound: Place::Slot(1) }]);
    }

    #[test]
    fn a_counter_on_the_frame_may_be_changed_in_a_register() {
        // B: cmp dword [rsp+12],999; jge D; movsxd rax,[rsp+12]; mov [rdi+rax*4],ecx; mov eax,[rsp+12]; add eax,2;
        // mov [rsp+12],eax; mov dword [rsp+20],5; jmp B; D: ret
        let bytes = [
            0x81, 0x7c, 0x24, 0x0c, 0xe7, 0x03, 0x00, 0x00, 0x7d, 0x1d, 0x48, 0x63, 0x44, 0x24, 0x0c, 0x89, 0x0c, 0x87,
            0x8b, 0x44, 0x24, 0x0c, 0x83, 0xc0, 0x02, 0x89, 0x44, 0x24, 0x0c, 0xc7, 0x44, 0x24, 0x14, 0x05, 0x00, 0x00,
            0x00, 0xeb, 0xd9, 0xc3,
        ];
        let (_, graph) = graph(&bytes);
        assert_eq!(graph.slots, [Slot { base: 4, displacement: 12, wide: false }]);
        assert_eq!(graph.loops[0].counters, [Counter { place: Place::Slot(0), step: Step::from(2), wide: false }]);
        assert_eq!(graph.loops[0].tests, [Test { counter: 0, bound: Place::Immediate(999) }]);
        // Written in two places, or half of it by another store: no counter.
        let mut twice = bytes;
        twice[32] = 0x0c;
        let mut half = bytes;
        half[32] = 0x0e;
        for bytes in [twice, half] {
            assert_eq!(super::tests::graph(&bytes).1.loops[0].counters, []);
        }
    }

    #[test]
    fn loops_nest() {
        // L1: xor ecx,ecx; L2: add rax,[rdi+rcx*8]; inc rcx; cmp rcx,rsi; jne L2; add rdi,64; dec rdx; jne L1; ret
        let bytes = [
            0x31, 0xc9, 0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x75, 0xf4, 0x48, 0x83, 0xc7, 0x40,
            0x48, 0xff, 0xca, 0x75, 0xe9, 0xc3,
        ];
        let (_, graph) = graph(&bytes);
        let [outer, inner] = graph.loops.as_slice() else { panic!("{:?}", graph.loops) };
        assert_eq!(
            (outer.blocks.as_slice(), inner.blocks.as_slice(), inner.parent),
            (&[0, 1, 2][..], &[1][..], Some(0))
        );
        let counters: Vec<(Place, i64)> = outer.counters.iter().map(|c| (c.place, c.step.constant)).collect();
        // rcx starts anew in each round of the outer loop.
        assert_eq!(counters, [(Place::Register(2), -1), (Place::Register(7), 64)]);
        assert_eq!(outer.tests, [Test { counter: 0, bound: Place::Immediate(0) }]);
        assert_eq!(graph.loops_of(1).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn a_step_may_be_in_a_register() {
        // L: mov [rdi+rcx*8],eax; add rcx,rdx; cmp rcx,rsi; jl L; ret
        let bytes = [0x89, 0x04, 0xcf, 0x48, 0x01, 0xd1, 0x48, 0x39, 0xf1, 0x7c, 0xf5, 0xc3];
        let (_, graph) = graph(&bytes);
        let step = Step { constant: 0, register: Some((2, 1)) };
        assert_eq!(graph.loops[0].counters, [Counter { place: Place::Register(1), step, wide: true }]);
        assert_eq!(graph.loops[0].tests, [Test { counter: 0, bound: Place::Register(6) }]);
        // L: inc rdx; add rcx,rdx; cmp rdx,rsi; jl L; ret: it is not the same each time.
        let bytes = [0x48, 0xff, 0xc2, 0x48, 0x01, 0xd1, 0x48, 0x39, 0xf2, 0x7c, 0xf5, 0xc3];
        let (_, graph) = super::tests::graph(&bytes);
        assert_eq!(graph.loops[0].counters, [Counter { place: Place::Register(2), step: Step::from(1), wide: true }]);
    }

    #[test]
    fn what_is_not_counted_in_each_round_is_no_counter() {
        // L: test al,al; je M; inc rcx; M: dec rdx; jne L; ret
        let (_, graph) = graph(&[0x84, 0xc0, 0x74, 0x03, 0x48, 0xff, 0xc1, 0x48, 0xff, 0xca, 0x75, 0xf4, 0xc3]);
        assert_eq!(graph.loops[0].counters, [Counter { place: Place::Register(2), step: Step::from(-1), wide: true }]);
    }

    #[test]
    fn a_call_in_the_loop_spoils_what_it_may_change() {
        // L: call +0; inc rcx; inc rbx; cmp rbx,rbp; jne L; ret
        let bytes = [0xe8, 0, 0, 0, 0, 0x48, 0xff, 0xc1, 0x48, 0xff, 0xc3, 0x48, 0x39, 0xeb, 0x75, 0xf0, 0xc3];
        let (_, graph) = graph(&bytes);
        assert_eq!(graph.loops[0].counters, [Counter { place: Place::Register(3), step: Step::from(1), wide: true }]);
        assert_eq!(graph.loops[0].tests, [Test { counter: 0, bound: Place::Register(5) }]);
    }

    #[test]
    fn the_cases_of_a_switch_belong_to_the_loop_round_it() {
        // L: jmp rax; a: inc rcx; jmp L; b: dec rdx; jne L; ret
        let (_, graph) = graph(&[0xff, 0xe0, 0x48, 0xff, 0xc1, 0xeb, 0xf9, 0x48, 0xff, 0xca, 0x75, 0xf4, 0xc3]);
        assert_eq!(graph.loops.len(), 1);
        assert_eq!(graph.loops[0].blocks, [0, 1, 2]);
    }
}
