//! The layouts that an object's use calls for.

use std::ops::RangeInclusive;

use numamma_findings::ObjectUse;

use crate::blocks::{best_cycle, equal};
use crate::evidence::Evidence;
use crate::layout::{Layout, Setting};
use crate::model::Model;
use crate::predict::workers;
use crate::runs::{Run, is_orderly, local_share, runs};

/// Bytes of a page in a map.
const MAP_PAGE: u64 = 4096;
/// A policy of blocks explains the use of an object if it makes this part local of what runs of owners make local beyond chance.
const EXPLAINED: f64 = 0.8;
/// Samples of chance, in nats: a pattern that is not there passes in one of 20 cases at most.
const CHANCE: f64 = 3.0;
/// Parts of a shared range of a map on each node, so that accesses of neighbouring pages meet different nodes.
const SHARED_PARTS: u64 = 4;

/// A layout to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// How the pages lie.
    pub layout: Layout,
    /// Simpler layouts have lower ranks.
    pub rank: u8,
}

/// All layouts for an object, simplest first.
pub fn proposals(model: &Model<'_>, setting: &Setting<'_>, object: &ObjectUse) -> Vec<Proposal> {
    let memory = &model.latencies.memory_nodes;
    let mut all = vec![(0, Layout::FirstTouch)];
    let evidence = Evidence::new(setting, object, &model.demand.included, model.demand.is_exact());
    if let Some(home) = setting.home(evidence.all()) {
        all.push((1, Layout::Bind(home)));
    }
    all.extend(by_instance(setting, object).map(|layout| (1, layout)));
    all.push((2, Layout::Interleave(memory.clone())));
    let workers = workers(model, setting.thread_nodes);
    if let Some(weights) = crate::weights::weights(&model.latencies, &workers) {
        all.push((2, Layout::Weighted(weights)));
    }
    let owners = runs(&evidence);
    let is_owned = owners.iter().filter(|run| run.node.is_some()).count() > 1;
    // Threads on nodes without memory have their blocks on the nearest one, which a map can say.
    if workers.iter().all(|node| memory.contains(node)) {
        let explained = is_owned.then(|| local_share(&evidence, &owners));
        let is_explained = |share: f64, blocks: usize| is_explained(&evidence, explained, workers.len(), share, blocks);
        if let Some(found) = equal(&evidence, &workers).filter(|found| is_explained(found.local_share, workers.len())) {
            all.push((3, Layout::Block(found.nodes)));
        }
        let found = best_cycle(&evidence, &workers);
        if let Some(found) = found.filter(|found| is_explained(found.local_share, evidence.units / found.units)) {
            all.push((4, Layout::BlockCyclic { bytes: found.units as u64 * setting.unit_bytes(), nodes: found.nodes }));
        }
    }
    if is_owned && is_orderly(&owners.iter().filter_map(|run| run.node).collect::<Vec<_>>(), model.latencies.nodes) {
        all.push((5, map(setting, object, &owners, memory)));
    }
    all.into_iter().map(|(rank, layout)| Proposal { layout, rank }).collect()
}

/// Whether blocks with this local share are more than chance. Where runs of owners are known, the blocks must explain them; else each
/// block is one piece of evidence against owners drawn at random.
fn is_explained(evidence: &Evidence, owners: Option<f64>, nodes: usize, share: f64, blocks: usize) -> bool {
    let chance = 1.0 / nodes as f64;
    if let Some(owners) = owners {
        return share - chance >= EXPLAINED * (owners - chance) && share > chance;
    }
    let share = share.clamp(chance, 0.999_999);
    let pieces = evidence.samples().min(blocks as f64);
    let gain = share * (share / chance).ln() + (1.0 - share) * ((1.0 - share) / (1.0 - chance)).ln();
    let orders: f64 = (1..=nodes).map(|n| (n as f64).ln()).sum();
    pieces * gain > (evidence.units as f64).ln() + orders + CHANCE
}

/// Instances that have one user each, in ranges of one node.
fn by_instance(setting: &Setting<'_>, object: &ObjectUse) -> Option<Layout> {
    if object.instances.len() < 2 {
        return None;
    }
    let mut ranges: Vec<(RangeInclusive<u64>, usize)> = Vec::new();
    for instance in &object.instances {
        let mut accesses = vec![0.0; setting.latencies.nodes];
        for of in instance.pages.iter().flat_map(|page| &page.by_thread) {
            accesses[setting.thread_nodes[of.thread]] += of.memory;
        }
        let Some(node) = setting.home(&accesses) else { continue };
        match ranges.last_mut() {
            Some((range, last)) if *last == node => *range = *range.start()..=instance.instance,
            _ => ranges.push((instance.instance..=instance.instance, node)),
        }
    }
    let nodes: Vec<usize> = ranges.iter().map(|(_, node)| *node).collect();
    let layouts = || ranges.into_iter().map(|(range, node)| (range, Layout::Bind(node))).collect();
    (nodes.len() > 1 && is_orderly(&nodes, setting.latencies.nodes)).then(|| Layout::Instances(layouts()))
}

/// Runs of owners as runs of a map; shared ranges go to all nodes in parts.
fn map(setting: &Setting<'_>, object: &ObjectUse, owners: &[Run], memory: &[usize]) -> Layout {
    let offset = object.instances.first().map_or(0, |instance| match setting.unit_bytes() > setting.page_bytes {
        true => instance.huge_offset,
        false => 0,
    });
    // Borders of the machine's pages, from the first page of the instance.
    let border = |unit: usize| (unit as u64 * setting.unit_bytes()).saturating_sub(offset) / MAP_PAGE;
    let mut runs: Vec<(usize, u64)> = Vec::new();
    let mut push = |node: usize, pages: u64| match runs.last_mut() {
        _ if pages == 0 => {}
        Some(last) if last.0 == node => last.1 += pages,
        _ => runs.push((node, pages)),
    };
    for run in owners {
        match run.node {
            Some(node) => {
                let mut accesses = vec![0.0; setting.latencies.nodes];
                accesses[node] = 1.0;
                push(setting.home(&accesses).unwrap_or(node), border(run.end) - border(run.start));
            }
            None => {
                let parts = (SHARED_PARTS as usize * memory.len()).min(run.end - run.start);
                let part = |n: usize| border(run.start + (run.end - run.start) * n / parts);
                (0..parts).for_each(|n| push(memory[n % memory.len()], part(n + 1) - part(n)));
            }
        }
    }
    Layout::Map { runs, repeat: false }
}
