//! Executes branches, the stack's instructions, and flags by themselves.

use crate::flags::{CF, DIRECTION, STRANGE, ZF, holds, pack};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Kind, MEMORY, Op, RAX, RBP, RCX, RSP};
use crate::runner::Runner;
use crate::stop::{Fault, Stop, Unsupported};

/// Flags that a program may change.
const CHANGEABLE: u64 = 0x0024_4dd5;
/// Flags that pushf leaves out: resume, virtual 8086.
const UNSEEN: u64 = 1 << 16 | 1 << 17;

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// A branch to an address that no program can have faults before it is taken.
    #[inline(always)]
    fn target(&self, address: u64) -> Result<u64, Stop> {
        if address >> self.address_bits == 0 { Ok(address) } else { Err(Stop::Fault(Fault::General)) }
    }

    #[inline(always)]
    fn push(&mut self, op: &Op, value: u64) -> Result<(), Stop> {
        let top = self.general(RSP).wrapping_sub(8);
        self.store(op, top, 8, value)?;
        self.context.general[RSP] = top;
        Ok(())
    }

    #[inline(always)]
    pub fn jump_if(&mut self, op: &Op, condition: u8) -> u64 {
        if holds(condition, self.status) { op.value } else { op.next }
    }

    #[inline(always)]
    pub fn call(&mut self, op: &Op) -> Result<u64, Stop> {
        self.push(op, op.next)?;
        Ok(op.value)
    }

    #[inline(always)]
    pub fn ret(&mut self, op: &Op) -> Result<u64, Stop> {
        let top = self.general(RSP);
        let to = self.space.load(self.memory, top, 8)?;
        let to = self.target(to)?;
        self.tell(op, top, 8, false);
        self.context.general[RSP] = top.wrapping_add(8).wrapping_add(op.value);
        Ok(to)
    }

    #[inline(always)]
    pub fn push_value(&mut self, op: &Op) -> Result<(), Stop> {
        if op.a == MEMORY {
            return self.push_memory(op);
        }
        let value = self.read(op, op.a, 8)?;
        self.push(op, value)
    }

    #[inline(always)]
    pub fn pop_value(&mut self, op: &Op) -> Result<(), Stop> {
        if op.a == MEMORY {
            return self.pop_memory(op);
        }
        let top = self.general(RSP);
        let value = self.load(op, top, 8)?;
        self.context.general[RSP] = top.wrapping_add(8);
        self.set_register(op.a, 8, value);
        Ok(())
    }

    #[inline(always)]
    pub fn leave(&mut self, op: &Op) -> Result<(), Stop> {
        let frame = self.general(RBP);
        let value = self.load(op, frame, 8)?;
        self.context.general[RSP] = frame.wrapping_add(8);
        self.context.general[RBP] = value;
        Ok(())
    }

    fn push_memory(&mut self, op: &Op) -> Result<(), Stop> {
        let top = self.general(RSP).wrapping_sub(8);
        self.space.check_write(self.memory, top, 8)?;
        let value = self.read(op, op.a, 8)?;
        self.push(op, value)
    }

    fn pop_memory(&mut self, op: &Op) -> Result<(), Stop> {
        let top = self.general(RSP);
        let value = self.space.load(self.memory, top, 8)?;
        // The operand's address is of the time after the pop.
        self.context.general[RSP] = top.wrapping_add(8);
        let address = self.address(op);
        if let Err(stop) = self.space.store(self.memory, address, 8, value) {
            self.context.general[RSP] = top;
            return Err(stop);
        }
        self.tell(op, top, 8, false);
        self.tell(op, address, 8, true);
        Ok(())
    }

    pub fn indirect(&mut self, op: &Op) -> Result<u64, Stop> {
        if op.a != MEMORY {
            return self.target(self.register(op.a));
        }
        let address = self.address(op);
        let to = self.space.load(self.memory, address, 8)?;
        let to = self.target(to)?;
        self.tell(op, address, 8, false);
        Ok(to)
    }

    pub fn call_indirect(&mut self, op: &Op) -> Result<u64, Stop> {
        let top = self.general(RSP).wrapping_sub(8);
        self.space.check_write(self.memory, top, 8)?;
        let to = self.indirect(op)?;
        self.push(op, op.next)?;
        Ok(to)
    }

    /// Executes branches and flags that are not frequent; gives the next instruction, or nothing if the instruction is none of
    /// these.
    #[inline(never)]
    pub fn rare_control(&mut self, op: &Op) -> Result<Option<u64>, Stop> {
        let branch = |taken: bool| if taken { op.value } else { op.next };
        Ok(Some(match op.kind {
            Kind::JumpIfZeroCount => branch(self.general(RCX) == 0),
            Kind::Loop | Kind::LoopWhile(_) => {
                let count = self.general(RCX).wrapping_sub(1);
                self.context.general[RCX] = count;
                let wanted = match op.kind {
                    Kind::LoopWhile(equal) => (self.status & ZF != 0) == equal,
                    _ => true,
                };
                branch(count != 0 && wanted)
            }
            Kind::PushFlags => {
                let flags = self.flags() & !UNSEEN;
                self.push(op, flags)?;
                op.next
            }
            Kind::PopFlags => {
                let top = self.general(RSP);
                let new = self.space.load(self.memory, top, 8)?;
                if new & STRANGE != 0 {
                    return Err(Stop::Unsupported(Unsupported::Flags));
                }
                self.tell(op, top, 8, false);
                self.context.general[RSP] = top.wrapping_add(8);
                let kept = self.flags() & !CHANGEABLE;
                self.set_flags(kept | new & CHANGEABLE);
                op.next
            }
            _ => return if self.flag(op) { Ok(Some(op.next)) } else { Ok(None) },
        }))
    }

    /// Flags by themselves; false if the instruction is not one of these.
    fn flag(&mut self, op: &Op) -> bool {
        match op.kind {
            Kind::ClearCarry => self.set_carry(false),
            Kind::SetCarry => self.set_carry(true),
            Kind::FlipCarry => self.status ^= CF,
            Kind::ClearDirection => self.other_flags &= !DIRECTION,
            Kind::SetDirection => self.other_flags |= DIRECTION,
            Kind::LoadStatus => {
                let rax = self.general(RAX);
                self.context.general[RAX] = rax & !0xff00 | u64::from(self.status & 0xff00);
            }
            Kind::StoreStatus => {
                let overflow = self.status & crate::flags::OF;
                self.status = pack(self.general(RAX) >> 8 & 0xff) & 0xff00 | overflow;
            }
            _ => return false,
        }
        true
    }
}
