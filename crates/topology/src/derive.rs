//! From what firmware and kernel say to a model, and back to a machine that has a model's nodes.

use std::collections::BTreeMap;
use std::fmt;

use crate::doctor::count;
use crate::machine::{Cache, Cpu, Machine, Node};
use crate::model::{MachineModel, ModelNode};

/// Latency of local memory where only distances are known, nanoseconds.
const LOCAL_NS: f64 = 100.0;

/// Why the latencies of a machine are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyUnknown {
    /// The reason, without a full stop.
    pub reason: String,
}

impl fmt::Display for LatencyUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the latencies of this machine are not known: {}", self.reason)
    }
}

impl std::error::Error for LatencyUnknown {}

impl MachineModel {
    /// The model that the firmware's own numbers give (HMAT). Distances give none: they are no times, and often wrong.
    ///
    /// # Errors
    /// If the firmware leaves out the latency of a pair of nodes.
    pub fn from_machine(machine: &Machine) -> Result<Self, LatencyUnknown> {
        let mut model = Self::without_latencies(machine);
        let nodes = machine.used_nodes();
        if nodes.iter().all(|node| node.performance.is_none()) {
            let reason = "the firmware states distances only; measure them with `numamma machine --measure`".to_owned();
            return Err(LatencyUnknown { reason });
        }
        for from in &nodes {
            let latencies = nodes.iter().map(|to| match stated(from, to) {
                _ if from.cpus.is_empty() => Ok(None),
                Some((latency_ns, bandwidth)) => Ok(Some((latency_ns, bandwidth))),
                None => Err(LatencyUnknown {
                    reason: format!("the firmware states no latency from node {} to memory of node {}", from.id, to.id),
                }),
            });
            let row: Vec<(f64, Option<f64>)> =
                latencies.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            model.latency_ns.push(row.iter().map(|&(latency_ns, _)| latency_ns).collect());
            model.bandwidth_gbs.push(row.iter().map_while(|&(_, bandwidth)| bandwidth).collect());
        }
        let whole = model.latency_ns.iter().zip(&model.bandwidth_gbs).all(|(row, other)| row.len() == other.len());
        if !whole {
            model.bandwidth_gbs.clear();
        }
        model.source = format!("{}; latencies as its firmware states them (HMAT)", model.source);
        Ok(model)
    }

    /// The model that the firmware's distances give, if they are taken as ratios of latencies, with 100 ns for local memory. That is an
    /// assumption: whoever uses it must say so. `None` if a distance is missing.
    pub fn from_distances(machine: &Machine) -> Option<Self> {
        let mut model = Self::without_latencies(machine);
        let nodes = machine.used_nodes();
        for from in &nodes {
            let to_each = nodes.iter().filter(|_| !from.cpus.is_empty());
            let row =
                to_each.map(|to| from.distances.get(&to.id).map(|&distance| f64::from(distance) * LOCAL_NS / 10.0));
            model.latency_ns.push(row.collect::<Option<Vec<f64>>>()?);
        }
        model.source = format!("{}; its firmware's distances taken as latencies", model.source);
        Some(model)
    }

    /// The nodes that the kernel uses, in order of their numbers, without any latency.
    pub fn without_latencies(machine: &Machine) -> Self {
        let nodes = machine.used_nodes();
        let description = machine.model.clone().unwrap_or_else(|| "unknown processor".to_owned());
        Self {
            name: format!("{description}, {}", count(nodes.len(), "node", "nodes")),
            source: "the kernel's description of the machine".to_owned(),
            page_bytes: machine.page_bytes.unwrap_or(4096),
            // What transparent huge pages are made of: the smallest.
            huge_page_bytes: machine.huge_page_bytes.iter().copied().find(|&bytes| Some(bytes) > machine.page_bytes),
            ghz: None,
            cache_bytes: nodes.iter().find_map(|node| shared_cache(machine, node)),
            nodes: nodes.iter().map(|node| model_node(machine, node)).collect(),
            latency_ns: Vec::new(),
            bandwidth_gbs: Vec::new(),
            contention: Vec::new(),
        }
    }

