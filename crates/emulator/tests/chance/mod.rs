//! Chance that is the same each time.
// Not all that use it use all of it.
#![allow(dead_code)]

use iced_x86::{Instruction, Mnemonic, OpKind, RflagsBits};
use numamma_emulator::State;

/// The flags of arithmetic.
pub const ARITHMETIC: u64 = 0x8d5;

/// The same numbers each time.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 20) % limit
    }

    pub fn byte(&mut self) -> u8 {
        (self.next() >> 30) as u8
    }

    /// One of the values at which arithmetic changes its ways, or any.
    pub fn value(&mut self) -> u64 {
        const EDGES: [u64; 14] = [
            0,
            1,
            2,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
        ];
        match self.below(4) {
            0 => EDGES[self.below(14) as usize],
            1 => self.next() >> self.below(64),
            _ => self.next(),
        }
    }
}

/// Beginnings of instructions of all kinds, so that not all is noise.
pub fn any(random: &mut Random, code: &mut [u8]) {
    let mut at = 0;
    while at < code.len() {
        let start: &[u8] = match random.below(12) {
            0 => &[0x62],
            1 => &[0xc4],
            2 => &[0xc5],
            3 => &[0x0f],
            4 => &[0x66, 0x0f, 0x38],
            5 => &[0x66, 0x0f, 0x3a],
            6 => &[0xf3, 0x0f],
            7 => &[[0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf][random.below(8) as usize]],
            8 => &[0x62, 0xf1, 0x7d, 0x48],
            9 => &[0x62, 0xf2, 0xfd, 0x49],
            _ => &[],
        };
        let length = start.len() + 1 + random.below(9) as usize;
        for n in at..(at + length).min(code.len()) {
            code[n] = start.get(n - at).copied().unwrap_or_else(|| random.byte());
        }
        at += length;
    }
}

/// What an instruction's own value is not the same twice, or tells the two ways apart.
pub fn varies(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Rdrand | M::Rdseed | M::Rdtsc | M::Rdtscp | M::Rdpid | M::Cpuid)
}

/// Flags that the manuals leave undefined after the instruction, executed from `before`. The emulator aims at those of this processor,
/// and mostly has them, but a processor may take them from anywhere.
pub fn undefined(i: &Instruction, before: &State) -> u64 {
    const BITS: [(u32, u64); 6] = [
        (RflagsBits::CF, 1),
        (RflagsBits::PF, 1 << 2),
        (RflagsBits::AF, 1 << 4),
        (RflagsBits::ZF, 1 << 6),
        (RflagsBits::SF, 1 << 7),
        (RflagsBits::OF, 1 << 11),
    ];
    // Also where the count is a whole turn: seen to be the one and the other for the same operands.
    let turns = matches!(i.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
    let listed = BITS.iter().filter(|(bit, _)| i.rflags_undefined() & bit != 0).fold(0, |all, (_, flag)| all | flag);
    let overshifts = match shift(i, before) {
        Some((count, bits)) if double_shifts(i) && count > bits => ARITHMETIC,
        // The carry: no bit of the operand is shifted out last.
        Some((count, bits)) if !double_shifts(i) && count >= bits => 1,
        _ => 0,
    };
    listed | overshifts | if turns { 1 << 11 } else { 0 }
}

/// True if the result is undefined too: words shifted by more than their width, with bits of another register coming in.
pub fn has_undefined_result(i: &Instruction, before: &State) -> bool {
    double_shifts(i) && shift(i, before).is_some_and(|(count, bits)| count > bits)
}

fn double_shifts(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Shld | Mnemonic::Shrd)
}

/// Of shifts: by how much, as processors take the count, and the bits of the operand.
fn shift(i: &Instruction, before: &State) -> Option<(u64, u64)> {
    use Mnemonic as M;
    let shifts = matches!(i.mnemonic(), M::Shl | M::Sal | M::Shr | M::Sar | M::Shld | M::Shrd);
    let last = i.op_count().checked_sub(1).filter(|_| shifts)?;
    let count = if i.op_kind(last) == OpKind::Register { before.general[1] } else { i.try_immediate(last).ok()? };
    let bytes = if i.op0_kind() == OpKind::Register { i.op0_register().size() } else { i.memory_size().size() };
    Some((count & if bytes == 8 { 63 } else { 31 }, 8 * bytes as u64))
}

/// True if a step has ended between two rounds of a repeated string instruction.
pub fn is_between_rounds(i: &Instruction, after: &State) -> bool {
    i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix()) && after.ip == i.ip()
}

/// Takes over from `real` those flags of `emulated` that a vendor may decide: undefined ones; and, between two rounds of a repeated
/// comparison, all of arithmetic. Intel's processors keep those of before the instruction until its last round, AMD's have those of the
/// round; an interrupt shows the same. Its continuation does not depend on them.
pub fn take_over_free_flags(i: &Instruction, emulated: &mut State, before: &State, real: &State) {
    let mut free = undefined(i, before);
    let kept = (before.flags ^ real.flags) & ARITHMETIC == 0;
    if is_between_rounds(i, real) && kept {
        free |= ARITHMETIC;
    }
    emulated.flags = emulated.flags & !free | real.flags & free;
}
