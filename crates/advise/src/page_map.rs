//! Where threads and pages are without a plan and under it, short enough to draw.

use std::collections::BTreeMap;

use numamma_findings::{InstanceUse, ObjectAdvice, ObjectUse, PageNodes, PlacementMap, ThreadNodes};

use crate::choose::COLD;
use crate::model::Model;
use crate::predict::{Layouts, own_layout};

/// Bins of an object, at most: as many as can be told apart on a screen.
const BINS: u64 = 256;

/// Threads on nodes and objects in layouts.
#[derive(Clone, Copy, Debug)]
pub struct Placing<'a> {
    /// Node of each thread.
    pub thread_nodes: &'a [usize],
    /// Layout of each object.
    pub layouts: &'a Layouts,
}

/// The map of threads, and of the objects whose place matters, in the order of their advice.
pub fn page_map(model: &Model<'_>, advice: &[ObjectAdvice], now: Placing<'_>, planned: Placing<'_>) -> PlacementMap {
    let included = (0..model.usage.threads.len()).filter(|&thread| model.demand.included[thread]);
    let nodes = |thread| ThreadNodes { thread, now: now.thread_nodes[thread], planned: planned.thread_nodes[thread] };
    let matters = advice.iter().filter(|advice| advice.memory_share >= COLD);
    let at = |advice: &ObjectAdvice| model.usage.objects.iter().position(|object| object.id == advice.id);
    PlacementMap {
        threads: included.map(nodes).collect(),
        objects: matters.filter_map(at).map(|n| pages(model, n, now, planned)).collect(),
    }
}

fn pages(model: &Model<'_>, n: usize, now: Placing<'_>, planned: Placing<'_>) -> PageNodes {
    let object = &model.usage.objects[n];
    let page_bytes = model.usage.page_bytes;
    let pages: u64 = object.instances.iter().map(|instance| pages_of(instance, page_bytes)).sum();
    let bin_pages = pages.div_ceil(BINS).max(1);
    let bins = |placing| bins(model, object, n, placing, pages.div_ceil(bin_pages), bin_pages);
    PageNodes { id: object.id, page_bytes, pages, bin_pages, now: bins(now), planned: bins(planned) }
}

/// Pages of each node in each bin.
fn bins(
    model: &Model<'_>,
    object: &ObjectUse,
    n: usize,
    placing: Placing<'_>,
    bins: u64,
    bin_pages: u64,
) -> Vec<Vec<(usize, u64)>> {
    let setting = model.setting(placing.thread_nodes);
    let layout = own_layout(object, placing.layouts.of(n));
    let mut counts = vec![BTreeMap::new(); bins as usize];
    let mut before = 0;
    for instance in &object.instances {
        for (page, node) in instance.pages.iter().zip(setting.nodes(layout, object, instance)) {
            *counts[((before + page.page) / bin_pages) as usize].entry(node).or_insert(0) += 1;
        }
        before += pages_of(instance, model.usage.page_bytes);
    }
    counts.into_iter().map(|counts| counts.into_iter().collect()).collect()
}

/// Pages of an instance, those included that nobody used.
fn pages_of(instance: &InstanceUse, page_bytes: u64) -> u64 {
    let listed = instance.pages.last().map_or(0, |page| page.page + 1);
    (instance.page_offset + instance.bytes).div_ceil(page_bytes).max(listed)
}
