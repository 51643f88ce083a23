//! A machine as the model computes with it: idle latencies, and what queueing adds to them.
//!
//! The contention curve gives the latency of local memory while `c` CPUs of the machine access one node as fast as they can. Less the
//! idle latency it is the time in the node's queue, in which all CPUs wait alike, near or far.

use numamma_topology::MachineModel;

use crate::error::AdviseError;

/// Where a machine's contention is not known: what each further CPU that waits for a node adds to a load, as a part of the latency of
/// local memory. On the course's machine, 48 CPUs that load one node wait 870 cycles in place of 155.
const TYPICAL_CONTENTION: f64 = (870.0 / 155.0 - 1.0) / 47.0;

/// Latencies and bandwidths of a machine.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes with memory.
    pub memory_nodes: Vec<usize>,
    /// CPUs of each node.
    pub cpus: Vec<u32>,
    /// Nanoseconds, `[node of the CPU * nodes + node of the page]`.
    idle_ns: Vec<f64>,
    /// CPUs that access a node at once, and the nanoseconds that each access waits in its queue; ascending.
    queue: Vec<(f64, f64)>,
    /// True if `queue` is the machine's own.
    pub contention_known: bool,
    /// GB/s of each node's memory.
    pub node_gb_s: Vec<Option<f64>>,
    /// GB/s, as `idle_ns`.
    pub link_gb_s: Option<Vec<f64>>,
}

impl Latencies {
    /// Checks a machine.
    ///
    /// # Errors
    /// If it has no nodes, or a latency is missing or no positive number.
    pub fn new(machine: &MachineModel) -> Result<Self, AdviseError> {
        let wrong = |fault: String| AdviseError::Machine { name: machine.name.clone(), fault };
        let nodes = machine.nodes.len();
        let cpus: Vec<u32> = machine.nodes.iter().map(|node| node.cpus).collect();
        if cpus.iter().all(|&cpus| cpus == 0) {
            return Err(wrong("it has no node with CPUs".into()));
        }
        if machine.latency_ns.iter().all(Vec::is_empty) {
            return Err(wrong(
                "its latencies are not known: measure them (numamma machine --measure), or name another".into(),
            ));
        }
        let mut idle_ns = vec![f64::NAN; nodes * nodes];
        for from in (0..nodes).filter(|&from| cpus[from] > 0) {
            let row = machine.latency_ns.get(from).filter(|row| row.len() == nodes);
            let row = row.ok_or_else(|| wrong(format!("latency_ns of node {from} needs {nodes} numbers")))?;
            if let Some(to) = row.iter().position(|ns| !(ns.is_finite() && *ns > 0.0)) {
                return Err(wrong(format!("latency_ns[{from}][{to}] is no positive number")));
            }
            idle_ns[from * nodes..][..nodes].copy_from_slice(row);
        }
        let positive = |gb_s: f64| gb_s.is_finite() && gb_s > 0.0;
        let link_gb_s: Vec<f64> = machine.bandwidth_gbs.iter().flatten().copied().collect();
        let is_square =
            machine.bandwidth_gbs.len() == nodes && machine.bandwidth_gbs.iter().all(|row| row.len() == nodes);
        let mut latencies = Self {
            nodes,
            memory_nodes: (0..nodes).filter(|&n| machine.nodes[n].memory_bytes != Some(0)).collect(),
            idle_ns,
            queue: vec![(1.0, 0.0)],
            contention_known: true,
            node_gb_s: machine.nodes.iter().map(|node| node.bandwidth_gbs.filter(|&gb_s| positive(gb_s))).collect(),
            link_gb_s: (is_square && link_gb_s.iter().all(|&gb_s| positive(gb_s))).then_some(link_gb_s),
            cpus,
        };
        for point in machine.contention.iter().filter(|point| point.cpus > 1 && point.latency_ns.is_finite()) {
            let (cpus, before) = (f64::from(point.cpus), latencies.queue[latencies.queue.len() - 1]);
            if cpus > before.0 {
                let added = point.latency_ns - latencies.local_ns();
                latencies.queue.push((cpus, added.max(before.1)));
            }
        }
        if latencies.queue.len() == 1 {
            latencies.contention_known = false;
            latencies.queue.push((2.0, TYPICAL_CONTENTION * latencies.local_ns()));
        }
        Ok(latencies)
    }

    /// Nanoseconds of a load from a CPU of `from` to memory of `to` on an idle machine.
    pub fn idle_ns(&self, from: usize, to: usize) -> f64 {
        self.idle_ns[from * self.nodes + to]
    }

    /// Mean idle latency of local memory.
    pub fn local_ns(&self) -> f64 {
        let local = self.cpu_nodes().map(|node| self.idle_ns(node, node));
        local.sum::<f64>() / self.cpu_nodes().count() as f64
    }

    /// Nodes with CPUs.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes).filter(|&node| self.cpus[node] > 0)
    }

    /// Nanoseconds in the queue of a node that `waiting` CPUs wait for at a time. Behind the last point of the curve it grows as
    /// between the last two.
    pub fn queue_ns(&self, waiting: f64) -> f64 {
        let Some(last) = self.queue.len().checked_sub(2) else { return 0.0 };
        let at = self.queue[1..].iter().position(|&(cpus, _)| waiting <= cpus).unwrap_or(last);
        let ((c0, q0), (c1, q1)) = (self.queue[at], self.queue[at + 1]);
        (q0 + (q1 - q0) * (waiting - c0) / (c1 - c0)).max(0.0)
    }
}
