//! The state of a run, and the operands of instructions.

use crate::context::Context;
use crate::flags::{ARITHMETIC, pack, unpack};
use crate::memory::{Memory, Space};
use crate::observe::{Access, Observer};
use crate::op::{Address, MEMORY, NONE, Op, SECOND_BYTES, Segment, VALUE};
use crate::stop::Stop;

/// What a run works on.
pub struct Runner<'a, M: ?Sized, O: ?Sized> {
    pub context: &'a mut Context,
    pub space: &'a mut Space,
    pub memory: &'a mut M,
    pub observer: &'a mut O,
    /// The arithmetic flags (`flags.rs`).
    pub status: u16,
    /// All others.
    pub other_flags: u64,
    /// Of addresses that programs may have.
    pub address_bits: u32,
    /// Instructions that may still be executed.
    pub left: u64,
    /// Repetitions of string instructions; none: each counts as an instruction.
    pub repetitions: Option<u64>,
}

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// All flags.
    pub fn flags(&self) -> u64 {
        self.other_flags & !ARITHMETIC | unpack(self.status)
    }

    pub fn set_flags(&mut self, flags: u64) {
        self.status = pack(flags);
        self.other_flags = flags & !ARITHMETIC;
    }

    #[inline(always)]
    pub fn general(&self, n: usize) -> u64 {
        self.context.general[n & 31]
    }

    /// An address without what its segment adds.
    #[inline(always)]
    pub fn offset(&self, a: &Address) -> u64 {
        let index = self.general(usize::from(a.index)) << (a.shift & 3);
        let sum = self.general(usize::from(a.base)).wrapping_add(index).wrapping_add(a.displacement);
        if a.narrow { u64::from(sum as u32) } else { sum }
    }

    #[inline(always)]
    pub fn segment_base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Flat => 0,
            Segment::Fs => self.context.fs_base,
            Segment::Gs => self.context.gs_base,
        }
    }

    /// Where the operand in memory is.
    #[inline(always)]
    pub fn address(&self, op: &Op) -> u64 {
        self.offset(&op.address).wrapping_add(self.segment_base(op.address.segment))
    }

    #[inline(always)]
    pub fn tell(&mut self, op: &Op, address: u64, size: u32, write: bool) {
        self.observer.access(Access { ip: op.ip, address, size, write });
    }

    /// Reads, and tells so.
    #[inline(always)]
    pub fn load(&mut self, op: &Op, address: u64, width: u8) -> Result<u64, Stop> {
        let value = self.space.load(self.memory, address, width)?;
        self.tell(op, address, u32::from(width), false);
        Ok(value)
    }

    /// Writes, and tells so.
    #[inline(always)]
    pub fn store(&mut self, op: &Op, address: u64, width: u8, value: u64) -> Result<(), Stop> {
        self.space.store(self.memory, address, width, value)?;
        self.tell(op, address, u32::from(width), true);
        Ok(())
    }

    /// A register as an operand. Bits above its width are whatever is there.
    #[inline(always)]
    pub fn register(&self, slot: u8) -> u64 {
        if slot < SECOND_BYTES { self.general(usize::from(slot)) } else { self.general(usize::from(slot & 3)) >> 8 }
    }

    #[inline(always)]
    pub fn set_register(&mut self, slot: u8, width: u8, value: u64) {
        let second = slot >= SECOND_BYTES;
        let to = &mut self.context.general[if second { usize::from(slot & 3) } else { usize::from(slot & 15) }];
        *to = match width {
            8 => value,
            4 => u64::from(value as u32),
            2 => *to & !0xffff | value & 0xffff,
            _ if second => *to & !0xff00 | (value & 0xff) << 8,
            _ => *to & !0xff | value & 0xff,
        };
    }

    /// An operand that is read only. Bits above the width are whatever is there.
    #[inline(always)]
    pub fn read(&mut self, op: &Op, slot: u8, width: u8) -> Result<u64, Stop> {
        match slot {
            MEMORY => {
                let address = self.address(op);
                self.load(op, address, width)
            }
            VALUE => Ok(op.value),
            NONE => Ok(0),
            _ => Ok(self.register(slot)),
        }
    }

    /// An operand that is written only.
    #[inline(always)]
    pub fn write(&mut self, op: &Op, slot: u8, width: u8, value: u64) -> Result<(), Stop> {
        if slot == MEMORY {
            let address = self.address(op);
            return self.store(op, address, width, value);
        }
        self.set_register(slot, width, value);
        Ok(())
    }

    /// Reads and writes the first operand: `change` makes of it, and of the flags, what they are afterwards.
    #[inline(always)]
    pub fn change(&mut self, op: &Op, change: impl FnOnce(u64, &mut u16) -> u64) -> Result<(), Stop> {
        if op.a != MEMORY {
            let new = change(self.register(op.a), &mut self.status);
            self.set_register(op.a, op.width, new);
            return Ok(());
        }
        let address = self.address(op);
        self.change_at(op, address, change)
    }

    /// The same for an operand at that address.
    #[inline(always)]
    pub fn change_at(&mut self, op: &Op, address: u64, change: impl FnOnce(u64, &mut u16) -> u64) -> Result<(), Stop> {
        let old = self.space.load(self.memory, address, op.width)?;
        let mut status = self.status;
        let new = change(old, &mut status);
        self.space.store(self.memory, address, op.width, new)?;
        self.status = status;
        self.tell(op, address, u32::from(op.width), false);
        self.tell(op, address, u32::from(op.width), true);
        Ok(())
    }
}
