//! Which page of an object goes where: the arithmetic of the policies that give each page a place of its own. The applier has the
//! same in C (`inject/preload/place/lay.c`); a test compares the two.

use numamma_wire::plan as wire;

/// Pages in a row on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index into the nodes of the rule.
    pub node: u32,
    /// Pages.
    pub pages: u64,
}

/// The runs of an object of `pages` pages of `page` bytes; `map`: the runs of the rule's map. Empty for policies that leave single
/// pages to the kernel. A block shorter than a page is one page.
pub fn lay(rule: &wire::Rule, map: &[wire::Run], pages: u64, page: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut push = |node: u32, pages: u64| match runs.last_mut() {
        _ if pages == 0 => {}
        Some(last) if last.node == node => last.pages += pages,
        _ => runs.push(Run { node, pages }),
    };
    let nodes = rule.nodes.max(1);
    match rule.policy {
        wire::POLICY_BLOCK => {
            let border = |n: u32| (u128::from(pages) * u128::from(n) / u128::from(nodes)) as u64;
            (0..nodes).for_each(|n| push(n, border(n + 1) - border(n)));
        }
        wire::POLICY_CYCLIC => {
            let block = (rule.block_bytes / page).max(1);
            let starts = (0..pages).step_by(usize::try_from(block).unwrap_or(usize::MAX));
            starts.zip((0..nodes).cycle()).for_each(|(start, n)| push(n, block.min(pages - start)));
        }
        wire::POLICY_MAP => {
            // Pages of the map have 4 KiB.
            let (mut at, mut wanted) = (0_u64, 0_u64);
            while at < pages && !map.is_empty() {
                for (n, run) in map.iter().enumerate() {
                    wanted += run.pages * 4096;
                    let rest = rule.repeat == 0 && n + 1 == map.len();
                    let end = if rest { pages } else { (wanted / page).min(pages) };
                    push(run.node, end.saturating_sub(at));
                    at = at.max(end);
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

    fn run(node: u32, pages: u64) -> Run {
        Run { node, pages }
    }

    fn rule(policy: u32, nodes: u32) -> wire::Rule {
        wire::Rule { policy, nodes, ..wire::Rule::default() }
    }

    #[test]
    fn blocks_differ_by_a_page_at_most() {
        let block = |nodes, pages| lay(&rule(wire::POLICY_BLOCK, nodes), &[], pages, 4096);
        assert_eq!(block(4, 10), [run(0, 2), run(1, 3), run(2, 2), run(3, 3)]);
        assert_eq!(block(4, 2), [run(1, 1), run(3, 1)]);
        assert_eq!(block(1, 7), [run(0, 7)]);
        assert_eq!(block(3, 0), []);
    }

    #[test]
    fn cyclic_blocks_go_round() {
        let cyclic = |block_bytes, nodes, pages| {
            lay(&wire::Rule { block_bytes, ..rule(wire::POLICY_CYCLIC, nodes) }, &[], pages, 4096)
        };
        assert_eq!(cyclic(8192, 2, 5), [run(0, 2), run(1, 2), run(0, 1)]);
        assert_eq!(cyclic(100, 2, 2), [run(0, 1), run(1, 1)]);
        assert_eq!(cyclic(4096, 1, 3), [run(0, 3)]);
    }

    #[test]
    fn a_map_repeats_or_leaves_the_rest_to_its_last_node() {
        let map = [wire::Run { pages: 2, node: 1, pad: 0 }, wire::Run { pages: 1, node: 0, pad: 0 }];
        let lay = |repeat, map: &[wire::Run], pages, page| {
            lay(&wire::Rule { repeat, ..rule(wire::POLICY_MAP, 2) }, map, pages, page)
        };
        assert_eq!(lay(0, &map, 7, 4096), [run(1, 2), run(0, 5)]);
        assert_eq!(lay(1, &map, 7, 4096), [run(1, 2), run(0, 1), run(1, 2), run(0, 1), run(1, 1)]);
        let huge = [wire::Run { pages: 512, node: 0, pad: 0 }, wire::Run { pages: 512, node: 1, pad: 0 }];
        assert_eq!(lay(1, &huge, 3, 2 << 20), [run(0, 1), run(1, 1), run(0, 1)]);
    }
}
