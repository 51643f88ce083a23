//! Places on a function's frame: where unoptimised code, and code that is short of registers, keeps its counters. A sample brings the
//! bytes above the stack pointer, so their values are known as those of registers are.

use iced_x86::{Instruction, MemorySize, Mnemonic, OpKind, Register};
use numamma_trace::Access;

use super::lift::{Op, Operand, STACK_POINTER, Value};
use super::machine::Machine;

/// rbp in the processor's numbering.
const FRAME_POINTER: u8 = 5;

/// A place: `base + displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The frame pointer or the stack pointer.
    pub base: u8,
    pub displacement: i64,
    /// Eight bytes; else four.
    pub wide: bool,
}

/// What an instruction does with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotUse {
    Load {
        to: u8,
    },
    Store {
        from: u8,
    },
    /// Adds a constant to it.
    Add(i64),
    /// Sets the flags as for subtracting that from it.
    Compare(Value),
    /// Sets the flags as for subtracting it from that register.
    CompareTo(u8),
    /// Anything else that writes it.
    Write,
}

impl Slot {
    /// The place that an operand is at.
    pub fn of(operand: &Operand) -> Option<Self> {
        let base = operand.base.filter(|base| [FRAME_POINTER, STACK_POINTER].contains(base))?;
        let plain = operand.index.is_none() && !operand.thread_relative && !operand.gather && !operand.implicit_stack;
        plain.then_some(Self { base, displacement: operand.displacement, wide: operand.bytes == 8 })
    }

    fn bytes(self) -> i64 {
        if self.wide { 8 } else { 4 }
    }

    /// True if a write of `bytes` to another place changes this one.
    pub fn meets(self, other: Slot, bytes: u32) -> bool {
        self.base == other.base
            && self.displacement < other.displacement + i64::from(bytes)
            && other.displacement < self.displacement + self.bytes()
    }

    fn address(self, machine: &Machine) -> Option<u64> {
        Some(machine.register(self.base)?.wrapping_add(self.displacement as u64))
    }

    /// What it held at a sample, whose `stack` are the bytes from the stack pointer on.
    pub fn value(self, machine: &Machine, stack: &[u8]) -> Option<u64> {
        let above = self.address(machine)?.wrapping_sub(machine.register(STACK_POINTER)?);
        value_of(stack, above, self.bytes() as u32)
    }
}

/// What the frame holds while the instructions around a sample are executed, or undone, from what it held at the sample.
pub struct Frame<'a> {
    /// Its stack pointer, and the bytes from there on.
    pointer: Option<u64>,
    stack: &'a [u8],
    written: Vec<Written>,
}

/// What was written since, at an address; no value: it is not known. The latest stands last.
struct Written {
    address: u64,
    bytes: u32,
    value: Option<u64>,
}

impl<'a> Frame<'a> {
    /// At a sample, whose `stack` are the bytes from the stack pointer on.
    pub fn new(sample: &Machine, stack: &'a [u8]) -> Self {
        Self { pointer: sample.register(STACK_POINTER), stack, written: Vec::new() }
    }

    fn value(&self, address: u64, bytes: u32) -> Option<u64> {
        let end = |address: u64, bytes: u32| address.saturating_add(bytes.into());
        let meets = |of: &&Written| address < end(of.address, of.bytes) && of.address < end(address, bytes);
        match self.written.iter().rev().find(meets) {
            Some(of) if (of.address, of.bytes) == (address, bytes) => of.value,
            Some(_) => None,
            None => value_of(self.stack, address.wrapping_sub(self.pointer?), bytes),
        }
    }

    /// Executes an instruction: the registers, and what it stores in the frame and loads from there.
    pub fn step(&mut self, op: &Op, machine: &mut Machine) {
        let mut loaded = None;
        match place(op, machine) {
            Some((address, bytes, used)) => {
                let value = match used {
                    SlotUse::Load { to } => {
                        // Sign extension is not known.
                        let value = self.value(address, bytes).filter(|value| bytes == 8 || *value <= i32::MAX as u64);
                        loaded = value.map(|value| (to, value));
                        None
                    }
                    SlotUse::Store { from } => Some(machine.register(from)),
                    SlotUse::Add(by) => Some(self.value(address, bytes).map(|value| value.wrapping_add(by as u64))),
                    SlotUse::Write => Some(None),
                    SlotUse::Compare(_) | SlotUse::CompareTo(_) => None,
                };
                value.into_iter().for_each(|value| self.set(address, bytes, value));
            }
            None => self.forget(op, machine),
        }
        machine.step(op);
        loaded.into_iter().for_each(|(to, value)| machine.learn(to, value));
    }

    /// Goes back to the state before an instruction.
    pub fn unstep(&mut self, op: &Op, machine: &mut Machine) {
        machine.unstep(op);
        match place(op, machine) {
            Some((address, bytes, SlotUse::Add(by))) => {
                let value = self.value(address, bytes).map(|value| value.wrapping_sub(by as u64));
                self.set(address, bytes, value);
            }
            Some((address, bytes, SlotUse::Store { .. } | SlotUse::Write)) => self.set(address, bytes, None),
            Some((.., SlotUse::Load { .. } | SlotUse::Compare(_) | SlotUse::CompareTo(_))) => {}
            None => self.forget(op, machine),
        }
    }

    fn set(&mut self, address: u64, bytes: u32, value: Option<u64>) {
        let value = value.map(|value| if bytes == 8 { value } else { value & 0xffff_ffff });
        self.written.push(Written { address, bytes, value });
    }

