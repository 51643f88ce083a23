//! Executes string instructions, one repetition after another.

use crate::arithmetic as by;
use crate::flags::{DIRECTION, ZF};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Kind, Op, RAX, RCX, RDI, RSI, Repeat};
use crate::runner::Runner;
use crate::stop::Stop;

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// Executes; false if the instruction is not one of these. Repetitions have a limit, too.
    #[inline(never)]
    pub fn string(&mut self, op: &Op) -> Result<bool, Stop> {
        let (Kind::MoveString(repeat)
        | Kind::StoreString(repeat)
        | Kind::LoadString(repeat)
        | Kind::ScanString(repeat)
        | Kind::CompareString(repeat)) = op.kind
        else {
            return Ok(false);
        };
        if repeat == Repeat::Once {
            self.once(op)?;
            return Ok(true);
        }
        let mut first = true;
        while self.general(RCX) != 0 {
            // The first was counted as the instruction.
            if !first {
                let left = self.repetitions.as_mut().unwrap_or(&mut self.left);
                if *left == 0 {
                    return Err(Stop::Limit);
                }
                *left -= 1;
                if matches!(op.kind, Kind::MoveString(_) | Kind::StoreString(_)) && self.other_flags & DIRECTION == 0 {
                    self.observer.goes_on();
                }
            }
            first = false;
            self.once(op)?;
            self.context.general[RCX] -= 1;
            let equal = self.status & ZF != 0;
            if repeat == Repeat::WhileEqual && !equal || repeat == Repeat::WhileUnequal && equal {
                break;
            }
        }
        Ok(true)
    }

    #[inline(always)]
    fn once(&mut self, op: &Op) -> Result<(), Stop> {
        let width = op.width;
        let step = if self.other_flags & DIRECTION == 0 { u64::from(width) } else { u64::from(width).wrapping_neg() };
        let from = self.general(RSI).wrapping_add(self.segment_base(op.address.segment));
        let to = self.general(RDI);
        let (mut from_moves, mut to_moves) = (true, true);
        match op.kind {
            Kind::MoveString(_) => {
                self.space.check_write(self.memory, to, usize::from(width))?;
                let value = self.load(op, from, width)?;
                self.store(op, to, width, value)?;
            }
            Kind::StoreString(_) => {
                let value = self.general(RAX);
                self.store(op, to, width, value)?;
                from_moves = false;
            }
            Kind::LoadString(_) => {
                let value = self.load(op, from, width)?;
                self.set_register(RAX as u8, width, value);
                to_moves = false;
            }
            Kind::ScanString(_) => {
                let value = self.load(op, to, width)?;
                by::sub(width, self.general(RAX), value, &mut self.status);
                from_moves = false;
            }
            _ => {
                let first = self.space.load(self.memory, from, width)?;
                let second = self.space.load(self.memory, to, width)?;
                self.tell(op, from, u32::from(width), false);
                self.tell(op, to, u32::from(width), false);
                by::sub(width, first, second, &mut self.status);
            }
        }
        if from_moves {
            self.context.general[RSI] = self.general(RSI).wrapping_add(step);
        }
        if to_moves {
            self.context.general[RDI] = to.wrapping_add(step);
        }
        Ok(())
    }
}
