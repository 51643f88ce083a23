//! Sizes as people write them: `64 KiB`, `64K`, `2 MiB`, `4096`.

const UNITS: [(&str, u64); 5] = [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// As most commands of the system understand them.
const SHORT: [(&str, u64); 3] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

/// Bytes; `None` if it is no size or has more than 63 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().chain(&SHORT).find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|&bytes| i64::try_from(bytes).is_ok())
}

/// In the largest unit that shows it exactly.
pub fn format_size(bytes: u64) -> String {
    let fits = |(_, factor): &&(&str, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
    let (name, factor) = UNITS[1..].iter().rev().find(fits).unwrap_or(&UNITS[1]);
    format!("{} {name}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_a_round_trip() {
        for (text, bytes) in [("1 B", 1), ("64 KiB", 65536), ("2 MiB", 2 << 20), ("3 GiB", 3 << 30), ("4097 B", 4097)] {
            assert_eq!(parse_size(text), Some(bytes));
            assert_eq!(format_size(bytes), text);
        }
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("64KiB"), Some(65536));
        assert_eq!(parse_size("64K"), Some(65536));
        assert_eq!(format_size(0), "0 B");
    }

    #[test]
    fn nonsense_is_no_size() {
        for text in ["", "KiB", "-1", "1.5 MiB", "1 MB", "99999999999999999999", "9999999999 GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
