//! Layouts as policies of a plan.

use numamma_findings::ObjectUse;
use numamma_plan::{Gather, Nodes, Object, Policy};

use crate::latencies::Latencies;
use crate::layout::Layout;
use crate::target::Named;

/// The policy of a plan for all instances alike; `None` for layouts that no plan can say so.
pub fn policy(layout: &Layout, latencies: &Latencies, map_pages: u64) -> Option<Policy> {
    let list = |nodes: &[usize]| Nodes::List(nodes.iter().map(|&node| node as u32).collect());
    // A plan that names no nodes also fits another machine.
    let nodes = |nodes: &[usize]| if nodes == latencies.memory_nodes { Nodes::All } else { list(nodes) };
    let runs = |runs: &[(usize, u64)]| runs.iter().map(|&(node, pages)| (node as u32, pages)).collect();
    match layout {
        Layout::FirstTouch => Some(Policy::FirstTouch),
        Layout::Bind(node) => Some(Policy::Bind(list(&[*node]))),
        Layout::Interleave(of) => Some(Policy::Interleave(nodes(of))),
        // The policy of that name takes the system's weights, which are not these.
        Layout::Weighted(weights) => {
            let weights: Vec<(usize, u64)> = weights.iter().map(|&(node, pages)| (node, pages * map_pages)).collect();
            Some(Policy::Map { runs: runs(&weights), repeat: true })
        }
        Layout::Block(of) | Layout::Gather(of) => Some(Policy::Block(nodes(of))),
        Layout::BlockCyclic { nodes: of, bytes } => Some(Policy::BlockCyclic { nodes: nodes(of), bytes: *bytes }),
        Layout::Map { runs: of, repeat } => Some(Policy::Map { runs: runs(of), repeat: *repeat }),
        Layout::AsRecorded | Layout::ByOwner | Layout::Instances(_) => None,
    }
}

/// The objects of a plan for a layout.
pub fn objects(of: &ObjectUse, named: &Named, layout: &Layout, latencies: &Latencies, map_pages: u64) -> Vec<Object> {
    let object = |policy, instances| Object {
        line: 0,
        // Names of plans are of one line.
        name: Some(of.name.replace(char::is_control, " ")),
        target: named.target.clone(),
        callers: named.callers.clone(),
        module: named.module.clone(),
        bytes: 0..=u64::MAX,
        instances,
        policy,
        phases: Vec::new(),
        page: None,
        gather: gather(of, layout),
    };
    if let Layout::Instances(ranges) = layout {
        let number = |instance: &u64| u32::try_from(*instance).unwrap_or(u32::MAX);
        let of_range = |(range, layout): &(std::ops::RangeInclusive<u64>, Layout)| {
            let policy = policy(layout, latencies, map_pages)?;
            Some(object(policy, number(range.start())..=number(range.end())))
        };
        return ranges.iter().filter_map(of_range).collect();
    }
    policy(layout, latencies, map_pages).map(|policy| object(policy, 0..=u32::MAX)).into_iter().collect()
}

fn gather(object: &ObjectUse, layout: &Layout) -> Option<Gather> {
    let blocks: u64 = object.instances.iter().map(|instance| instance.blocks).sum();
    matches!(layout, Layout::Gather(_)).then(|| Gather::ByInstance(u32::try_from(blocks).unwrap_or(u32::MAX)))
}

/// A layout in words, as reports show it.
pub fn words(layout: &Layout) -> String {
    let size = numamma_plan::format_size;
    match layout {
        Layout::AsRecorded => "as recorded".into(),
        Layout::FirstTouch => "first-touch".into(),
        Layout::Bind(node) => format!("bind to node {node}"),
        Layout::Instances(_) => "bind each instance".into(),
        Layout::Interleave(_) => "interleave".into(),
        Layout::Weighted(_) => "weighted interleave".into(),
        Layout::Block(_) => "block".into(),
        Layout::BlockCyclic { bytes, .. } => format!("block-cyclic, {}", size(*bytes)),
        Layout::Map { runs, .. } => format!("map of {} runs", runs.len()),
        Layout::Gather(_) => "gather, spread over the nodes".into(),
        Layout::ByOwner => "by owner".into(),
    }
}
