//! Differences as people read them: with their sign, their error, and a mark where they are beyond it.

use numamma_findings::Change;

use super::super::{Page, objects::error, style::Style, table::Cell, units};
use crate::rows::finite;

/// A difference without a mark, in line with those that have one.
pub fn unmarked(text: &str) -> String {
    format!("{text}  ")
}

/// `-12.3 ±0.7 *`: points of a share.
pub fn points(change: &Change, page: &Page) -> Cell {
    let Some(difference) = change.difference else { return Cell::default() };
    cell(change, &signed_points(difference), &error(change.error, page))
}

/// `-1.21 s ±0.3 s *`
pub fn time(change: &Change, page: &Page) -> Cell {
    let Some(difference) = change.difference else { return Cell::default() };
    cell(change, &signed_time(difference), &time_error(change.error, page))
}

fn cell(change: &Change, difference: &str, error: &str) -> Cell {
    let text = [difference, error].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
    match change.significant {
        Some(true) => Cell::new(format!("{text} *")).style(Style::Warn),
        _ => Cell::new(unmarked(&text)),
    }
}

/// `±0.31 s`
pub fn time_error(error: Option<f64>, page: &Page) -> String {
    let error = error.filter(|error| error.is_finite());
    error.map_or(String::new(), |error| format!("{}{}", page.pen.plus_minus(), units::seconds(error)))
}

/// `+0.3`; what rounds to nothing has no sign.
pub fn signed_points(difference: f64) -> String {
    let text = format!("{:+.1}", finite(difference) * 100.0);
    if matches!(text.as_str(), "+0.0" | "-0.0") { "0.0".to_owned() } else { text }
}

/// `+12.3 ms`
pub fn signed_time(difference: f64) -> String {
    let difference = finite(difference);
    let sign = match difference {
        d if d > 0.0 => "+",
        d if d < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", units::seconds(difference.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_stand_where_there_is_a_difference() {
        assert_eq!([0.123, -0.0001, 0.0, -0.5].map(signed_points), ["+12.3", "0.0", "0.0", "-50.0"]);
        assert_eq!([1.25, -0.0123, 0.0].map(signed_time), ["+1.25 s", "-12.3 ms", "0 s"]);
    }
}
