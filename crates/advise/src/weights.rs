//! Weights of weighted interleaving: BWAP (Gureya and others, IPDPS 2020), w(i) ~ min over worker nodes j of bandwidth(i -> j).

use crate::latencies::Latencies;

/// Pages for a round, so that rounding moves no node's share by more than half of this part.
const ROUND: f64 = 64.0;

/// Pages on each node in turn for accesses from `workers`; `None` if bandwidths are not known.
pub fn weights(latencies: &Latencies, workers: &[usize]) -> Option<Vec<(usize, u64)>> {
    let links = latencies.link_gb_s.as_ref()?;
    let least = |node: usize| -> f64 {
        workers.iter().map(|&worker| links[worker * latencies.nodes + node]).fold(f64::INFINITY, f64::min)
    };
    let gb_s: Vec<f64> = latencies.memory_nodes.iter().map(|&node| least(node)).collect();
    let all: f64 = gb_s.iter().sum();
    if !all.is_finite() {
        return None;
    }
    let pages: Vec<u64> = gb_s.iter().map(|gb_s| (ROUND * gb_s / all).round() as u64).collect();
    let divisor = pages.iter().copied().fold(0, gcd).max(1);
    let weights = latencies.memory_nodes.iter().zip(pages).map(|(&node, pages)| (node, pages / divisor));
    Some(weights.filter(|(_, pages)| *pages > 0).collect())
}

/// True if all weights are the same.
pub fn is_even(weights: &[(usize, u64)]) -> bool {
    weights.windows(2).all(|pair| pair[0].1 == pair[1].1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
