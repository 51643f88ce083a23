//! Median, least and greatest.

use std::fmt;

/// What several rounds gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: usize,
}

impl Spread {
    /// Of at least one number.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
        Self { median, min: sorted[0], max: sorted[n - 1], rounds: n }
    }

    /// Of what `value` is in each round.
    pub fn over<T>(rounds: &[T], value: impl Fn(&T) -> f64) -> Self {
        Self::of(&rounds.iter().map(value).collect::<Vec<_>>())
    }

    /// All three times a factor: another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { median: self.median * factor, min: self.min * factor, max: self.max * factor, ..self }
    }
}

/// `1.02 (0.99 to 1.07)`; the precision is of each number.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$}", self.median)?;
        if self.rounds > 1 {
            write!(f, " ({:.digits$} to {:.digits$})", self.min, self.max)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0, rounds: 3 });
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
        assert_eq!(format!("{:.1}", Spread::of(&[4.0, 1.0])), "2.5 (1.0 to 4.0)");
        assert_eq!(format!("{:.1}", Spread::of(&[4.0])), "4.0");
    }
}
