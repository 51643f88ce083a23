//! The registers at a sample, moved forward or backward instruction by instruction.
//!
//! A register is known or unknown; nothing is ever guessed. An address is computed from known registers or not at all.

use iced_x86::ConditionCode;

use super::lift::{Arithmetic, Effect, Op, Operand, Value};

/// Known part of a register file.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    general: [u64; 16],
    known: u16,
    flags: Option<u64>,
    /// Run-time address of the code minus its address in the module.
    bias: u64,
    /// The thread pointer (fs base), if it is known.
    thread_pointer: Option<u64>,
}

const RAX: u8 = 0;
const RDX: u8 = 2;

/// No object lies below: the kernel keeps it free.
const NO_OBJECT: u64 = 0xffff;

const CARRY: u64 = 1 << 0;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

impl Machine {
    /// The state of a sample.
    pub fn new(general: [u64; 16], flags: u64, bias: u64, thread_pointer: Option<u64>) -> Self {
        Self { general, known: u16::MAX, flags: Some(flags), bias, thread_pointer }
    }

    /// A general register, in the processor's numbering, if it is known.
    pub fn register(&self, r: u8) -> Option<u64> {
        (self.known >> r & 1 == 1).then(|| self.general[usize::from(r)])
    }

    /// Sets a general register to what it is known to hold, all 64 bits of it.
    pub fn learn(&mut self, r: u8, value: u64) {
        self.set(r, Some(value), true);
    }

    /// Takes what `other` knows of the same moment, and this one does not.
    pub fn join(&mut self, other: &Machine) {
        let new = other.known & !self.known;
        for r in (0..16).filter(|r| new >> r & 1 == 1) {
            self.learn(r, other.general[usize::from(r)]);
        }
    }

    fn value(&self, v: Value) -> Option<u64> {
        match v {
            Value::Register(r) => self.register(r),
            Value::Immediate(v) => Some(v as u64),
        }
    }

    fn set(&mut self, r: u8, value: Option<u64>, wide: bool) {
        match value {
            Some(v) => {
                self.general[usize::from(r)] = if wide { v } else { v & 0xffff_ffff };
                self.known |= 1 << r;
            }
            None => self.known &= !(1 << r),
        }
    }

    /// Run-time address of an operand, if all that it depends on is known.
    pub fn address(&self, o: &Operand) -> Option<u64> {
        let mut address = o.displacement as u64;
        // Pointers in a vector, and nothing else.
        if o.gather && o.base.is_none() && o.displacement as u64 <= NO_OBJECT {
            return None;
        }
        if o.thread_relative {
            address = address.wrapping_add(self.thread_pointer?);
        }
        if o.ip_relative {
            address = address.wrapping_add(self.bias);
        }
        if let Some(base) = o.base {
            address = address.wrapping_add(self.register(base)?);
        }
        if let Some(index) = o.index {
            address = address.wrapping_add(self.register(index)?.wrapping_mul(u64::from(o.scale)));
        }
        Some(address)
    }

