//! Where the pointer goes that a call returns: the few instructions behind the call, followed without running them.
//!
//! ```text
//!   call malloc@plt
//!   mov  rbx, rax          <- seen in rax, in rbx
//!   test rax, rax ; je ..     both ways are followed
//!   mov  [rbp-24], rbx     <- seen in the frame: debug information knows whose place that is
//!   ret                    <- not returned: rax was written over
//! ```
//!
//! Values are a base and an offset, or unknown: nothing is guessed.

use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};
use iced_x86::{Register, UsedRegister};
use numamma_symbols::Module;
use rustc_hash::{FxHashMap, FxHashSet};

/// Instructions that are followed on one way through the code.
const MOST_STEPS: usize = 256;
/// Ways that are followed.
const MOST_WAYS: usize = 32;
/// Instructions of a function that is looked through for loops; a longer one does more than allocate.
const LONGEST: usize = 1024;
/// Bytes of code in front of a call that are read for what the frame holds there.
const LONGEST_FRONT: u64 = 4096;
/// The farthest from the allocation's start that a pointer is still its own: a header, the count of a C++ array.
const HEADER: i64 = 64;
/// The count in front of a C++ array whose elements need to be destroyed, for elements of every alignment.
pub const COUNT: std::ops::RangeInclusive<i64> = 8..=16;

const RAX: usize = 0;
const RSP: usize = 4;
const RBP: usize = 5;
/// rdi, which holds the first argument.
pub const RDI: usize = 7;
/// Registers of the first arguments: rdi, rsi, rdx, rcx, r8, r9.
const ARGUMENTS: [usize; 6] = [RDI, 6, 2, 1, 8, 9];
/// Registers that a call leaves alone: rbx, rsp, rbp, r12 to r15.
const PRESERVED: u16 = 0b1111_0000_0011_1000;

/// What a value counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The allocation.
    Result,
    /// The frame's canonical address.
    Frame,
    /// What a register held where following began.
    Register(u8),
    /// The module's own addresses.
    Image,
    /// A pointer that was read from the frame.
    AtFrame(i64),
    /// A pointer that was read from so far behind what a register held.
    AtRegister(u8, i64),
    /// A pointer that was read from the module's data.
    AtImage(i64),
}

/// A base and what is added to it.
pub type Value = (Base, i64);

/// All general registers, in the processor's numbering.
pub type Registers = [Option<Value>; 16];

/// A place that held the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Register(u8),
    Memory(Value),
}

/// The pointer was somewhere.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The next instruction.
    pub pc: u64,
    pub place: Place,
    /// How far behind the allocation's start it pointed.
    pub ahead: i64,
    /// By which the place of a variable in memory is found. Many sightings share them: they are far larger than all else here.
    pub registers: Rc<Registers>,
}

/// What became of the pointer.
#[derive(Debug, Default)]
pub struct Flow {
    /// In the order of the code.
    pub sightings: Vec<Sighting>,
    /// The function may return it.
    pub returned: bool,
    /// The function stores it where a pointer of its caller's points.
    pub handed_out: bool,
    /// Another function gets it.
    pub passed_on: bool,
    /// Instructions that store to the allocation itself.
    pub filled: Vec<u64>,
    /// The registers as they were sighted last.
    latest: Rc<Registers>,
}

/// The registers right before a call, as far as its basic block tells, and the name of what it calls.
pub struct Call {
    /// The call instruction.
    pub pc: u64,
    pub registers: Registers,
    /// The same, by the code since the last branch: calls between come back, and leave some registers alone.
    pub earlier: Registers,
    /// What the frame holds then, as far as the call does not change what it means.
    pub frame: Vec<(Value, Value)>,
    /// First instruction of the callee, if it is called directly.
    pub target: Option<u64>,
    /// Its name.
    pub callee: Option<String>,
}

impl Call {
    /// The first argument.
    pub fn argument(&self) -> Option<Value> {
        self.registers[RDI]
    }

    /// The second argument.
    pub fn second_argument(&self) -> Option<Value> {
        self.registers[ARGUMENTS[1]]
    }

