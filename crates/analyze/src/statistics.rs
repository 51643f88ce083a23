//! Shares, and their intervals.

pub use numamma_findings::share_error;

/// `part / whole`, 0 of nothing.
pub fn ratio(part: f64, whole: f64) -> f64 {
    // A sum of nothing is -0, and no report should show that.
    if whole > 0.0 { part / whole + 0.0 } else { 0.0 }
}

/// Ends of the 95 % interval of the share that `part` is of `whole` independent trials (Wilson's); 0 and 1 without trials.
pub fn interval(part: f64, whole: f64) -> (f64, f64) {
    if whole <= 0.0 {
        return (0.0, 1.0);
    }
    const Z: f64 = crate::accuracy::Z;
    let p = part / whole;
    let center = (p + Z * Z / (2.0 * whole)) / (1.0 + Z * Z / whole);
    let half = Z / (1.0 + Z * Z / whole) * (p * (1.0 - p) / whole + Z * Z / (4.0 * whole * whole)).max(0.0).sqrt();
    (center - half, center + half)
}
