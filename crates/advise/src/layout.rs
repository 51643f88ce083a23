//! The node of each page of an instance under a placement.

use std::ops::RangeInclusive;

use numamma_findings::{InstanceUse, ObjectUse, PageUse};
use numamma_plan::lay;
use numamma_wire::plan as wire;

use crate::latencies::Latencies;
use crate::locality::{least_cost, most_accesses};
use crate::options::{Affinity, HUGE, Pages};

/// Where the pages of an object lie.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// As in the recording.
    AsRecorded,
    /// With the thread that touches a page first.
    FirstTouch,
    /// All on one node.
    Bind(usize),
    /// Ranges of instances, each in its own way; those that are in no range: first touch.
    Instances(Vec<(RangeInclusive<u64>, Layout)>),
    /// Page by page in turn.
    Interleave(Vec<usize>),
    /// So many pages on each node in turn.
    Weighted(Vec<(usize, u64)>),
    /// As many equal blocks as nodes.
    Block(Vec<usize>),
    /// Blocks in turn.
    BlockCyclic {
        /// Nodes in their order.
        nodes: Vec<usize>,
        /// Bytes of a block.
        bytes: u64,
    },
    /// Runs of pages of 4 KiB.
    Map {
        /// Node and pages.
        runs: Vec<(usize, u64)>,
        /// From the start again at the end.
        repeat: bool,
    },
    /// Blocks of less than a page in equal parts, in the order in which they are allocated; others: first touch.
    Gather(Vec<usize>),
    /// Each page with its main user.
    ByOwner,
}

/// Machine, thread placement and page size that a layout is computed for.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Bytes of a page in the recording.
    pub page_bytes: u64,
    /// Pages on the machine.
    pub pages: Pages,
    /// How a page's main user is chosen.
    pub affinity: Affinity,
    /// The machine.
    pub latencies: &'a Latencies,
    /// Node of each thread.
    pub thread_nodes: &'a [usize],
}

