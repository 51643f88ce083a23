//! Has the processor execute an instruction for the thread, with its operand in memory brought and taken back.

use crate::flags::{pack, unpack};
use crate::harmless::{Alignment, Mask, Needs, Operand};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::Op;
use crate::runner::Runner;
use crate::stop::{Fault, Stop, Unsupported};
use crate::stub;

/// All exceptions of MXCSR, and of the x87 control word, masked: they set sticky bits and nothing else.
const ALL_MASKED: u32 = 0x1f80;
const ALL_X87_MASKED: u16 = 0x3f;

/// Where the x87's environment has the last instruction and its operand.
const LAST_INSTRUCTION: std::ops::Range<usize> = 12..28;

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// Executes an instruction by the code that was written for it.
    pub fn native(&mut self, op: &Op, needs: &Needs, entry: *const u8) -> Result<(), Stop> {
        let signals = needs.control && self.context.mxcsr & ALL_MASKED != ALL_MASKED
            || needs.x87 && self.context.control() & ALL_X87_MASKED != ALL_X87_MASKED;
        if signals {
            return Err(Stop::Unsupported(Unsupported::Exceptions));
        }
        let Some(operand) = &needs.operand else {
            self.execute(needs, entry);
            return Ok(());
        };
        let (address, size) = (self.address(op), usize::from(operand.size));
        if operand.alignment != Alignment::Any && address % size as u64 != 0 {
            return Err(match operand.alignment {
                Alignment::Unknown => Stop::Unsupported(Unsupported::Instruction(op.mnemonic)),
                _ => Stop::Fault(Fault::Misaligned),
            });
        }
        if operand.mask != Mask::Whole {
            return self.masked(op, needs, entry, address);
        }
        if operand.writes {
            self.space.check_write(self.memory, address, size)?;
        }
        // Also of one that is only written: what the instruction leaves of it stays.
        self.space.copy_in(self.memory, address, &mut self.context.scratch.0[..size])?;
        self.execute(needs, entry);
        if needs.environment {
            self.context.scratch.0[LAST_INSTRUCTION].fill(0);
        }
        if operand.writes {
            self.space.copy_out(self.memory, address, &self.context.scratch.0[..size])?;
        }
        self.tell_operand(op, operand, address);
        Ok(())
    }

    fn tell_operand(&mut self, op: &Op, operand: &Operand, address: u64) {
        if operand.reads {
            self.tell(op, address, u32::from(operand.size), false);
        }
        if operand.writes {
            self.tell(op, address, u32::from(operand.size), true);
        }
    }

    fn execute(&mut self, needs: &Needs, entry: *const u8) {
        if needs.takes_flags {
            self.context.flags = unpack(self.status) | 2;
        }
        // SAFETY: `entry` is of the stub that was written for what `needs` has taken, and exceptions are masked.
        unsafe { stub::call(entry, self.context) };
        if needs.gives_flags {
            self.status = pack(self.context.flags);
        }
    }

    /// The elements of the operand that are accessed, as bits.
    fn chosen(&self, operand: &Operand) -> u64 {
        let count = u32::from(operand.size) / u32::from(operand.element);
        let lowest = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        match operand.mask {
            Mask::Whole => u64::MAX,
            Mask::Register { number, exact: true } => self.context.masks[usize::from(number & 7)] & lowest(count),
            Mask::Register { number, exact: false } => {
                self.context.masks[usize::from(number & 7)] & lowest(u32::from(operand.lanes))
            }
            Mask::Packed { number } => {
                lowest((self.context.masks[usize::from(number & 7)] & lowest(count)).count_ones())
            }
            Mask::Vector { number } => {
                let register = &self.context.vectors[usize::from(number & 31)].0;
                let width = usize::from(operand.element);
                (0..count as usize).filter(|n| register[(n + 1) * width - 1] >> 7 == 1).fold(0, |all, n| all | 1 << n)
            }
        }
    }

    /// An operand of which a mask chooses elements. Those that it does not choose need not be there.
    #[inline(never)]
    fn masked(&mut self, op: &Op, needs: &Needs, entry: *const u8, address: u64) -> Result<(), Stop> {
        let Some(operand) = &needs.operand else { return Ok(()) };
        let (size, element) = (usize::from(operand.size), usize::from(operand.element));
        let chosen = self.chosen(operand);
        let all_there = (!operand.writes || self.space.check_write(self.memory, address, size).is_ok())
            && self.space.copy_in(self.memory, address, &mut self.context.scratch.0[..size]).is_ok();
        if !all_there && matches!(operand.mask, Mask::Register { exact: false, .. }) {
            return Err(Stop::Unsupported(Unsupported::Masked));
        }
        let elements = (0..size / element).filter(|n| chosen >> n & 1 == 1).map(|n| n * element);
        if !all_there {
            for at in elements.clone() {
                let address = address.wrapping_add(at as u64);
                if operand.writes {
                    self.space.check_write(self.memory, address, element)?;
                }
                self.space.copy_in(self.memory, address, &mut self.context.scratch.0[at..at + element])?;
            }
        }
        self.execute(needs, entry);
        if operand.writes && all_there {
            self.space.copy_out(self.memory, address, &self.context.scratch.0[..size])?;
        } else if operand.writes {
            for at in elements {
                let address = address.wrapping_add(at as u64);
                self.space.copy_out(self.memory, address, &self.context.scratch.0[at..at + element])?;
            }
        }
        if chosen != 0 {
            self.tell_operand(op, operand, address);
        }
        Ok(())
    }
}
