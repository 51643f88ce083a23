//! Numbers as people read them: three significant digits, a unit, thousands apart.

use crate::rows::finite;

/// `48 210`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count that fits six columns: `9 999`, `48.2k`, `1.20M`.
pub fn count(n: f64) -> String {
    let n = finite(n).max(0.0);
    if n.round() < 10_000.0 {
        return match n {
            n if n > 0.0 && n < 9.95 && n.fract() > 0.05 && n.fract() < 0.95 => format!("{n:.1}"),
            n => grouped(n.round() as u64),
        };
    }
    scaled(n, 1000.0, &["", "k", "M", "G", "T", "P"]).concat()
}

/// A size: `64 B`, `4 KiB`, `7.63 MiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]).join(" ")
}

/// `value` in the largest unit that keeps it at 1 or more, with three digits, whole numbers without a fraction.
fn scaled(value: f64, step: f64, units: &[&str]) -> [String; 2] {
    let mut value = value;
    let mut unit = 0;
    // 999.5 would print as four digits, so it already belongs to the next unit of 1000; 1023 KiB stays.
    let limit = if step == 1000.0 { 999.5 } else { step - 0.5 };
    while value >= limit && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if value.fract() == 0.0 { format!("{value:.0}") } else { three_digits(value) };
    [number, units[unit].to_string()]
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A duration: `431 ms`, `12.3 s`, `20m 34s`, `3h 25m`.
pub fn seconds(s: f64) -> String {
    let s = finite(s).max(0.0);
    let whole = s.round() as u64;
    match s {
        0.0 => "0 s".to_string(),
        // Nothing here is measured to nanoseconds.
        s if s < 0.9995e-6 => "<1 us".to_string(),
        s if s < 0.9995e-3 => format!("{} us", three_digits(s * 1e6)),
        s if s < 0.9995 => format!("{} ms", three_digits(s * 1e3)),
        s if s < 599.5 => format!("{} s", three_digits(s)),
        s if s < 3600.0 * 10.0 => match (whole / 3600, whole / 60 % 60, whole % 60) {
            (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
            (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
        },
        _ => format!("{}h", grouped((s / 3600.0).round() as u64)),
    }
}

/// A share with one decimal: `41.2 %`.
pub fn percent(share: f64) -> String {
    let percent = finite(share) * 100.0;
    match percent {
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_string(),
        // Rounding must not turn nearly all into all.
        p if (99.95..100.0).contains(&p) => ">99.9 %".to_string(),
        // No sign before a zero.
        p if p.abs() < 0.05 => "0.0 %".to_string(),
        p => format!("{p:.1} %"),
    }
}

/// A share in whole percent, without its sign: `26`, `<1`.
pub fn percent_whole(share: f64) -> String {
    let percent = finite(share) * 100.0;
    if percent > 0.0 && percent < 0.5 { "<1".to_string() } else { format!("{percent:.0}") }
}

/// `1 page`, `2 000 pages`.
pub fn plural(n: u64, one: &str) -> String {
    format!(
        "{} {one}{}",
        grouped(n),
        match (n, one) {
            (1, _) => "",
            (_, one) if one.ends_with("ss") => "es",
            _ => "s",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(
            [0.0, 0.4, 9999.0, 9999.6, 48210.0, 999_499.0, 1e6].map(count),
            ["0", "0.4", "9 999", "10.0k", "48.2k", "999k", "1M"]
        );
        assert_eq!(count(f64::NAN), "0");
    }

    #[test]
    fn sizes_have_three_digits() {
        assert_eq!(
            [0, 1023, 1024, 8_000_000, 800_000_000, 1 << 40].map(bytes),
            ["0 B", "1023 B", "1 KiB", "7.63 MiB", "763 MiB", "1 TiB"]
        );
        assert_eq!(bytes(u64::MAX), "16384 PiB");
    }

    #[test]
    fn durations_change_unit() {
        assert_eq!(
            [0.0, 5e-7, 0.0123, 0.9999, 12.34, 123.4, 1234.0, 12345.0, 360_000.0].map(seconds),
            ["0 s", "<1 us", "12.3 ms", "1.00 s", "12.3 s", "123 s", "20m 34s", "3h 25m", "100h"]
        );
    }

    #[test]
    fn shares_do_not_round_to_none_or_all() {
        assert_eq!(
            [0.0, -0.0, -0.0004, 0.0001, 0.412, 0.99999, 1.0, f64::NAN].map(percent),
            ["0.0 %", "0.0 %", "0.0 %", "<0.1 %", "41.2 %", ">99.9 %", "100.0 %", "0.0 %"]
        );
        assert_eq!([0.001, 0.256].map(percent_whole), ["<1", "26"]);
    }

    #[test]
    fn plurals() {
        assert_eq!(
            [plural(1, "process"), plural(2, "process"), plural(0, "page")],
            ["1 process", "2 processes", "0 pages"]
        );
    }
}