    /// A machine with these nodes: CPUs numbered from node to node, the threads of a core next to each other.
    pub fn to_machine(&self) -> Machine {
        let mut machine = Machine {
            model: Some(self.name.clone()),
            page_bytes: Some(self.page_bytes),
            huge_page_bytes: self.huge_page_bytes.into_iter().collect(),
            memory_bytes: self.nodes.iter().map(|node| node.memory_bytes).sum(),
            ..Machine::default()
        };
        let mut core = 0;
        for (id, node) in (0..).zip(&self.nodes) {
            let first = machine.cpus.len() as u32;
            let cpus: Vec<u32> = (first..first + node.cpus).collect();
            for siblings in cpus.chunks(node.threads_per_core.max(1) as usize) {
                let caches = self.cache_bytes.map(|bytes| Cache {
                    level: 3,
                    kind: "Unified".to_owned(),
                    bytes: Some(bytes),
                    line_bytes: None,
                    ways: None,
                    shared_by: cpus.clone(),
                });
                machine.cpus.extend(siblings.iter().map(|&id_of_cpu| Cpu {
                    id: id_of_cpu,
                    online: true,
                    node: Some(id),
                    package: None,
                    core: Some(core),
                    siblings: siblings.to_vec(),
                    caches: caches.iter().cloned().collect(),
                }));
                core += 1;
            }
            machine.nodes.push(Node {
                id,
                online: true,
                memory_only: cpus.is_empty(),
                cpus,
                memory_bytes: node.memory_bytes,
                distances: BTreeMap::new(),
                performance: None,
            });
        }
        machine
    }
}

impl Machine {
    /// The nodes of a model: those that are online and have CPUs or memory.
    pub fn used_nodes(&self) -> Vec<&Node> {
        let used = |node: &&Node| node.online && (!node.cpus.is_empty() || node.memory_bytes != Some(0));
        self.nodes.iter().filter(used).collect()
    }
}

fn model_node(machine: &Machine, node: &Node) -> ModelNode {
    let siblings = |cpu: &Cpu| cpu.siblings.iter().filter(|id| node.cpus.binary_search(id).is_ok()).count();
    let of_node = machine.cpus.iter().filter(|cpu| cpu.node == Some(node.id));
    let threads = of_node.map(siblings).max().unwrap_or(1).max(1) as u32;
    let cpus = node.cpus.len() as u32;
    // A hybrid processor has cores of both kinds.
    let threads_per_core = if cpus.is_multiple_of(threads) { threads } else { 1 };
    ModelNode { cpus, threads_per_core, memory_bytes: node.memory_bytes, bandwidth_gbs: None }
}

/// Latency in nanoseconds and bandwidth in GB/s, if the firmware states them for this pair.
fn stated(from: &Node, to: &Node) -> Option<(f64, Option<f64>)> {
    let performance = to.performance.as_ref().filter(|stated| stated.initiators.contains(&from.id))?;
    let bandwidth = performance.read_bandwidth_mb.map(|mb| mb as f64 / 1e3);
    Some((performance.read_latency_ns? as f64, bandwidth))
}

/// Bytes of the last level of caches of a node's CPUs; of a cache that other nodes share, the node's part.
fn shared_cache(machine: &Machine, node: &Node) -> Option<u64> {
    let of_node = || machine.cpus.iter().filter(|cpu| cpu.node == Some(node.id));
    let last = of_node().flat_map(|cpu| cpu.caches.iter().map(|cache| cache.level)).max()?;
    let mut caches: Vec<&Cache> = Vec::new();
    for cache in of_node().flat_map(|cpu| &cpu.caches).filter(|cache| cache.level == last) {
        if !caches.iter().any(|other| other.shared_by == cache.shared_by) {
            caches.push(cache);
        }
    }
    let part = |cache: &&Cache| {
        let inside = cache.shared_by.iter().filter(|cpu| node.cpus.binary_search(cpu).is_ok()).count() as u64;
        Some(cache.bytes? * inside.max(1) / cache.shared_by.len().max(1) as u64)
    };
    caches.iter().map(part).sum()
}