    /// Where a place so many bytes behind an argument is, in terms of what holds behind the call too: by each way to say so.
    pub fn behind_argument(&self, number: u8, bytes: i64) -> Vec<Value> {
        let Some(&argument) = ARGUMENTS.get(usize::from(number)) else { return Vec::new() };
        let behind = |registers: &Registers| {
            let (base, offset) = registers[argument]?;
            let offset = offset.checked_add(bytes)?;
            match base {
                // What a register held in front: one that the call leaves alone has it still.
                Base::Register(_) => (0..).zip(registers).find_map(|(n, value)| {
                    let (_, from) = value.filter(|(of, _)| *of == base && PRESERVED & 1 << n != 0)?;
                    Some((Base::Register(n), offset.checked_sub(from)?))
                }),
                Base::AtRegister(..) => None,
                _ => Some((base, offset)),
            }
        };
        let mut found: Vec<Value> = [&self.registers, &self.earlier].into_iter().filter_map(behind).collect();
        found.dedup();
        found
    }
}

/// The machine as far as it is known.
#[derive(Clone)]
struct State {
    registers: Registers,
    memory: Vec<(Value, Value)>,
}

/// The code of one function.
struct Function<'m> {
    start: u64,
    code: &'m [u8],
}

impl<'m> Function<'m> {
    fn around(module: &'m Module, address: u64) -> Option<Self> {
        let bounds = module.function_bounds(address)?;
        let code = module.text_at(bounds.start, usize::try_from(bounds.end.checked_sub(bounds.start)?).ok()?)?;
        Some(Self { start: bounds.start, code })
    }

    fn decode(&self, pc: u64) -> Option<Instruction> {
        let bytes = self.code.get(usize::try_from(pc.checked_sub(self.start)?).ok()?..)?;
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let instruction = decoder.can_decode().then(|| decoder.decode())?;
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn holds(&self, pc: u64) -> bool {
        pc >= self.start && pc - self.start < self.code.len() as u64
    }
}

/// True if the function around an address, or the `parts` of it, has a loop: it may do more than allocate. Compilers put
/// what is rarely done behind the rest and jump back from there, so a jump backward alone is none.
pub fn has_loop(module: &Module, address: u64, parts: &[(u64, u64)]) -> bool {
    let Some(function) = Function::around(module, address) else { return true };
    let inside = |pc: u64| {
        function.holds(pc) && (parts.is_empty() || parts.iter().any(|&(low, high)| (low..high).contains(&pc)))
    };
    let mut starts: Vec<u64> = parts.iter().map(|&(low, _)| low).filter(|&low| function.holds(low)).collect();
    if starts.is_empty() {
        starts.push(function.start);
    }
    // Depth first; an instruction is done when all that can follow it is.
    let mut is_done: FxHashMap<u64, bool> = FxHashMap::default();
    for start in starts {
        let mut open = vec![(start, false)];
        while let Some((pc, back)) = open.pop() {
            if back {
                is_done.insert(pc, true);
                continue;
            }
            match is_done.get(&pc) {
                Some(true) => continue,
                Some(false) => return true,
                None if is_done.len() > LONGEST => return true,
                None => {}
            }
            is_done.insert(pc, false);
            open.push((pc, true));
            let Some(i) = function.decode(pc) else { continue };
            let next = match i.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => [Some(i.next_ip()), None],
                FlowControl::ConditionalBranch => [Some(i.next_ip()), Some(i.near_branch_target())],
                FlowControl::UnconditionalBranch => [Some(i.near_branch_target()), None],
                _ => [None, None],
            };
            open.extend(next.into_iter().flatten().filter(|&pc| inside(pc)).map(|pc| (pc, false)));
        }
    }
    false
}

/// Follows the pointer from the return address of the call that returned it. With `out`, the call stored it there instead: each
/// says the same place.
pub fn follow(module: &Module, back: u64, out: Option<&[Value]>) -> Flow {
    let mut flow = Flow::default();
    let Some(function) = Function::around(module, back.wrapping_sub(1)) else { return flow };
    let mut state = State::at(module, back);
    // Copies of parameters that compilers keep in the frame.
    if back - function.start < LONGEST_FRONT {
        state.memory = before_call(module, back).map(|call| call.frame).unwrap_or_default();
    }
    match out {
        None => state.registers[RAX] = Some((Base::Result, 0)),
        Some(addresses) => {
            state.registers[RAX] = None;
            for &address in addresses {
                state.memory.push((address, (Base::Result, 0)));
                flow.sight(back, Place::Memory(address), 0, &state.registers);
            }
        }
    }
    let mut factory = InstructionInfoFactory::new();
    let mut ways = vec![(back, state)];
    let mut begun = FxHashSet::default();
    while let Some((from, state)) = ways.pop() {
        if begun.len() < MOST_WAYS && begun.insert(from) {
            let branch = |to: u64, state: &State| {
                // One that would not be begun is not worth its registers.
                if begun.len() < MOST_WAYS && !begun.contains(&to) {
                    ways.push((to, state.clone()));
                }
            };
            walk(module, &function, from, state, &mut factory, branch, &mut flow);
        }
    }
    flow
}

