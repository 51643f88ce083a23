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

    /// Whether a write of `bytes` to another place changes this one.
    pub fn meets(self, other: Slot, bytes: u32) -> bool {
        self.base == other.base
            && self.displacement < other.displacement + i64::from(bytes)
            && other.displacement < self.displacement + self.bytes()
    }

    /// What it held at a sample, whose `stack` are the bytes from the stack pointer on.
    pub fn value(self, machine: &Machine, stack: &[u8]) -> Option<u64> {
        let address = machine.register(self.base)?.wrapping_add(self.displacement as u64);
        let at = usize::try_from(address.wrapping_sub(machine.register(STACK_POINTER)?)).ok()?;
        let bytes = stack.get(at..at.checked_add(self.bytes() as usize)?)?;
        Some(match self.wide {
            true => u64::from_le_bytes(bytes.try_into().ok()?),
            false => u32::from_le_bytes(bytes.try_into().ok()?).into(),
        })
    }
}

/// What places hold while the instructions around a sample are executed, or undone, from what they held at the sample.
pub struct Frame<'a> {
    sample: &'a Machine,
    stack: &'a [u8],
    /// Places that were written since, with as many bytes, and what they hold, the latest last.
    written: Vec<(Slot, u32, Option<u64>)>,
}

impl<'a> Frame<'a> {
    /// At the sample, whose `stack` are the bytes from the stack pointer on.
    pub fn new(sample: &'a Machine, stack: &'a [u8]) -> Self {
        Self { sample, stack, written: Vec::new() }
    }

    fn value(&self, slot: Slot) -> Option<u64> {
        match self.written.iter().rev().find(|(of, bytes, _)| slot.meets(*of, *bytes)) {
            Some((of, _, value)) if *of == slot => *value,
            Some(_) => None,
            None => slot.value(self.sample, self.stack),
        }
    }

    /// Executes what `op` does with a place, and loads from one. Not the rest of what it does.
    pub fn step(&mut self, op: &Op, machine: &mut Machine) {
        let Some((slot, used)) = place(op) else { return self.forget(op) };
        let value = match used {
            SlotUse::Load { to } => {
                // Whether its sign is extended is not said.
                let value = self.value(slot).filter(|value| slot.wide || *value <= i32::MAX as u64);
                return value.into_iter().for_each(|value| machine.learn(to, value));
            }
            SlotUse::Store { from } => machine.register(from),
            SlotUse::Add(by) => self.value(slot).map(|value| value.wrapping_add(by as u64)),
            SlotUse::Write => None,
            SlotUse::Compare(_) | SlotUse::CompareTo(_) => return,
        };
        self.set(slot, value);
    }

    /// Goes back to what places held before `op`.
    pub fn unstep(&mut self, op: &Op) {
        let Some((slot, used)) = place(op) else { return self.forget(op) };
        match used {
            SlotUse::Add(by) => self.set(slot, self.value(slot).map(|value| value.wrapping_sub(by as u64))),
            SlotUse::Store { .. } | SlotUse::Write => self.set(slot, None),
            SlotUse::Load { .. } | SlotUse::Compare(_) | SlotUse::CompareTo(_) => {}
        }
    }

    fn set(&mut self, slot: Slot, value: Option<u64>) {
        let value = value.map(|value| if slot.wide { value } else { value & 0xffff_ffff });
        self.written.push((slot, slot.bytes() as u32, value));
    }

    /// What is written in another way holds nothing that is known.
    fn forget(&mut self, op: &Op) {
        let writes = op.operands.iter().flatten().filter(|operand| operand.access == Access::Write);
        self.written.extend(writes.filter_map(|operand| Some((Slot::of(operand)?, operand.bytes, None))));
    }
}

/// The place that an instruction uses, and how.
fn place(op: &Op) -> Option<(Slot, SlotUse)> {
    Some((Slot::of(op.operands[0].as_ref()?)?, op.slot?))
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
