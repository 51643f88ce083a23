//! The layouts that an object's use calls for.

use std::ops::RangeInclusive;

use numamma_findings::{InstanceUse, ObjectUse};

use crate::blocks::{Blocks, best_cycle, equal};
use crate::evidence::Evidence;
use crate::layout::{Layout, Setting};
use crate::model::Model;
use crate::options::Affinity;
use crate::predict::workers;
use crate::runs::{Run, is_orderly, local_share, owned_share, runs};
use crate::weights::{is_even, weights};

/// Bytes of a page in a map.
const MAP_PAGE: u64 = 4096;
/// Ranges of owners are known if they hold this part of the pages, and blocks explain them if they make this part local of what ranges
/// make local beyond chance.
const EXPLAINED: f64 = 0.8;
/// Blocks that explain this part leave no more than noise to a map.
const ALL_BUT_NOISE: f64 = 0.95;
/// A map needs owners of this part of the pages: in an object that all share, a few neighbours agree by chance.
const MOSTLY: f64 = 0.4;
/// Gain that chance may have, in nats: a pattern that is not there passes in one of 20 cases at most.
const CHANCE: f64 = 3.0;
/// Samples of an instance that tell its user: five of two equal threads are of one in 6 of 100 cases.
const FEWEST: u64 = 5;
/// Part of the accesses that must be to such instances.
const KNOWN: f64 = 0.9;
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
    let is_small = object.instances.iter().any(|instance| instance.blocks > 0);
    if model.are_nodes_unknown() {
        all.extend((!is_small).then(|| (2, Layout::Interleave(memory.clone()))));
        return all.into_iter().map(|(rank, layout)| Proposal { layout, rank }).collect();
    }
    if is_small {
        // Of blocks that share their pages, a plan can only say in which part of the heap each is allocated.
        if object.kind == "heap" {
            all.push((2, Layout::Gather(memory.clone())));
        }
        return all.into_iter().map(|(rank, layout)| Proposal { layout, rank }).collect();
    }
    let evidence = Evidence::new(setting, object, &model.demand.included);
    let by_node = accesses(setting, &object.instances);
    let mut homes = [Affinity::MostAccesses, Affinity::LeastCost]
        .map(|affinity| Setting { affinity, ..*setting }.home(&by_node))
        .to_vec();
    homes.dedup();
    all.extend(homes.into_iter().flatten().map(|home| (1, Layout::Bind(home))));
    all.extend(by_instance(model, setting, object).map(|layout| (1, layout)));
    all.push((2, Layout::Interleave(memory.clone())));
    let workers = workers(model, setting.thread_nodes);
    let weights = weights(&model.latencies, &workers).filter(|weights| !is_even(weights));
    all.extend(weights.map(|weights| (2, Layout::Weighted(weights))));
    all.extend(by_range(model, setting, object, &evidence, &workers));
    all.into_iter().map(|(rank, layout)| Proposal { layout, rank }).collect()
}

/// Blocks and maps. A map that makes hardly more local than blocks follows the noise of the samples.
fn by_range(
    model: &Model<'_>,
    setting: &Setting<'_>,
    object: &ObjectUse,
    evidence: &Evidence,
    workers: &[usize],
) -> Vec<(u8, Layout)> {
    let memory = &model.latencies.memory_nodes;
    let owners = runs(evidence);
    let (owned, local) = (owned_share(evidence, &owners), local_share(evidence, &owners));
    let chance = 1.0 / workers.len().max(1) as f64;
    let mut all = Vec::new();
    let mut explained = 0.0_f64;
    // Threads on nodes without memory have their blocks on the nearest one, which a map can say.
    if workers.iter().all(|node| memory.contains(node)) {
        let known = (owned >= EXPLAINED).then_some(local);
        let mut real = |blocks: Option<Blocks>| {
            let real = blocks.filter(|blocks| is_real(evidence, known, blocks))?;
            explained = explained.max((real.local_share - chance) / (local - chance));
            Some(real)
        };
        all.extend(real(equal(evidence, workers)).map(|found| (3, Layout::Block(found.nodes))));
        all.extend(real(best_cycle(evidence, workers)).map(|found| {
            (4, Layout::BlockCyclic { bytes: found.units as u64 * setting.unit_bytes(), nodes: found.nodes })
        }));
    }
    let order: Vec<usize> = owners.iter().filter_map(|run| run.node).collect();
    if order.len() > 1 && owned >= MOSTLY && explained < ALL_BUT_NOISE && is_orderly(&order) {
        all.push((5, map(setting, object, &owners, memory)));
    }
    all
}