/// Follows one way; `branch` is told of others.
fn walk(
    module: &Module,
    function: &Function<'_>,
    from: u64,
    mut state: State,
    factory: &mut InstructionInfoFactory,
    mut branch: impl FnMut(u64, &State),
    flow: &mut Flow,
) {
    let mut pc = from;
    let mut seen = FxHashSet::default();
    for _ in 0..MOST_STEPS {
        flow.look(pc, &state);
        let Some(i) = function.decode(pc).filter(|_| seen.insert(pc)) else { return };
        match i.flow_control() {
            FlowControl::Next => {
                if let Some((address, value)) = state.step(&i, factory) {
                    flow.stored(pc, address, value);
                }
            }
            FlowControl::ConditionalBranch if i.is_jcc_short_or_near() => {
                if function.holds(i.near_branch_target()) {
                    branch(i.near_branch_target(), &state);
                }
            }
            FlowControl::UnconditionalBranch if function.holds(i.near_branch_target()) => {
                pc = i.near_branch_target();
                continue;
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                flow.passed_on |= ARGUMENTS.iter().any(|&n| is_result(state.registers[n]));
                let same = i.flow_control() == FlowControl::Call
                    && is_result(state.registers[RDI])
                    && module.function_name(i.near_branch_target()).is_some_and(|name| returns_argument(&name));
                let argument = state.registers[RDI].filter(|_| same);
                state.call();
                state.registers[RAX] = argument;
            }
            FlowControl::Return => {
                flow.returned |= is_result(state.registers[RAX]);
                return;
            }
            _ => return,
        }
        pc = i.next_ip();
    }
}

/// The registers before the call that returns to `back`.
pub fn before_call(module: &Module, back: u64) -> Option<Call> {
    let function = Function::around(module, back.checked_sub(1)?)?;
    let mut instructions: Vec<Instruction> = Vec::new();
    let (mut leaders, mut branched) = (FxHashSet::default(), FxHashSet::default());
    let mut pc = function.start;
    while pc < back {
        let i = function.decode(pc)?;
        if i.flow_control() != FlowControl::Next {
            leaders.insert(i.next_ip());
            leaders.insert(i.near_branch_target());
            if !matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
                branched.insert(i.next_ip());
                branched.insert(i.near_branch_target());
            }
        }
        pc = i.next_ip();
        instructions.push(i);
    }
    let call = *instructions.last().filter(|i| i.next_ip() == back)?;
    let since = |leaders: &FxHashSet<u64>| {
        let first = instructions.iter().rposition(|i| leaders.contains(&i.ip())).unwrap_or(0);
        let mut state = State::at(module, instructions[first].ip());
        let mut factory = InstructionInfoFactory::new();
        for i in &instructions[first..instructions.len() - 1] {
            state.step(i, &mut factory);
        }
        state
    };
    let (registers, State { registers: earlier, memory: mut frame }) = (since(&leaders).registers, since(&branched));
    let stays = |base: Base| matches!(base, Base::Frame | Base::Image | Base::AtFrame(_));
    frame.retain(|(address, value)| address.0 == Base::Frame && stays(value.0));
    let target = (call.flow_control() == FlowControl::Call).then(|| call.near_branch_target());
    let callee = target.and_then(|target| module.function_name(target));
    Some(Call { pc: call.ip(), registers, earlier, frame, target, callee })
}

fn is_result(value: Option<Value>) -> bool {
    matches!(value, Some((Base::Result, 0..=HEADER)))
}

/// True if a function of the C library returns its first argument, as compilers know.
fn returns_argument(name: &str) -> bool {
    let name = name.trim_end_matches("@plt").trim_start_matches("__").trim_end_matches("_chk");
    matches!(name, "memset" | "memcpy" | "memmove" | "strcpy" | "strncpy" | "strcat")
}