    /// Executes `op`'s effect on the registers (not its branch).
    pub fn step(&mut self, op: &Op) {
        if op.writes_flags {
            self.flags = None;
        }
        match op.effect {
            Effect::Move { to, from, wide } => self.set(to, self.value(from), wide),
            Effect::MoveIf { condition, to, from, wide } => {
                let value = self.taken(condition).and_then(|moves| self.register(if moves { from } else { to }));
                self.set(to, value, wide);
            }
            Effect::Extend { to, from, bits, signed } => {
                let unused = 64 - u32::from(bits);
                let extended = self.register(from).map(|v| {
                    let top = v << unused;
                    if signed { (top as i64 >> unused) as u64 } else { top >> unused }
                });
                self.set(to, extended, true);
            }
            Effect::MultiplyBy { to, from, by, wide } => {
                self.set(to, self.register(from).map(|v| v.wrapping_mul(by as u64)), wide);
            }
            Effect::Divide { by, wide } => {
                let (quotient, remainder) = self.divide(by, wide).unzip();
                self.set(RAX, quotient, wide);
                self.set(RDX, remainder, wide);
            }
            Effect::Address { to, operand, wide } => self.set(to, self.address(&operand), wide),
            Effect::Arithmetic { op: Arithmetic::Xor, to, from: Value::Register(from), wide } if to == from => {
                self.set(to, Some(0), true);
                self.set_logic_flags(0, wide);
            }
            Effect::Arithmetic { op, to, from, wide } => match self.register(to).zip(self.value(from)) {
                Some((a, b)) => {
                    let result = match op {
                        Arithmetic::Add => self.sum(a, b, false, wide),
                        Arithmetic::Sub => self.sum(a, b, true, wide),
                        Arithmetic::And => self.set_logic_flags(a & b, wide),
                        Arithmetic::Or => self.set_logic_flags(a | b, wide),
                        // Its flags are of no use to a branch; they stay unknown.
                        Arithmetic::Multiply => a.wrapping_mul(b),
                        Arithmetic::Xor => self.set_logic_flags(a ^ b, wide),
                    };
                    self.set(to, Some(result), wide);
                }
                None => self.set(to, None, wide),
            },
            Effect::Shift { to, by, wide } => {
                let shifted = self.register(to).map(|v| {
                    let v = if wide { v } else { v & 0xffff_ffff };
                    if by >= 0 { v << by } else { v >> -i32::from(by) }
                });
                self.set(to, shifted, wide);
            }
            Effect::Compare { a, b, wide, test } => {
                if let Some((a, b)) = self.register(a).zip(self.value(b)) {
                    if test {
                        self.set_logic_flags(a & b, wide)
                    } else {
                        self.sum(a, b, true, wide)
                    };
                }
            }
            Effect::CompareBytes { a, b, test } => {
                // In the upper byte of a word they give the same flags (but for parity, which no loop asks for).
                if let Some((a, b)) = self.register(a).zip(self.value(b)) {
                    let (a, b) = (a << 24 & 0xffff_ffff, b << 24 & 0xffff_ffff);
                    if test {
                        self.set_logic_flags(a & b, false)
                    } else {
                        self.sum(a, b, true, false)
                    };
                }
            }
            Effect::Stack { by, writes } => {
                self.known &= !op.writes | 1 << super::lift::STACK_POINTER;
                if let Some(r) = writes {
                    self.set(r, None, true);
                }
                if writes != Some(super::lift::STACK_POINTER) {
                    let moved = self.register(super::lift::STACK_POINTER).map(|v| v.wrapping_add(by as u64));
                    self.set(super::lift::STACK_POINTER, moved, true);
                }
            }
            Effect::Jump { .. } | Effect::Branch { .. } => {}
            Effect::Leave => self.known = 0,
            Effect::Other => self.known &= !op.writes,
        }
    }

    /// Goes back to the state before `op`: what it wrote and cannot be inverted becomes unknown.
    pub fn unstep(&mut self, op: &Op) {
        self.flags = None;
        match op.effect {
            Effect::Arithmetic { op: kind @ (Arithmetic::Add | Arithmetic::Sub), to, from, wide }
                if from != Value::Register(to) =>
            {
                let before = self.register(to).zip(self.value(from)).map(|(r, v)| match kind {
                    Arithmetic::Add => r.wrapping_sub(v),
                    _ => r.wrapping_add(v),
                });
                // A narrow operation cleared the upper half: what stood there is lost, but counters live below it.
                self.set(to, before, wide);
            }
            Effect::Move { to, from: Value::Register(from), wide: true } if to != from => {
                let value = self.register(to);
                if value.is_some() {
                    self.set(from, value, true);
                }
                self.set(to, None, true);
            }
            Effect::Address { to, operand, wide } if operand.base == Some(to) && operand.index.is_none() => {
                let before = self.register(to).map(|v| v.wrapping_sub(operand.displacement as u64));
                self.set(to, before, wide);
            }
            Effect::Stack { by, writes } => {
                if let Some(r) = writes {
                    self.set(r, None, true);
                }
                if writes != Some(super::lift::STACK_POINTER) {
                    let before = self.register(super::lift::STACK_POINTER).map(|v| v.wrapping_sub(by as u64));
                    self.set(super::lift::STACK_POINTER, before, true);
                }
            }
            Effect::Compare { .. } | Effect::CompareBytes { .. } | Effect::Jump { .. } | Effect::Branch { .. } => {}
            Effect::Leave => self.known = 0,
            _ => self.known &= !op.writes,
        }
    }

