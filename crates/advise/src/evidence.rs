//! Use of an object by node: shares of pages by node, summed up so that any range is two look-ups.
//!
//! A page is one piece of evidence, however many samples it has: if owners of pages were drawn at random, all samples of a page would
//! agree all the same.

use numamma_findings::{InstanceUse, ObjectUse};

use crate::layout::Setting;

/// Shares of the pages of the instances of one size, one laid over the other.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Pages of the machine.
    pub units: usize,
    /// Nodes.
    pub nodes: usize,
    /// Shares of all pages before each page, by node: `[unit * nodes + node]`, one row more than pages.
    before: Vec<f64>,
}

impl Evidence {
    /// Of an object: of the size of instances that has most accesses.
    pub fn new(setting: &Setting<'_>, object: &ObjectUse, included: &[bool]) -> Self {
        let units = main_size(setting, object);
        let nodes = setting.latencies.nodes;
        let mut before = vec![0.0; (units + 1) * nodes];
        for instance in object.instances.iter().filter(|instance| setting.units(instance) as usize == units) {
            for pages in setting.by_units(instance) {
                let uses = || pages.iter().flat_map(|page| &page.by_thread).filter(|of| included[of.thread]);
                let all: f64 = uses().map(|of| of.memory).sum();
                let row = (setting.unit(instance, pages[0].page) as usize + 1) * nodes;
                for of in uses().filter(|of| of.memory > 0.0) {
                    before[row + setting.thread_nodes[of.thread]] += of.memory / all;
                }
            }
        }
        Self::sums(units, nodes, before)
    }

    /// Of one instance, with threads in the place of nodes, and as many pages in each unit as leave no more than `most` units. Returns the
    /// pages of a unit, too.
    pub fn of_threads(instance: &InstanceUse, threads: usize, most: usize) -> (Self, u64) {
        let pages = instance.pages.iter().map(|page| page.page + 1).max().unwrap_or(0);
        let each = pages.div_ceil(most as u64).max(1);
        let units = pages.div_ceil(each) as usize;
        let mut before = vec![0.0; (units + 1) * threads];
        for page in &instance.pages {
            let all: f64 = page.by_thread.iter().map(|of| of.memory).sum();
            let row = ((page.page / each) as usize + 1) * threads;
            for of in page.by_thread.iter().filter(|of| of.memory > 0.0) {
                before[row + of.thread] += of.memory / all;
            }
        }
        (Self::sums(units, threads, before), each)
    }

    /// `before`: of each page, in the row behind it.
    fn sums(units: usize, nodes: usize, mut before: Vec<f64>) -> Self {
        for at in nodes..before.len() {
            before[at] += before[at - nodes];
        }
        Self { units, nodes, before }
    }

    /// Shares of the pages before a page, by node.
    pub fn before(&self, unit: usize) -> &[f64] {
        &self.before[unit * self.nodes..][..self.nodes]
    }

    /// Shares of a range of pages, by node.
    pub fn within(&self, start: usize, end: usize) -> impl Iterator<Item = f64> + '_ {
        self.before(end).iter().zip(self.before(start)).map(|(end, start)| end - start)
    }

    /// Shares of all pages, by node.
    pub fn all(&self) -> &[f64] {
        self.before(self.units)
    }

    /// Pages that are used.
    pub fn pages(&self) -> f64 {
        self.all().iter().sum()
    }
}

/// Pages of the instances that have most accesses together.
fn main_size(setting: &Setting<'_>, object: &ObjectUse) -> usize {
    let mut sizes = std::collections::BTreeMap::<u64, f64>::new();
    for instance in &object.instances {
        *sizes.entry(setting.units(instance)).or_default() += memory(instance);
    }
    let most = sizes.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or(0, |(&units, _)| units as usize)
}

/// Accesses to memory of an instance, in the unit of the recording.
pub fn memory(instance: &InstanceUse) -> f64 {
    instance.pages.iter().flat_map(|page| &page.by_thread).map(|of| of.memory).sum()
}