impl Flow {
    /// Notes where the pointer is; in memory too, since a variable may be said to be there only later.
    fn look(&mut self, pc: u64, state: &State) {
        let registers = (0..).zip(&state.registers).map(|(n, value)| (Place::Register(n), *value));
        let memory = state.memory.iter().map(|(address, value)| (Place::Memory(*address), Some(*value)));
        for (place, value) in registers.chain(memory) {
            if let Some((Base::Result, ahead @ 0..=HEADER)) = value {
                self.sight(pc, place, ahead, &state.registers);
            }
        }
    }

    fn sight(&mut self, pc: u64, place: Place, ahead: i64, registers: &Registers) {
        // Where a register holds the pointer itself, nobody asks for the others.
        if matches!(place, Place::Memory(_)) && *self.latest != *registers {
            self.latest = Rc::new(*registers);
        }
        self.sightings.push(Sighting { pc, place, ahead, registers: Rc::clone(&self.latest) });
    }

    fn stored(&mut self, pc: u64, address: Value, value: Option<Value>) {
        if address.0 == Base::Result {
            self.filled.push(pc);
        } else if is_result(value) {
            self.handed_out |= !matches!(address.0, Base::Frame | Base::Image);
        }
    }
}

impl State {
    /// At an instruction: what registers hold is not known, but where the frame is.
    fn at(module: &Module, pc: u64) -> Self {
        let mut registers: Registers = std::array::from_fn(|n| Some((Base::Register(n as u8), 0)));
        if let Some(rule) = module.frame_rule(pc)
            && let Some(register) = general(rule.register)
        {
            registers[usize::from(register)] = Some((Base::Frame, rule.offset.wrapping_neg()));
        }
        Self { registers, memory: Vec::new() }
    }

    /// What an address operand comes to.
    fn address(&self, i: &Instruction) -> Option<Value> {
        if i.is_ip_rel_memory_operand() {
            return Some((Base::Image, i.ip_rel_memory_address() as i64));
        }
        if i.memory_index() != Register::None || matches!(i.segment_prefix(), Register::FS | Register::GS) {
            return None;
        }
        let displacement = i.memory_displacement64() as i64;
        match i.memory_base() {
            Register::None => Some((Base::Image, displacement)),
            base if base.is_gpr64() => {
                let (of, offset) = self.registers[base.number()]?;
                Some((of, offset.checked_add(displacement)?))
            }
            _ => None,
        }
    }

    fn load(&self, address: Value) -> Option<Value> {
        // A register of before is no more than what the frame holds now, and variables are in frames.
        let is_older = |value: &Value| matches!((address.0, value.0), (Base::Frame, Base::Register(_)));
        if let Some((_, value)) = self.memory.iter().find(|(at, value)| *at == address && !is_older(value)) {
            return Some(*value);
        }
        match address {
            (Base::Frame, offset) => Some((Base::AtFrame(offset), 0)),
            (Base::Register(n), offset) => Some((Base::AtRegister(n, offset), 0)),
            (Base::Image, offset) => Some((Base::AtImage(offset), 0)),
            _ => None,
        }
    }

    fn store(&mut self, address: Value, value: Option<Value>) {
        self.memory.retain(|((base, at), _)| *base != address.0 || at.abs_diff(address.1) >= 8);
        if let (Base::Frame, Some((base, from))) = (address.0, value) {
            // What lies behind a pointer lies behind the variable that holds it now.
            let held_behind =
                |((of, at), held): &(Value, Value)| Some((at.checked_sub(from).filter(|_| *of == base)?, *held));
            let also: Vec<(i64, Value)> = self.memory.iter().filter_map(held_behind).collect();
            self.memory.extend(also.into_iter().map(|(at, held)| ((Base::AtFrame(address.1), at), held)));
        }
        self.memory.extend(value.map(|value| (address, value)));
    }

    fn call(&mut self) {
        for (n, value) in self.registers.iter_mut().enumerate() {
            if PRESERVED & 1 << n == 0 {
                *value = None;
            }
        }
        // The callee has its own ideas about everything but our frame.
        self.memory.retain(|((base, _), _)| *base == Base::Frame);
    }