    /// True if a branch on `condition` is taken; `None` if the flags are not known.
    pub fn taken(&self, condition: ConditionCode) -> Option<bool> {
        let flags = self.flags?;
        let is = |bit: u64| flags & bit != 0;
        use ConditionCode as C;
        Some(match condition {
            C::o => is(OVERFLOW),
            C::no => !is(OVERFLOW),
            C::b => is(CARRY),
            C::ae => !is(CARRY),
            C::e => is(ZERO),
            C::ne => !is(ZERO),
            C::be => is(CARRY) || is(ZERO),
            C::a => !is(CARRY) && !is(ZERO),
            C::s => is(SIGN),
            C::ns => !is(SIGN),
            C::p => is(PARITY),
            C::np => !is(PARITY),
            C::l => is(SIGN) != is(OVERFLOW),
            C::ge => is(SIGN) == is(OVERFLOW),
            C::le => is(ZERO) || is(SIGN) != is(OVERFLOW),
            C::g => !is(ZERO) && is(SIGN) == is(OVERFLOW),
            C::None => return None,
        })
    }

    /// Quotient and remainder of rdx:rax by a register; `None` if unknown, or if the program would fault.
    fn divide(&self, by: u8, wide: bool) -> Option<(u64, u64)> {
        let (low, high, by) = (self.register(RAX)?, self.register(RDX)?, self.register(by)?);
        let (dividend, divisor) = if wide {
            (u128::from(high) << 64 | u128::from(low), u128::from(by))
        } else {
            (u128::from((high & 0xffff_ffff) << 32 | (low & 0xffff_ffff)), u128::from(by & 0xffff_ffff))
        };
        let quotient = dividend.checked_div(divisor)?;
        Some((u64::try_from(quotient).ok()?, (dividend % divisor) as u64))
    }

    /// `a + b` or `a - b` with the flags it sets (Intel SDM vol. 1, 3.4.3.1).
    fn sum(&mut self, a: u64, b: u64, subtract: bool, wide: bool) -> u64 {
        let (mask, sign) = if wide { (u64::MAX, 1 << 63) } else { (0xffff_ffff, 1 << 31) };
        let (a, b) = (a & mask, b & mask);
        let result = if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) } & mask;
        let carry = if subtract { a < b } else { result < a };
        let overflow = if subtract { (a ^ b) & (a ^ result) } else { !(a ^ b) & (a ^ result) } & sign != 0;
        let mut flags = common_flags(result, sign);
        if carry {
            flags |= CARRY;
        }
        if overflow {
            flags |= OVERFLOW;
        }
        self.flags = Some(flags);
        result
    }

    fn set_logic_flags(&mut self, result: u64, wide: bool) -> u64 {
        let (mask, sign) = if wide { (u64::MAX, 1 << 63) } else { (0xffff_ffff, 1 << 31) };
        self.flags = Some(common_flags(result & mask, sign));
        result & mask
    }
}

fn common_flags(result: u64, sign: u64) -> u64 {
    let mut flags = 0;
    if (result as u8).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    if result == 0 {
        flags |= ZERO;
    }
    if result & sign != 0 {
        flags |= SIGN;
    }
    flags
}
