//! The size of blocks that are dealt out to nodes in turn: every size is tried.
//!
//! With samples summed up from the start, a size costs one look-up for each block, so all sizes together cost pages * ln(pages). No
//! sample decides alone, and a size that is off by one page drifts away from the true borders over many blocks.

use crate::evidence::Evidence;

/// Blocks in turn, and how well they fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// Pages of a block.
    pub units: usize,
    /// The nodes in their order.
    pub nodes: Vec<usize>,
    /// Share of the samples at pages of their own node.
    pub local_share: f64,
}

/// The best size of blocks for these nodes; `None` if an object has fewer pages than nodes, or no samples.
pub fn best_cycle(evidence: &Evidence, nodes: &[usize]) -> Option<Blocks> {
    let mut best: Option<Blocks> = None;
    for units in 1..=evidence.units.div_ceil(nodes.len().max(1)) {
        let starts = (0..evidence.units).step_by(units);
        let fit = fit(evidence, nodes, starts.map(|start| (start, (start + units).min(evidence.units))));
        // Of sizes that fit alike, the largest: it has the fewest borders.
        if best.as_ref().is_none_or(|best| fit.1 >= best.local_share) {
            best = Some(Blocks { units, nodes: fit.0, local_share: fit.1 });
        }
    }
    best.filter(|best| nodes.len() > 1 && evidence.units >= nodes.len() && best.local_share > 0.0)
}

/// As many equal blocks as nodes.
pub fn equal(evidence: &Evidence, nodes: &[usize]) -> Option<Blocks> {
    if nodes.len() < 2 || evidence.units < nodes.len() {
        return None;
    }
    let border = |n: usize| evidence.units * n / nodes.len();
    let (order, local_share) = fit(evidence, nodes, (0..nodes.len()).map(|n| (border(n), border(n + 1))));
    Some(Blocks { units: evidence.units / nodes.len(), nodes: order, local_share })
}

/// The order of nodes in which most samples are local, and their share.
fn fit(evidence: &Evidence, nodes: &[usize], blocks: impl Iterator<Item = (usize, usize)>) -> (Vec<usize>, f64) {
    let count = nodes.len();
    // Samples by place in the turn and node.
    let mut samples = vec![0.0; count * count];
    for (n, (start, end)) in blocks.enumerate() {
        let (before, behind) = (evidence.before(start), evidence.before(end));
        let row = &mut samples[n % count * count..][..count];
        row.iter_mut().zip(nodes).for_each(|(sum, &node)| *sum += behind[node] - before[node]);
    }
    let all = evidence.samples().max(f64::MIN_POSITIVE);
    let of_order = |order: &[usize]| (0..count).map(|place| samples[place * count + order[place]]).sum::<f64>() / all;
    // In order from any start, as loops deal blocks out; else each place takes the node that gains most.
    let turned = (0..count).map(|start| (0..count).map(|place| (place + start) % count).collect::<Vec<_>>());
    let scored = turned.chain([greedy(&samples, count)]).map(|order| (of_order(&order), order));
    let best = scored.reduce(|best, next| if next.0 > best.0 * (1.0 + 1e-9) { next } else { best });
    let (share, order) = best.unwrap_or_default();
    (order.iter().map(|&n| nodes[n]).collect(), share)
}

/// Places take nodes, most samples first, each node once.
fn greedy(samples: &[f64], count: usize) -> Vec<usize> {
    let mut order = vec![usize::MAX; count];
    let mut taken = vec![false; count];
    for _ in 0..count {
        let mut best = (f64::NEG_INFINITY, 0, 0);
        for place in (0..count).filter(|&place| order[place] == usize::MAX) {
            for node in (0..count).filter(|&node| !taken[node]) {
                if samples[place * count + node] > best.0 {
                    best = (samples[place * count + node], place, node);
                }
            }
        }
        (order[best.1], taken[best.2]) = (best.2, true);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_place_gets_a_node_of_its_own() {
        assert_eq!(greedy(&[1.0, 9.0, 0.0, 8.0, 9.5, 0.0, 0.0, 0.0, 0.0], 3), [0, 1, 2]);
        let mut random = Random::new(1);
        let samples: Vec<f64> = (0..64).map(|_| random.share()).collect();
        let mut order = greedy(&samples, 8);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