    /// Takes one instruction that is no branch; returns the address and value of what it stores.
    fn step(&mut self, i: &Instruction, factory: &mut InstructionInfoFactory) -> Option<(Value, Option<Value>)> {
        if i.flow_control() != FlowControl::Next {
            if matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
                self.call();
            }
            return None;
        }
        let wide = |n: u32| i.op_kind(n) == OpKind::Register && i.op_register(n).is_gpr64();
        let number = |n: u32| i.op_register(n).number();
        let shifted = |value: Option<Value>, by: i64| {
            let (base, offset) = value?;
            Some((base, offset.checked_add(by)?))
        };
        match i.mnemonic() {
            Mnemonic::Mov if wide(0) && wide(1) => self.registers[number(0)] = self.registers[number(1)],
            Mnemonic::Mov if wide(0) && i.op1_kind() == OpKind::Memory => {
                self.registers[number(0)] = self.address(i).and_then(|address| self.load(address));
            }
            // The address of a static variable in a program that is not position independent: `mov edi, offset`.
            Mnemonic::Mov
                if i.op0_kind() == OpKind::Register
                    && i.op0_register().is_gpr()
                    && i.op1_kind() != OpKind::Memory
                    && i.try_immediate(1).is_ok_and(|value| value != 0) =>
            {
                let full = i.op0_register().full_register();
                let value = i.try_immediate(1).ok().map(|value| (Base::Image, value as i64));
                self.registers[full.number()] = value.filter(|_| i.op0_register().size() >= 4);
            }
            Mnemonic::Mov if i.op0_kind() == OpKind::Memory && wide(1) => {
                let (address, value) = (self.address(i)?, self.registers[number(1)]);
                self.store(address, value);
                return Some((address, value));
            }
            Mnemonic::Lea if wide(0) => self.registers[number(0)] = self.address(i),
            Mnemonic::Add | Mnemonic::Sub if wide(0) && i.try_immediate(1).is_ok() => {
                let by = i.try_immediate(1).map_or(0, |value| value as i64);
                let by = if i.mnemonic() == Mnemonic::Add { by } else { -by };
                self.registers[number(0)] = shifted(self.registers[number(0)], by);
            }
            Mnemonic::Push => {
                let value = wide(0).then(|| self.registers[number(0)]).flatten();
                self.registers[RSP] = shifted(self.registers[RSP], -8);
                if let Some(address) = self.registers[RSP] {
                    self.store(address, value);
                }
            }
            Mnemonic::Pop if wide(0) => {
                let value = self.registers[RSP].and_then(|address| self.load(address));
                self.registers[RSP] = shifted(self.registers[RSP], 8);
                self.registers[number(0)] = value;
            }
            Mnemonic::Leave => {
                self.registers[RSP] = shifted(self.registers[RBP], 8);
                self.registers[RBP] = None;
            }
            _ => return self.other(i, factory),
        }
        None
    }

    /// An instruction of which nothing but what it writes matters.
    fn other(&mut self, i: &Instruction, factory: &mut InstructionInfoFactory) -> Option<(Value, Option<Value>)> {
        let writes = |access| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
        };
        let info = factory.info(i);
        let stores = info.used_memory().iter().any(|memory| writes(memory.access()));
        let written = |used: &&UsedRegister| writes(used.access());
        let full = |used: &UsedRegister| used.register().full_register();
        let changed: Vec<usize> = info
            .used_registers()
            .iter()
            .filter(written)
            .map(full)
            .filter(|register| register.is_gpr64())
            .map(Register::number)
            .collect();
        let address = stores.then(|| self.address(i)).flatten();
        for n in changed {
            self.registers[n] = None;
        }
        let address = address?;
        self.store(address, None);
        Some((address, None))
    }
}

/// The processor's number of a register that DWARF numbers otherwise.
pub fn general(dwarf: u16) -> Option<u8> {
    const NUMBERS: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
    NUMBERS.get(usize::from(dwarf)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code that never runs, and data between functions, may compute with any number.
    #[test]
    fn addresses_at_the_ends_are_no_fault() {
        let mut state = State { registers: [None; 16], memory: Vec::new() };
        for (base, offset) in
            [(Base::Image, i64::MAX), (Base::Image, i64::MIN), (Base::Frame, i64::MIN), (Base::Frame, 8)]
        {
            state.store((base, offset), Some((Base::Image, i64::MAX)));
            state.store((base, offset), Some((Base::Image, i64::MIN)));
        }
        assert_eq!(state.load((Base::Frame, 8)), Some((Base::Image, i64::MIN)));
    }
}
