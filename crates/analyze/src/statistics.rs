//! Shares, and their intervals.

pub use numamma_findings::share_error;

/// `part / whole`, 0 of nothing.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
