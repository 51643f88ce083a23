//! hwloc's sets: words of 32 bits in hexadecimal, the highest first.

use std::fmt::Write as _;

/// More CPUs than any machine has.
const MOST: usize = 1 << 16;

/// The numbers in a set such as `0x00000001,0x0000ffff`; `None` if it is none, or without end (`0xf...f`).
pub(super) fn parse(text: &str) -> Option<Vec<u32>> {
    let words: Vec<&str> = text.split(',').collect();
    if words.len() > MOST / 32 {
        return None;
    }
    let mut numbers = Vec::new();
    for (index, word) in words.iter().rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        // A word that is left out is empty.
        let bits = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
        numbers.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index as u32 * 32 + bit));
    }
    Some(numbers)
}

/// Writes a set; `numbers` ascend.
pub(super) fn format(numbers: &[u32]) -> String {
    let words = numbers.last().map_or(1, |last| last / 32 + 1);
    let mut text = String::new();
    for index in (0..words).rev() {
        let of_word = numbers.iter().filter(|&&number| number / 32 == index);
        let bits = of_word.fold(0u32, |bits, number| bits | 1 << (number % 32));
        let _ = write!(text, "{}0x{bits:08x}", if text.is_empty() { "" } else { "," });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_a_round_trip() {
        for numbers in [vec![], vec![0], vec![31, 32], vec![1, 64, 127]] {
            assert_eq!(parse(&format(&numbers)), Some(numbers));
        }
        assert_eq!(format(&[0, 35]), "0x00000008,0x00000001");
        assert_eq!(parse("0x1,,0x3"), Some(vec![0, 1, 64]));
        assert_eq!(parse("0x0"), Some(vec![]));
    }

    #[test]
    fn nonsense_is_no_set() {
        for text in ["0xf...f", "x", "0x123456789", "-1", &",".repeat(1 << 16)] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
