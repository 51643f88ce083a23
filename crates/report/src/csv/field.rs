//! Fields and how they are written.

use std::fmt::{self, Write};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Any text.
    Text(String),
    /// A count, a number of something.
    Integer(i128),
    /// A finite number.
    Number(f64),
    /// Not known.
    Missing,
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Field {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number + 0.0) } else { Self::Missing }
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl From<$integer> for Field {
            fn from(n: $integer) -> Self {
                Self::Integer(n as i128)
            }
        })*
    };
}
integers!(i32 u32 u64 usize);

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Integer(n) => write!(f, "{n}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Missing => Ok(()),
        }
    }
}

/// Quotes a field that would else read as several, or lose its blanks at the ends.
fn quoted(text: &str) -> String {
    let special = |c: char| matches!(c, '"' | ',' | '\n' | '\r');
    if text.contains(special) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// A column: its name and its value of a row.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Field);

/// A header and one line per row.
pub fn table<T>(rows: &[T], columns: &[Column<T>]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut out = names.join(",") + "\n";
    for row in rows {
        for (index, (_, value)) in columns.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{comma}{}", value(row));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_when_they_must_be() {
        assert_eq!(quoted("plain name"), "plain name");
        assert_eq!(quoted("f(int, char) a.c:1"), "\"f(int, char) a.c:1\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
        assert_eq!(quoted(" blank"), "\" blank\"");
    }

    #[test]
    fn numbers_are_plain() {
        let values = [1e-7.into(), 12_345_678_901u64.into(), f64::NAN.into(), None::<i32>.into(), Field::from(3.0)];
        assert_eq!(values.map(|value| value.to_string()), ["0.0000001", "12345678901", "", "", "3"]);
    }

    /// Sums of floating-point numbers that are all zero may be negative zeros.
    #[test]
    fn no_zero_is_negative() {
        let values =
            [(-0.0).into(), Some(-0.0).into(), (-0.0 * 3.0).into(), std::iter::empty::<f64>().sum::<f64>().into()];
        assert_eq!(values.map(|value: Field| value.to_string()), ["0", "0", "0", "0"]);
        assert_eq!(Field::from(-0.5).to_string(), "-0.5");
    }

    #[test]
    fn a_row_without_rows_is_a_header() {
        let columns: [Column<u64>; 2] = [("n", &|n| (*n).into()), ("text", &|_| "a,b".into())];
        assert_eq!(table(&[], &columns), "n,text\n");
        assert_eq!(table(&[7], &columns), "n,text\n7,\"a,b\"\n");
    }
}
