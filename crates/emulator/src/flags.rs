//! The arithmetic flags, kept as LAHF and SETO give them.
//!
//! ```text
//!   bit   15  14  13  12  11  10   9   8   7 ... 1   0
//!         SF  ZF   -  AF   -  PF   -  CF      -      OF
//! ```
//!
//! So the processor's own flags are taken over and put back by few and quick instructions, and those that its manual leaves
//! undefined are what this processor gives.

use iced_x86::ConditionCode;

/// The flags that arithmetic sets, where the processor has them.
pub const ARITHMETIC: u64 = 0x8d5;
pub const DIRECTION: u64 = 1 << 10;
/// Flags under which instructions execute otherwise: a trap after each, checks of alignment, virtual 8086.
pub const STRANGE: u64 = 1 << 8 | 1 << 17 | 1 << 18;

pub const CF: u16 = 1 << 8;
pub const ZF: u16 = 1 << 14;
#[cfg(test)]
pub const SF: u16 = 1 << 15;
pub const OF: u16 = 1;

/// From the processor's flags.
pub fn pack(flags: u64) -> u16 {
    (flags as u16 & 0xd5 | 2) << 8 | (flags >> 11 & 1) as u16
}

/// The arithmetic flags where the processor has them; all others clear.
pub fn unpack(status: u16) -> u64 {
    u64::from(status >> 8) & 0xd5 | u64::from(status & OF) << 11
}

/// The number of a condition in the processor's instructions.
pub fn number(condition: ConditionCode) -> u8 {
    (condition as u8).wrapping_sub(1)
}

/// For each condition of an even number, those sets of flags with which it holds, by the numbers that [`holds`] makes of them.
const HOLDS: [u32; 8] = {
    let mut all = [0; 8];
    let mut set = 0;
    while set < 32 {
        let (carry, overflow, parity, zero, sign) =
            (set & 1 != 0, set & 2 != 0, set & 4 != 0, set & 8 != 0, set & 16 != 0);
        let less = sign != overflow;
        let each = [overflow, carry, zero, carry || zero, sign, parity, less, less || zero];
        let mut n = 0;
        while n < 8 {
            all[n] |= (each[n] as u32) << set;
            n += 1;
        }
        set += 1;
    }
    all
};

/// True if the condition of that number holds.
#[inline(always)]
pub fn holds(condition: u8, status: u16) -> bool {
    // Without branches: the processor could not predict them.
    let high = u32::from(status >> 8);
    let set = high & 0b101 | high >> 3 & 0b11000 | u32::from(status & OF) << 1;
    (HOLDS[usize::from(condition >> 1 & 7)] >> set & 1) as u8 != condition & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_no_arithmetic_flag() {
        for flags in 0..0x1000 {
            assert_eq!(unpack(pack(flags)), flags & ARITHMETIC);
        }
    }

    #[test]
    fn conditions_are_numbered_as_in_instructions() {
        assert_eq!(number(ConditionCode::o), 0);
        assert_eq!(number(ConditionCode::e), 4);
        assert_eq!(number(ConditionCode::g), 15);
        assert!(holds(number(ConditionCode::l), SF) && !holds(number(ConditionCode::l), SF | OF));
        assert!(holds(number(ConditionCode::g), 0) && !holds(number(ConditionCode::g), ZF));
        assert!(holds(number(ConditionCode::a), 0) && !holds(number(ConditionCode::a), CF));
    }
}
