//! Executes arithmetic and moves of general registers.

use crate::arithmetic as by;
use crate::flags::{CF, holds};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Kind, MEMORY, Op, RAX, RBX, RCX, RDX, VALUE};
use crate::runner::Runner;
use crate::stop::{Fault, Stop};

/// The lowest bytes of a value.
#[inline(always)]
pub fn cut(value: u64, width: u8) -> u64 {
    match width {
        1 => u64::from(value as u8),
        2 => u64::from(value as u16),
        4 => u64::from(value as u32),
        _ => value,
    }
}

#[inline(always)]
fn extend_sign(value: u64, width: u8) -> u64 {
    match width {
        1 => value as i8 as u64,
        2 => value as i16 as u64,
        4 => value as i32 as u64,
        _ => value,
    }
}

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    #[inline(always)]
    pub fn binary(&mut self, op: &Op, f: fn(u8, u64, u64, &mut u16) -> u64) -> Result<(), Stop> {
        let b = self.read(op, op.b, op.width)?;
        self.change(op, |a, status| f(op.width, a, b, status))
    }

    /// Flags alone.
    #[inline(always)]
    pub fn compare(&mut self, op: &Op, f: fn(u8, u64, u64, &mut u16) -> u64) -> Result<(), Stop> {
        let (a, b) = (self.read(op, op.a, op.width)?, self.read(op, op.b, op.width)?);
        f(op.width, a, b, &mut self.status);
        Ok(())
    }

    #[inline(always)]
    pub fn unary(&mut self, op: &Op, f: fn(u8, u64, &mut u16) -> u64) -> Result<(), Stop> {
        self.change(op, |a, status| f(op.width, a, status))
    }

    /// Writes a register by what is made of another operand; the register's old value is known.
    #[inline(always)]
    fn derived(&mut self, op: &Op, f: fn(u8, u64, u64, &mut u16) -> u64) -> Result<(), Stop> {
        let b = self.read(op, op.b, op.width)?;
        let new = f(op.width, self.register(op.a), b, &mut self.status);
        // Whole, also of 32 bits: a search for bits that finds none leaves the upper half.
        self.set_register(op.a, 8, new);
        Ok(())
    }

    /// Shifts that leave the flags alone.
    #[inline(always)]
    fn plain_shift(&mut self, op: &Op, narrow: fn(u32, u32) -> u32, wide: fn(u64, u32) -> u64) -> Result<(), Stop> {
        let value = self.read(op, op.b, op.width)?;
        let count = if op.c == VALUE { op.value } else { self.register(op.c) } as u32;
        let new = if op.width == 8 { wide(value, count) } else { u64::from(narrow(value as u32, count)) };
        self.set_register(op.a, op.width, new);
        Ok(())
    }

    #[inline(always)]
    pub fn move_value(&mut self, op: &Op) -> Result<(), Stop> {
        let value = self.read(op, op.b, op.width)?;
        self.write(op, op.a, op.width, value)
    }

    #[inline(always)]
    pub fn extend_zero(&mut self, op: &Op) -> Result<(), Stop> {
        let value = self.read(op, op.b, op.narrow)?;
        self.set_register(op.a, op.width, cut(value, op.narrow));
        Ok(())
    }

    #[inline(always)]
    pub fn extend_sign(&mut self, op: &Op) -> Result<(), Stop> {
        let value = self.read(op, op.b, op.narrow)?;
        self.set_register(op.a, op.width, extend_sign(value, op.narrow));
        Ok(())
    }

    #[inline(always)]
    pub fn load_address(&mut self, op: &Op) {
        let value = self.offset(&op.address);
        self.set_register(op.a, op.width, value);
    }

    #[inline(always)]
    pub fn move_if(&mut self, op: &Op, condition: u8) -> Result<(), Stop> {
        // The operand is read, and of 32 bits the upper half cleared, also where the condition does not hold.
        let (new, old) = (self.read(op, op.b, op.width)?, self.register(op.a));
        let value = if holds(condition, self.status) { new } else { old };
        self.set_register(op.a, op.width, value);
        Ok(())
    }

    #[inline(always)]
    pub fn set_if(&mut self, op: &Op, condition: u8) -> Result<(), Stop> {
        let value = u64::from(holds(condition, self.status));
        self.write(op, op.a, 1, value)
    }

    #[inline(always)]
    pub fn binary_count(&mut self, op: &Op, f: fn(u8, u64, u64, &mut u16) -> u64) -> Result<(), Stop> {
        let count = if op.b == VALUE { op.value } else { self.general(RCX) };
        self.change(op, |a, status| f(op.width, a, count, status))
    }

    /// Executes arithmetic that is not frequent; false if the instruction is none.
    #[inline(never)]
    pub fn rare_integer(&mut self, op: &Op) -> Result<bool, Stop> {
        match op.kind {
            Kind::Rol => self.binary_count(op, by::rol)?,
            Kind::Ror => self.binary_count(op, by::ror)?,
            Kind::ShiftDoubleLeft => self.double_shift(op, by::shld)?,
            Kind::ShiftDoubleRight => self.double_shift(op, by::shrd)?,
            Kind::ShiftLeftPlain => self.plain_shift(op, u32::wrapping_shl, u64::wrapping_shl)?,
            Kind::ShiftRightPlain => self.plain_shift(op, u32::wrapping_shr, u64::wrapping_shr)?,
            Kind::ShiftArithmeticPlain => {
                self.plain_shift(
                    op,
                    |a, n| (a as i32).wrapping_shr(n) as u32,
                    |a, n| (a as i64).wrapping_shr(n) as u64,
                )?;
            }
            Kind::RotatePlain => self.plain_shift(op, u32::rotate_right, u64::rotate_right)?,
            Kind::Multiply => {
                let (b, c) = (self.read(op, op.b, op.width)?, self.read(op, op.c, op.width)?);
                let new = by::imul(op.width, b, c, &mut self.status);
                self.set_register(op.a, op.width, new);
            }
            Kind::MultiplyWide | Kind::MultiplyWideSigned => self.multiply(op)?,
            Kind::Divide | Kind::DivideSigned => self.divide(op)?,
            Kind::SwapBytes => {
                let value = self.register(op.a);
                let swapped = if op.width == 8 { value.swap_bytes() } else { u64::from((value as u32).swap_bytes()) };
                self.set_register(op.a, op.width, swapped);
            }
            Kind::BitTest => {
                self.bit(op, by::bt, false)?;
            }
            Kind::BitSet => self.bit(op, by::bts, true)?,
            Kind::BitReset => self.bit(op, by::btr, true)?,
            Kind::BitComplement => self.bit(op, by::btc, true)?,
            Kind::BitScanForward => self.derived(op, by::bsf)?,
            Kind::BitScanReverse => self.derived(op, by::bsr)?,
            Kind::TrailingZeros => self.derived(op, by::tzcnt)?,
            Kind::LeadingZeros => self.derived(op, by::lzcnt)?,
            Kind::CountOnes => self.derived(op, by::popcnt)?,
            Kind::SpreadSign => {
                let sign = extend_sign(self.general(RAX), op.width) as i64 >> 63;
                self.set_register(RDX as u8, op.width, sign as u64);
            }
            Kind::Exchange => self.exchange(op)?,
            Kind::CompareExchange => self.compare_exchange(op)?,
            Kind::CompareExchangeWide => self.compare_exchange_wide(op)?,
            Kind::ExchangeAdd => self.exchange_add(op)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn double_shift(&mut self, op: &Op, f: fn(u8, u64, u64, u64, &mut u16) -> u64) -> Result<(), Stop> {
        let count = if op.c == VALUE { op.value } else { self.general(RCX) };
        let b = self.register(op.b);
        self.change(op, |a, status| f(op.width, a, b, count, status))
    }

    fn multiply(&mut self, op: &Op) -> Result<(), Stop> {
        let b = self.read(op, op.a, op.width)?;
        let f = if op.kind == Kind::MultiplyWide { by::mul } else { by::imul_wide };
        // SAFETY: a multiplication does not fault.
        let (low, high) = unsafe { f(op.width, self.general(RAX), self.general(RDX), b, &mut self.status) };
        self.set_product(op.width, low, high);
        Ok(())
    }

    /// What instructions on rdx:rax leave; of bytes, on ax.
    fn set_product(&mut self, width: u8, low: u64, high: u64) {
        self.set_register(RAX as u8, width.max(2), low);
        if width > 1 {
            self.set_register(RDX as u8, width, high);
        }
    }

    fn divide(&mut self, op: &Op) -> Result<(), Stop> {
        let address = if op.a == MEMORY { Some(self.address(op)) } else { None };
        let by_what = match address {
            Some(address) => self.space.load(self.memory, address, op.width)?,
            None => self.register(op.a),
        };
        let (low, high) = (self.general(RAX), self.general(RDX));
        let signed = op.kind == Kind::DivideSigned;
        if !divides(op.width, low, high, by_what, signed) {
            return Err(Stop::Fault(Fault::Division));
        }
        if let Some(address) = address {
            self.tell(op, address, u32::from(op.width), false);
        }
        let f = if signed { by::idiv } else { by::div };
        // SAFETY: the quotient was just found to exist and to fit.
        let (low, high) = unsafe { f(op.width, low, high, by_what, &mut self.status) };
        self.set_product(op.width, low, high);
        Ok(())
    }

    /// A bit of the first operand. In memory, a bit whose number is in a register may be any distance away.
    fn bit(&mut self, op: &Op, f: fn(u8, u64, u64, &mut u16) -> u64, writes: bool) -> Result<(), Stop> {
        let b = if op.b == VALUE { op.value } else { self.register(op.b) };
        if op.a != MEMORY {
            let new = f(op.width, self.register(op.a), b, &mut self.status);
            if writes {
                self.set_register(op.a, op.width, new);
            }
            return Ok(());
        }
        let mut address = self.address(op);
        if op.b != VALUE {
            let word = extend_sign(b, op.width) as i64 >> (3 + op.width.trailing_zeros());
            let offset = self.offset(&op.address).wrapping_add((word * i64::from(op.width)) as u64);
            let offset = if op.address.narrow { u64::from(offset as u32) } else { offset };
            address = offset.wrapping_add(self.segment_base(op.address.segment));
        }
        if writes {
            return self.change_at(op, address, |a, status| f(op.width, a, b, status));
        }
        let a = self.load(op, address, op.width)?;
        f(op.width, a, b, &mut self.status);
        Ok(())
    }

    fn exchange(&mut self, op: &Op) -> Result<(), Stop> {
        // Either operand may be the one in memory.
        let (memory, other) = if op.b == MEMORY { (op.b, op.a) } else { (op.a, op.b) };
        let new = self.register(other);
        let mut old = 0;
        let as_first = Op { a: memory, ..*op };
        self.change(&as_first, |a, _| {
            old = a;
            new
        })?;
        self.set_register(other, op.width, old);
        Ok(())
    }

    fn compare_exchange(&mut self, op: &Op) -> Result<(), Stop> {
        let (expected, new, width) = (self.general(RAX), self.register(op.b), op.width);
        let mut found = 0;
        let mut equal = false;
        self.change(op, |a, status| {
            by::sub(width, expected, a, status);
            found = a;
            equal = cut(expected, width) == cut(a, width);
            if equal { new } else { a }
        })?;
        if !equal {
            self.set_register(RAX as u8, width, found);
        }
        Ok(())
    }

    fn compare_exchange_wide(&mut self, op: &Op) -> Result<(), Stop> {
        let (address, width) = (self.address(op), op.width);
        if width == 8 && address % 16 != 0 {
            return Err(Stop::Fault(Fault::Misaligned));
        }
        let size = usize::from(width) * 2;
        self.space.check_write(self.memory, address, size)?;
        let second = address.wrapping_add(u64::from(width));
        let low = self.space.load(self.memory, address, width)?;
        let high = self.space.load(self.memory, second, width)?;
        let equal = low == cut(self.general(RAX), width) && high == cut(self.general(RDX), width);
        if equal {
            let (low, high) = (self.general(RBX), self.general(RCX));
            self.space.store(self.memory, address, width, low)?;
            self.space.store(self.memory, second, width, high)?;
        } else {
            self.set_register(RAX as u8, width, low);
            self.set_register(RDX as u8, width, high);
        }
        self.status = self.status & !crate::flags::ZF | if equal { crate::flags::ZF } else { 0 };
        self.tell(op, address, size as u32, false);
        self.tell(op, address, size as u32, true);
        Ok(())
    }

    fn exchange_add(&mut self, op: &Op) -> Result<(), Stop> {
        let (b, width) = (self.register(op.b), op.width);
        let mut old = 0;
        if op.a == MEMORY {
            self.change(op, |a, status| {
                old = a;
                by::add(width, a, b, status)
            })?;
            self.set_register(op.b, width, old);
        } else {
            let old = self.register(op.a);
            let sum = by::add(width, old, b, &mut self.status);
            // In this order: of a register with itself the sum stays.
            self.set_register(op.b, width, old);
            self.set_register(op.a, width, sum);
        }
        Ok(())
    }

    /// The carry flag by itself.
    pub fn set_carry(&mut self, on: bool) {
        self.status = if on { self.status | CF } else { self.status & !CF };
    }
}

/// True if a quotient exists and fits.
fn divides(width: u8, low: u64, high: u64, divisor: u64, signed: bool) -> bool {
    let bits = u32::from(width) * 8;
    let divisor = cut(divisor, width);
    let dividend = match width {
        1 => u128::from(low as u16),
        _ => u128::from(cut(high, width)) << bits | u128::from(cut(low, width)),
    };
    if divisor == 0 {
        return false;
    }
    if !signed {
        return (dividend / u128::from(divisor)) >> bits == 0;
    }
    let unused = 128 - 2 * bits;
    let (dividend, divisor) = ((dividend << unused) as i128 >> unused, i128::from(extend_sign(divisor, width) as i64));
    dividend.checked_div(divisor).is_some_and(|quotient| {
        let limit = 1_i128 << (bits - 1);
        (-limit..limit).contains(&quotient)
    })
}