    /// What is written in another way holds nothing that is known.
    fn forget(&mut self, op: &Op, machine: &Machine) {
        let writes = |operand: &&Operand| operand.access as i32 & Access::Write as i32 != 0;
        for operand in op.operands.iter().flatten().filter(writes) {
            if let Some(address) = machine.address(operand) {
                self.set(address, operand.bytes, None);
            }
        }
    }
}

/// The address and the bytes of the place that an instruction uses, and how it does.
fn place(op: &Op, machine: &Machine) -> Option<(u64, u32, SlotUse)> {
    let slot = Slot::of(op.operands[0].as_ref()?)?;
    Some((slot.address(machine)?, slot.bytes() as u32, op.slot?))
}

/// An integer of four or eight bytes among those of a stack.
fn value_of(stack: &[u8], at: u64, bytes: u32) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = stack.get(at..at.checked_add(bytes as usize)?)?;
    Some(match bytes.len() {
        8 => u64::from_le_bytes(bytes.try_into().ok()?),
        4 => u32::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}

/// What an instruction does with the frame, if that is all that it does with memory.
pub fn slot_use(i: &Instruction) -> Option<SlotUse> {
    use Mnemonic as M;
    let whole =
        matches!(i.memory_size(), MemorySize::UInt32 | MemorySize::Int32 | MemorySize::UInt64 | MemorySize::Int64);
    let register = |n: u32| {
        let r = i.op_register(n);
        (i.op_kind(n) == OpKind::Register && (r.is_gpr64() || r.is_gpr32())).then(|| r.number() as u8)
    };
    let immediate = |n: u32| i.try_immediate(n).ok().map(|v| v as i64);
    if !whole || !matches!(i.memory_base(), Register::RBP | Register::RSP) || i.op_count() == 0 {
        return None;
    }
    let first = i.op_kind(0) == OpKind::Memory;
    let second = i.op_count() == 2 && i.op_kind(1) == OpKind::Memory;
    match i.mnemonic() {
        M::Mov if first => Some(register(1).map_or(SlotUse::Write, |from| SlotUse::Store { from })),
        M::Mov | M::Movsxd if second => register(0).map(|to| SlotUse::Load { to }),
        M::Add if first => Some(immediate(1).map_or(SlotUse::Write, SlotUse::Add)),
        M::Sub if first => Some(immediate(1).map_or(SlotUse::Write, |by| SlotUse::Add(by.wrapping_neg()))),
        M::Inc if first => Some(SlotUse::Add(1)),
        M::Dec if first => Some(SlotUse::Add(-1)),
        M::Cmp if first => {
            let with = register(1).map(Value::Register).or_else(|| immediate(1).map(Value::Immediate));
            with.map(SlotUse::Compare)
        }
        M::Cmp if second => register(0).map(SlotUse::CompareTo),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::lift::Code;

    #[test]
    fn a_place_is_read_from_the_bytes_of_the_stack() {
        let mut general = [0; 16];
        (general[4], general[5]) = (0x7000, 0x7020);
        let machine = Machine::new(general, 0, 0, None);
        let stack: Vec<u8> = (0..48).collect();
        let slot = |base, displacement, wide| Slot { base, displacement, wide };
        assert_eq!(slot(5, -0x18, true).value(&machine, &stack), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(slot(4, 4, false).value(&machine, &stack), Some(0x0706_0504));
        // Below the stack pointer, and beyond what there is.
        assert_eq!(slot(5, -0x28, true).value(&machine, &stack), None);
        assert_eq!(slot(4, 41, true).value(&machine, &stack), None);
        assert!(slot(5, -8, true).meets(slot(5, -4, false), 4) && !slot(5, -8, true).meets(slot(5, -12, false), 4));
    }

    #[test]
    fn what_instructions_do_with_places() {
        // add qword [rbp-8],1; mov rax,[rbp-8]; mov [rsp+16],ecx; cmp dword [rbp-4],99; cmp rax,[rbp-16]; mov byte [rbp-1],0;
        // mov qword [rbp-8],0; mov rax,[rbx+8]; add [rbp-8],rax; inc dword [rsp]
        let bytes = [
            0x48, 0x83, 0x45, 0xf8, 0x01, 0x48, 0x8b, 0x45, 0xf8, 0x89, 0x4c, 0x24, 0x10, 0x83, 0x7d, 0xfc, 0x63, 0x48,
            0x3b, 0x45, 0xf0, 0xc6, 0x45, 0xff, 0x00, 0x48, 0xc7, 0x45, 0xf8, 0, 0, 0, 0, 0x48, 0x8b, 0x43, 0x08, 0x48,
            0x01, 0x45, 0xf8, 0xff, 0x04, 0x24,
        ];
        let code = Code::decode(&bytes, 0x1000, true);
        let uses: Vec<Option<SlotUse>> = code.ops.iter().map(|op| op.slot).collect();
        assert_eq!(
            uses,
            [
                Some(SlotUse::Add(1)),
                Some(SlotUse::Load { to: 0 }),
                Some(SlotUse::Store { from: 1 }),
                Some(SlotUse::Compare(Value::Immediate(99))),
                Some(SlotUse::CompareTo(0)),
                None,
                Some(SlotUse::Write),
                None,
                Some(SlotUse::Write),
                Some(SlotUse::Add(1)),
            ]
        );
    }
}
