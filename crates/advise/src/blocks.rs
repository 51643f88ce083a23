//! The size of blocks that are dealt out to nodes in turn: every size is tried.
//!
//! With shares of pages summed up from the start, a size costs one look-up for each block, so all sizes together cost pages * ln(pages). No
//! page decides alone, and a size that is off by one page drifts away from the true borders over many blocks.

use crate::evidence::Evidence;

/// Blocks in turn, and how well they fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// Pages of a block.
    pub units: usize,
    /// The nodes in their order.
    pub nodes: Vec<usize>,
    /// Share of the accesses at pages of their own node, every page counted alike.
    pub local_share: f64,
    /// True if blocks follow the order of the nodes, starting at any node.
    pub is_turned: bool,
}

/// The best size of blocks for these nodes; `None` if an object has fewer pages than nodes, or is not used.
pub fn best_cycle(evidence: &Evidence, nodes: &[usize]) -> Option<Blocks> {
    let mut best: Option<Blocks> = None;
    for units in 1..=evidence.units.div_ceil(nodes.len().max(1)) {
        let starts = (0..evidence.units).step_by(units);
        let blocks = starts.map(|start| (start, (start + units).min(evidence.units)));
        // Of sizes that fit alike, the largest: it has the fewest borders.
        let least = best.as_ref().map_or(0.0, |best| best.local_share);
        best = fit(evidence, nodes, blocks, least).map(|fit| Blocks { units, ..fit }).or(best);
    }
    best.filter(|best| nodes.len() > 1 && evidence.units >= nodes.len() && best.local_share > 0.0)
}

/// As many equal blocks as nodes.
pub fn equal(evidence: &Evidence, nodes: &[usize]) -> Option<Blocks> {
    if nodes.len() < 2 || evidence.units < nodes.len() {
        return None;
    }
    let border = |n: usize| evidence.units * n / nodes.len();
    let fit = fit(evidence, nodes, (0..nodes.len()).map(|n| (border(n), border(n + 1))), 0.0)?;
    Some(Blocks { units: evidence.units / nodes.len(), ..fit })
}

/// The order of nodes in which most accesses are local; `None` if that are fewer than `least`.
fn fit(
    evidence: &Evidence,
    nodes: &[usize],
    blocks: impl Iterator<Item = (usize, usize)>,
    least: f64,
) -> Option<Blocks> {
    let count = nodes.len();
    // Shares of pages by place in the turn and node.
    let mut shares = vec![0.0; count * count];
    for (n, (start, end)) in blocks.enumerate() {
        let (before, behind) = (evidence.before(start), evidence.before(end));
        let row = &mut shares[n % count * count..][..count];
        row.iter_mut().zip(nodes).for_each(|(sum, &node)| *sum += behind[node] - before[node]);
    }
    let all = evidence.pages().max(f64::MIN_POSITIVE);
    // No order is better than the best node of each place.
    let best_nodes = shares.chunks_exact(count).map(|row| row.iter().copied().fold(0.0, f64::max));
    if best_nodes.sum::<f64>() / all < least {
        return None;
    }
    // In order from any start, as loops deal blocks out; else each place takes the node that gains most.
    let turned = |start: usize| (0..count).map(move |place| (place + start) % count);
    let local_share = |order: &mut dyn Iterator<Item = usize>| {
        order.enumerate().map(|(place, node)| shares[place * count + node]).sum::<f64>() / all
    };
    let mut best = Blocks { units: 0, nodes: Vec::new(), local_share: -1.0, is_turned: true };
    for start in 0..count {
        let local_share = local_share(&mut turned(start));
        if local_share > best.local_share + 1e-9 {
            best = Blocks { nodes: turned(start).collect(), local_share, ..best };
        }
    }
    let order = greedy(&shares, count);
    let local_share = local_share(&mut order.iter().copied());
    if local_share > best.local_share + 1e-9 {
        best = Blocks { units: 0, nodes: order, local_share, is_turned: false };
    }
    best.nodes.iter_mut().for_each(|n| *n = nodes[*n]);
    (best.local_share >= least).then_some(best)
}

/// Places take nodes, those with most accesses first, each node once.
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
