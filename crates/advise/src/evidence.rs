//! Who uses which part of an object: samples by page and node, summed up so that any range is two look-ups.

use numamma_findings::{InstanceUse, ObjectUse};

use crate::layout::Setting;

/// Samples of the instances of one size, one laid over the other.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Pages of the machine.
    pub units: usize,
    /// Nodes.
    pub nodes: usize,
    /// Samples before each page, by node: `[unit * nodes + node]`, one row more than pages.
    before: Vec<f64>,
}

impl Evidence {
    /// Of an object: of the size of instances that has most accesses. `is_exact`: each access was counted, and each is evidence.
    pub fn new(setting: &Setting<'_>, object: &ObjectUse, included: &[bool], is_exact: bool) -> Self {
        let units = main_size(setting, object);
        let nodes = setting.latencies.nodes;
        let mut before = vec![0.0; (units + 1) * nodes];
        for instance in object.instances.iter().filter(|instance| setting.units(instance) as usize == units) {
            for page in &instance.pages {
                let row = (setting.unit(instance, page.page) as usize + 1) * nodes;
                for of in page.by_thread.iter().filter(|of| included[of.thread] && of.memory > 0.0) {
                    before[row + setting.thread_nodes[of.thread]] +=
                        if is_exact { of.memory } else { of.samples as f64 };
                }
            }
        }
        for at in nodes..before.len() {
            before[at] += before[at - nodes];
        }
        Self { units, nodes, before }
    }

    /// Samples of a node before a page.
    pub fn before(&self, unit: usize) -> &[f64] {
        &self.before[unit * self.nodes..][..self.nodes]
    }

    /// Samples of each node in a range of pages.
    pub fn within(&self, start: usize, end: usize) -> impl Iterator<Item = f64> + '_ {
        self.before(end).iter().zip(self.before(start)).map(|(end, start)| end - start)
    }

    /// Samples of each node.
    pub fn all(&self) -> &[f64] {
        self.before(self.units)
    }

    /// All samples.
    pub fn samples(&self) -> f64 {
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
