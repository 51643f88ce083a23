//! Intervals for shares of samples: what every `error` is.

/// Half-width of the 95 % interval of a share `part / whole` of independent samples: Wilson's interval, which is honest
/// for few samples too, taken as the larger distance from the share to its ends. `None` without samples.
pub fn share_error(part: u64, whole: u64) -> Option<f64> {
    if whole == 0 {
        return None;
    }
    const Z: f64 = 1.959_963_984_540_054;
    let (n, p) = (whole as f64, part as f64 / whole as f64);
    let center = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    Some((center + half - p).max(p - (center - half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        // p = 0.5, n = 100: 0.4038 .. 0.5962 (Brown, Cai, DasGupta 2001).
        assert!((share_error(50, 100).unwrap() - 0.0962).abs() < 1e-4);
        // No sample of ten: up to 0.2775.
        assert!((share_error(0, 10).unwrap() - 0.2775).abs() < 1e-4);
        assert_eq!(share_error(0, 0), None);
    }
}