impl Setting<'_> {
    /// Bytes of a page on the machine.
    pub fn unit_bytes(&self) -> u64 {
        match self.pages {
            Pages::Small => self.page_bytes,
            Pages::Huge => HUGE.max(self.page_bytes),
        }
    }

    /// Number of the machine's page that holds a page of the recording, from the first of the instance.
    pub fn unit(&self, instance: &InstanceUse, page: u64) -> u64 {
        let offset = if self.pages == Pages::Huge { instance.huge_offset } else { 0 };
        (page * self.page_bytes + offset) / self.unit_bytes()
    }

    /// Number of the machine's pages of an instance.
    pub fn units(&self, instance: &InstanceUse) -> u64 {
        let last = (instance.page_offset + instance.bytes).saturating_sub(1) / self.page_bytes;
        let last = instance.pages.last().map_or(last, |page| page.page.max(last));
        self.unit(instance, last) + 1
    }

    /// The node of each page that the instance lists.
    pub fn nodes(&self, layout: &Layout, object: &ObjectUse, instance: &InstanceUse) -> Vec<usize> {
        let mut nodes = self.asked(layout, object, instance);
        let is_placed =
            !matches!(layout, Layout::AsRecorded | Layout::FirstTouch | Layout::ByOwner | Layout::Instances(_));
        if is_placed && instance.pages.iter().any(|page| !self.is_whole(instance, page)) {
            let touched = self.first_touch(object, instance);
            for ((node, touched), page) in nodes.iter_mut().zip(touched).zip(&instance.pages) {
                *node = if self.is_whole(instance, page) { *node } else { touched };
            }
        }
        nodes
    }

    /// True if the instance has all of the page: others stay where they are.
    fn is_whole(&self, instance: &InstanceUse, page: &PageUse) -> bool {
        let start = page.page * self.page_bytes;
        start >= instance.page_offset && start + self.page_bytes <= instance.page_offset + instance.bytes
    }

    fn asked(&self, layout: &Layout, object: &ObjectUse, instance: &InstanceUse) -> Vec<usize> {
        match layout {
            Layout::Gather(nodes) if instance.blocks > 0 => {
                let of = |n: usize| nodes[n * nodes.len() / instance.pages.len()];
                (0..instance.pages.len()).map(of).collect()
            }
            Layout::AsRecorded | Layout::ByOwner if instance.blocks > 0 => self.of_pages(layout, object, instance),
            // Their pages hold other objects, too.
            _ if instance.blocks > 0 => self.first_touch(object, instance),
            _ => self.of_pages(layout, object, instance),
        }
    }

    fn of_pages(&self, layout: &Layout, object: &ObjectUse, instance: &InstanceUse) -> Vec<usize> {
        match layout {
            Layout::AsRecorded => {
                let touched = self.first_touch(object, instance);
                let node = |(page, touched): (&PageUse, usize)| page.node.unwrap_or(touched);
                instance.pages.iter().zip(touched).map(node).collect()
            }
            Layout::FirstTouch | Layout::Gather(_) => self.first_touch(object, instance),
            Layout::Bind(node) => vec![*node; instance.pages.len()],
            Layout::Instances(ranges) => match ranges.iter().find(|(range, _)| range.contains(&instance.instance)) {
                Some((_, layout)) => self.nodes(layout, object, instance),
                None => self.first_touch(object, instance),
            },
            Layout::Interleave(nodes) => self.by_unit(instance, |unit| nodes[unit as usize % nodes.len()]),
            Layout::Weighted(weights) => {
                let turn: Vec<usize> = weights.iter().flat_map(|&(node, n)| (0..n).map(move |_| node)).collect();
                self.by_unit(instance, |unit| turn[unit as usize % turn.len()])
            }
            Layout::Block(nodes) => self.in_runs(instance, wire::POLICY_BLOCK, nodes, 0, &[], false),
            Layout::BlockCyclic { nodes, bytes } => {
                self.in_runs(instance, wire::POLICY_CYCLIC, nodes, *bytes, &[], false)
            }
            Layout::Map { runs, repeat } => self.in_runs(instance, wire::POLICY_MAP, &[], 0, runs, *repeat),
            Layout::ByOwner => self.by_owner(instance),
        }
    }

    fn by_unit(&self, instance: &InstanceUse, mut node: impl FnMut(u64) -> usize) -> Vec<usize> {
        instance.pages.iter().map(|page| node(self.unit(instance, page.page))).collect()
    }

    /// The applier's own arithmetic.
    fn in_runs(
        &self,
        instance: &InstanceUse,
        policy: u32,
        nodes: &[usize],
        block_bytes: u64,
        map: &[(usize, u64)],
        repeat: bool,
    ) -> Vec<usize> {
        let unit = self.unit_bytes();
        let block_bytes = ((block_bytes + unit / 2) / unit).max(1) * unit;
        let nodes_of_rule = nodes.len() as u32;
        let rule = wire::Rule {
            policy,
            nodes: nodes_of_rule,
            block_bytes,
            repeat: u32::from(repeat),
            ..wire::Rule::default()
        };
        let map: Vec<wire::Run> =
            map.iter().map(|&(node, pages)| wire::Run { pages, node: node as u32, pad: 0 }).collect();
        let mut runs = lay(&rule, &map, self.units(instance), unit).into_iter();
        let (mut end, mut node) = (0, 0);
        self.by_unit(instance, |at| {
            while at >= end
                && let Some(run) = runs.next()
            {
                (end, node) = (end + run.pages, run.node as usize);
            }
            nodes.get(node).copied().unwrap_or(node)
        })
    }

    /// Node of the thread that touches a page first. Of a huge page that is the one that begins in it, since a thread that comes from
    /// the page before reaches it last; of a page whose toucher was not seen, that of the page before.
    fn first_touch(&self, object: &ObjectUse, instance: &InstanceUse) -> Vec<usize> {
        let usual = object.first_touch.first().map(|touch| touch.thread).filter(|&t| t < self.thread_nodes.len());
        let first = instance.pages.iter().find_map(|page| page.first_touch).or(usual).unwrap_or(0);
        let mut before = first;
        let mut touchers = Vec::with_capacity(instance.pages.len());
        for page in &instance.pages {
            before = page.first_touch.filter(|&t| t < self.thread_nodes.len()).unwrap_or(before);
            touchers.push(before);
        }
        if self.pages == Pages::Huge {
            let small = touchers.clone();
            let mut at = 0;
            for unit in self.by_units(instance) {
                let range = at..at + unit.len();
                let begins = range.clone().find(|&n| n == 0 || small[n] != small[n - 1]);
                touchers[range.clone()].fill(small[begins.unwrap_or(at)]);
                at = range.end;
            }
        }
        touchers.into_iter().map(|thread| self.thread_nodes[thread]).collect()
    }

    /// The listed pages of each page of the machine.
    pub fn by_units<'b>(&self, instance: &'b InstanceUse) -> impl Iterator<Item = &'b [PageUse]> {
        instance.pages.chunk_by(|a, b| self.unit(instance, a.page) == self.unit(instance, b.page))
    }

    fn by_owner(&self, instance: &InstanceUse) -> Vec<usize> {
        let mut nodes = Vec::with_capacity(instance.pages.len());
        for unit in self.by_units(instance) {
            let mut accesses = vec![0.0; self.latencies.nodes];
            for of in unit.iter().flat_map(|page| &page.by_thread) {
                accesses[self.thread_nodes[of.thread]] += of.memory;
            }
            let node = self.home(&accesses).unwrap_or_else(|| nodes.last().copied().unwrap_or(0));
            nodes.extend(std::iter::repeat_n(node, unit.len()));
        }
        nodes
    }

    /// The best node for what the nodes access so often; `None` if they do not.
    pub fn home(&self, accesses: &[f64]) -> Option<usize> {
        let most = most_accesses(accesses)?;
        match self.affinity {
            Affinity::MostAccesses if self.latencies.memory_nodes.contains(&most) => Some(most),
            _ => least_cost(accesses, &self.latencies.memory_nodes, |from, to| self.latencies.idle_ns(from, to)),
        }
    }
}
