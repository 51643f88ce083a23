//! The promise of a plan beside the result.

use numamma_findings::{Comparison, Promise};

use super::super::{Page, style::clean, units};

/// A few lines; none without a plan.
pub fn render(comparison: &Comparison, page: &Page) -> String {
    let Some(promise) = &comparison.promise else { return String::new() };
    let mut out = page.heading(&format!("Promised for {}, and reached", clean(&promise.machine, page.pen.unicode)));
    if let Some(time) = time(promise, page) {
        out += &page.labelled("  time", &time);
    }
    let reached = promise.remote_reached.map_or("not seen".to_string(), units::percent);
    out += &page.labelled("  remote", &format!("{} promised, {reached} reached", units::percent(promise.remote)));
    out
}

/// `81.0 % of A promised (78.0 to 85.0), 82.3 % reached: kept`.
fn time(promise: &Promise, page: &Page) -> Option<String> {
    let (time, low, high) = (promise.time?, promise.time_low?, promise.time_high?);
    let digits = |part: f64| format!("{:.1}", 100.0 * part);
    let promised = format!("{} of A promised ({} to {})", units::percent(time), digits(low), digits(high));
    let Some(reached) = promise.time_reached else { return Some(promised) };
    let error = promise.time_error.map(|error| format!(" {}{}", page.pen.plus_minus(), digits(error)));
    let verdict = match promise.time_kept {
        Some(true) => ": kept",
        Some(false) if reached < low => ": better",
        Some(false) => ": not kept",
        None => "; run both several times to tell chance apart",
    };
    Some(format!("{promised}, {}{} reached{verdict}", units::percent(reached), error.unwrap_or_default()))
}
