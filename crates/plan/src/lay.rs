//! Which page of an object goes where: the arithmetic of the policies that give each page a place of its own. The applier has the
//! same in C (`inject/preload/place/lay.c`); a test compares the two.

use crate::model::Policy;

/// Pages in a row on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index into the nodes of the rule.
    pub node: usize,
    /// Pages.
    pub pages: u64,
}

/// The runs of an object of `pages` pages of `page` bytes over `nodes` nodes. Empty for policies that leave single pages to the
/// kernel. A block shorter than a page is one page.
pub fn lay(policy: &Policy, nodes: usize, pages: u64, page: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut push = |node: usize, pages: u64| match runs.last_mut() {
        _ if pages == 0 => {}
        Some(last) if last.node == node => last.pages += pages,
        _ => runs.push(Run { node, pages }),
    };
    match policy {
        Policy::Block(_) => {
            let border = |n: usize| (u128::from(pages) * n as u128 / nodes.max(1) as u128) as u64;
            (0..nodes).for_each(|n| push(n, border(n + 1) - border(n)));
        }
        Policy::BlockCyclic { bytes, .. } => {
            let block = (bytes / page).max(1);
            let mut at = 0;
            for n in (0..nodes.max(1)).cycle() {
                if at >= pages {
                    break;
                }
                push(n, block.min(pages - at));
                at += block;
            }
        }
        Policy::Map { runs: map, repeat } => {
            // Pages of the text have 4 KiB.
            let (mut at, mut wanted) = (0_u64, 0_u64);
            let mut order: Vec<u32> = map.iter().map(|(node, _)| *node).collect();
            order.sort_unstable();
            order.dedup();
            let index = |node: u32| order.binary_search(&node).unwrap_or(0);
            'all: while at < pages {
                for (n, &(node, length)) in map.iter().enumerate() {
                    wanted += length * 4096;
                    let last = !repeat && n + 1 == map.len();
                    let end = if last { pages } else { (wanted / page).min(pages) };
                    push(index(node), end.saturating_sub(at));
                    at = at.max(end);
                    if at >= pages {
                        break 'all;
                    }
                }
            }
        }
        _ => {}
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Nodes;

    fn run(node: usize, pages: u64) -> Run {
        Run { node, pages }
    }

    #[test]
    fn blocks_differ_by_a_page_at_most() {
        let block = Policy::Block(Nodes::All);
        assert_eq!(lay(&block, 4, 10, 4096), [run(0, 2), run(1, 3), run(2, 2), run(3, 3)]);
        assert_eq!(lay(&block, 4, 2, 4096), [run(1, 1), run(3, 1)]);
        assert_eq!(lay(&block, 1, 7, 4096), [run(0, 7)]);
        assert_eq!(lay(&block, 3, 0, 4096), []);
    }

    #[test]
    fn cyclic_blocks_go_round() {
        let cyclic = |bytes| Policy::BlockCyclic { nodes: Nodes::All, bytes };
        assert_eq!(lay(&cyclic(8192), 2, 5, 4096), [run(0, 2), run(1, 2), run(0, 1)]);
        assert_eq!(lay(&cyclic(100), 2, 2, 4096), [run(0, 1), run(1, 1)]);
        assert_eq!(lay(&cyclic(4096), 1, 3, 4096), [run(0, 3)]);
    }

    #[test]
    fn a_map_repeats_or_leaves_the_rest_to_its_last_node() {
        let map = |repeat| Policy::Map { runs: vec![(3, 2), (1, 1)], repeat };
        assert_eq!(lay(&map(false), 2, 7, 4096), [run(1, 2), run(0, 5)]);
        assert_eq!(lay(&map(true), 2, 7, 4096), [run(1, 2), run(0, 1), run(1, 2), run(0, 1), run(1, 1)]);
        // Huge pages: the border falls into the first one.
        let huge = Policy::Map { runs: vec![(0, 512), (1, 512)], repeat: true };
        assert_eq!(lay(&huge, 2, 3, 2 << 20), [run(0, 1), run(1, 1), run(0, 1)]);
    }
}
