//! One recording on one machine: what predictions and plans ask.

use numamma_findings::{ObjectUse, Usage};
use numamma_topology::MachineModel;

use crate::demand::Demand;
use crate::error::AdviseError;
use crate::latencies::Latencies;
use crate::layout::{Layout, Setting};
use crate::options::{Options, ThreadPlacement};
use crate::threads::thread_nodes;
use crate::time::{Cost, Otherwise, cost};
use crate::traffic::Traffic;

/// A recording, a machine and a question.
#[derive(Debug)]
pub struct Model<'a> {
    /// The recording.
    pub usage: &'a Usage,
    /// The machine.
    pub machine: &'a MachineModel,
    /// The question.
    pub options: &'a Options,
    /// The machine, checked.
    pub latencies: Latencies,
    /// The recording, as loads.
    pub demand: Demand,
}

impl<'a> Model<'a> {
    /// Checks all three.
    ///
    /// # Errors
    /// The fault, in one line.
    pub fn new(usage: &'a Usage, machine: &'a MachineModel, options: &'a Options) -> Result<Self, AdviseError> {
        let latencies = Latencies::new(machine)?;
        let demand = Demand::new(usage, &latencies, options)?;
        Ok(Self { usage, machine, options, latencies, demand })
    }

    /// The node of each thread.
    ///
    /// # Errors
    /// If the machine does not have it.
    pub fn thread_nodes(&self, placement: &ThreadPlacement) -> Result<Vec<usize>, AdviseError> {
        thread_nodes(self.usage, &self.demand.included, &self.machine.name, &self.latencies, placement)
    }

    /// True if nobody can say which thread will run on which node: threads of several processes are not pinned, and nothing was asked for.
    /// How many there are on each node is assumed.
    pub fn are_nodes_unknown(&self) -> bool {
        self.demand.processes > 1 && self.options.threads == ThreadPlacement::Best
    }

    /// Fails unless the machine has as many nodes as the recorded one, and those that threads and pages of the recording are on.
    pub fn holds_recorded(&self) -> Result<(), AdviseError> {
        self.thread_nodes(&ThreadPlacement::AsRecorded)?;
        if self.usage.nodes != self.latencies.nodes {
            let (recorded, nodes) = (self.usage.nodes, self.latencies.nodes);
            let text = format!("the recording is of {recorded} nodes, machine {} has {nodes}", self.machine.name);
            return Err(AdviseError::Option(text));
        }
        let pages = crate::demand::instances(self.usage).flat_map(|(_, instance)| &instance.pages);
        match pages.filter_map(|page| page.node).find(|node| !self.latencies.memory_nodes.contains(node)) {
            None => Ok(()),
            Some(node) => Err(AdviseError::NoSuchNode {
                what: "a page".into(),
                node,
                machine: self.machine.name.clone(),
                nodes: self.latencies.nodes,
            }),
        }
    }

    /// How pages are laid for threads on these nodes.
    pub fn setting<'b>(&'b self, thread_nodes: &'b [usize]) -> Setting<'b> {
        Setting {
            page_bytes: self.usage.page_bytes,
            pages: self.options.pages,
            affinity: self.options.affinity,
            latencies: &self.latencies,
            thread_nodes,
        }
    }

    /// No traffic.
    pub fn no_traffic(&self) -> Traffic {
        Traffic::new(self.demand.phases, self.demand.threads, self.latencies.nodes)
    }

    /// Adds the accesses of one object under a layout; its instances of fewer bytes than `least_bytes` lie where they are touched first.
    pub fn add_traffic(
        &self,
        traffic: &mut Traffic,
        setting: &Setting<'_>,
        object: &ObjectUse,
        layout: &Layout,
        least_bytes: u64,
    ) {
        for instance in &object.instances {
            let layout = if instance.bytes < least_bytes { &Layout::FirstTouch } else { layout };
            let nodes = setting.nodes(layout, object, instance);
            for (page, node) in instance.pages.iter().zip(nodes) {
                for of in page.by_thread.iter().filter(|of| self.demand.included[of.thread]) {
                    traffic.add(of.phase, of.thread, node, self.demand.share(page, of));
                }
            }
        }
    }

    /// The time of a placement.
    pub fn cost(&self, thread_nodes: &[usize], traffic: &Traffic, otherwise: Otherwise) -> Cost {
        cost(&self.demand, &self.latencies, thread_nodes, traffic, otherwise)
    }
}
