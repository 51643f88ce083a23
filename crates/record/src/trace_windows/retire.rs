//! How many instructions this processor retires at most, measured.

use std::arch::asm;
use std::time::Instant;

/// Rounds of 64 instructions: some microseconds.
const ROUNDS: u64 = 2000;
const OF_ROUND: u64 = 64;

/// Instructions in a nanosecond, where they have nothing to do and nothing to wait for. Too few if this thread lost its CPU meanwhile: the
/// most of several measurements counts.
pub fn most_per_ns() -> f64 {
    let began = Instant::now();
    // SAFETY: nothing but its own register and flags is changed.
    unsafe {
        asm!(
            "2:",
            // `nop` of four bytes: all caches of decoded instructions hold as many of these as retire.
            ".rept 64",
            ".byte 0x0f, 0x1f, 0x40, 0x00",
            ".endr",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) ROUNDS => _,
            options(nomem, nostack),
        );
    }
    (ROUNDS * OF_ROUND) as f64 / began.elapsed().as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_retire_one_to_sixteen_in_a_cycle() {
        let most = (0..100).map(|_| most_per_ns()).fold(0.0, f64::max);
        assert!((0.5..100.0).contains(&most), "{most}");
    }
}
