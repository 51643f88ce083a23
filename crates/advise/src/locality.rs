//! Numbers about where accesses go.

/// Sample standard deviation of the nodes' accesses over their mean; 0 if there are none.
pub fn imbalance(accesses: &[f64]) -> f64 {
    let n = accesses.len() as f64;
    let mean = accesses.iter().sum::<f64>() / n;
    if accesses.len() < 2 || mean <= 0.0 {
        return 0.0;
    }
    let squares: f64 = accesses.iter().map(|accesses| (accesses - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt() / mean
}

/// The node with most accesses, the lowest of several; `None` if there are none.
pub fn most_accesses(accesses: &[f64]) -> Option<usize> {
    let best = (0..accesses.len()).rev().max_by(|&a, &b| accesses[a].total_cmp(&accesses[b]))?;
    (accesses[best] > 0.0).then_some(best)
}

/// The node of `to` with the least sum of accesses times latency; `latency(from, to)`.
pub fn least_cost(accesses: &[f64], to: &[usize], latency: impl Fn(usize, usize) -> f64) -> Option<usize> {
    let cost = |node: usize| -> f64 {
        accesses.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(from, n)| n * latency(from, node)).sum()
    };
    to.iter().copied().min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaël Thomas, course on NUMA: the imbalance if k of 8 nodes are accessed equally.
    #[test]
    fn imbalance_of_the_course() {
        let of = |used: usize| {
            let accesses: Vec<f64> = (0..8).map(|node| if node < used { 100.0 } else { 0.0 }).collect();
            (100.0 * imbalance(&accesses)).round()
        };
        assert_eq!([8, 7, 6, 5, 4, 3, 2, 1].map(of), [0.0, 40.0, 62.0, 83.0, 107.0, 138.0, 185.0, 283.0]);
        assert_eq!((imbalance(&[]), imbalance(&[3.0]), imbalance(&[0.0, 0.0])), (0.0, 0.0, 0.0));
    }

    /// Marathe and Mueller's machine: 207 cycles to local and 409 to remote memory.
    #[test]
    fn affinity_both_ways() {
        let altix = |from: usize, to: usize| if from == to { 207.0 } else { 409.0 };
        assert_eq!(most_accesses(&[3.0, 5.0]), Some(1));
        assert_eq!(least_cost(&[3.0, 5.0], &[0, 1], altix), Some(1));
        assert_eq!((most_accesses(&[2.0, 2.0]), most_accesses(&[0.0, 0.0])), (Some(0), None));
        // A node in the middle can be cheapest without most accesses.
        let line = |from: usize, to: usize| [155.0, 275.0, 380.0][from.abs_diff(to)];
        assert_eq!(most_accesses(&[5.0, 2.0, 5.0]), Some(0));
        assert_eq!(least_cost(&[5.0, 2.0, 5.0], &[0, 1, 2], line), Some(1));
        assert_eq!(least_cost(&[5.0, 2.0, 5.0], &[0, 2], line), Some(0));
    }
}