/// True if blocks are more than chance. Where ranges of owners are known, with this local share, blocks must explain them, and each
/// page is evidence against owners of pages drawn at random; else each block is one piece of evidence.
fn is_real(evidence: &Evidence, owners: Option<f64>, blocks: &Blocks) -> bool {
    let nodes = blocks.nodes.len();
    let chance = 1.0 / nodes as f64;
    let share = blocks.local_share.clamp(chance, 0.999_999);
    let gain = share * (share / chance).ln() + (1.0 - share) * ((1.0 - share) / (1.0 - chance)).ln();
    let orders = if blocks.is_turned { (nodes as f64).ln() } else { (1..=nodes).map(|n| (n as f64).ln()).sum() };
    let pieces = match owners {
        Some(owners) if share - chance < EXPLAINED * (owners - chance) => 0.0,
        Some(_) => evidence.pages(),
        None => evidence.pages().min(evidence.units as f64 / blocks.units as f64),
    };
    pieces * gain > (evidence.units as f64).ln() + orders + CHANCE
}

/// Accesses to instances by node.
fn accesses(setting: &Setting<'_>, instances: &[InstanceUse]) -> Vec<f64> {
    let mut accesses = vec![0.0; setting.latencies.nodes];
    for of in instances.iter().flat_map(|instance| &instance.pages).flat_map(|page| &page.by_thread) {
        accesses[setting.thread_nodes[of.thread]] += of.memory;
    }
    accesses
}

/// Instances that have one user each, in ranges of one node.
fn by_instance(model: &Model<'_>, setting: &Setting<'_>, object: &ObjectUse) -> Option<Layout> {
    if object.instances.len() < 2 || !(model.demand.is_exact() || are_known(&object.instances)) {
        return None;
    }
    let mut ranges: Vec<(RangeInclusive<u64>, usize)> = Vec::new();
    for instance in &object.instances {
        let Some(node) = setting.home(&accesses(setting, std::slice::from_ref(instance))) else { continue };
        match ranges.last_mut() {
            Some((range, last)) if *last == node => *range = *range.start()..=instance.instance,
            _ => ranges.push((instance.instance..=instance.instance, node)),
        }
    }
    let nodes: Vec<usize> = ranges.iter().map(|(_, node)| *node).collect();
    let layouts = || ranges.into_iter().map(|(range, node)| (range, Layout::Bind(node))).collect();
    (nodes.len() > 1 && is_orderly(&nodes)).then(|| Layout::Instances(layouts()))
}

/// True if the users of instances are known: nearly all accesses are to instances with samples of their own. Which thread takes the next of
/// many short-lived blocks, such as messages, is chance, and one sample in each would tell of the last run.
fn are_known(instances: &[InstanceUse]) -> bool {
    let uses = |instance: &'_ InstanceUse| -> (u64, f64) {
        let uses = instance.pages.iter().flat_map(|page| &page.by_thread).filter(|of| of.memory > 0.0);
        uses.fold((0, 0.0), |(samples, memory), of| (samples + of.samples, memory + of.memory))
    };
    let uses: Vec<(u64, f64)> = instances.iter().map(uses).collect();
    let all: f64 = uses.iter().map(|(_, memory)| memory).sum();
    let known: f64 = uses.iter().filter(|(samples, _)| *samples >= FEWEST).map(|(_, memory)| memory).sum();
    known >= KNOWN * all
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
