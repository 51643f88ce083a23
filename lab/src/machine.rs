//! The guest that is asked for, and how QEMU is told.

use numamma_topology::CacheModel;

use crate::distance::LOCAL;
use crate::failure::{Failure, lab};
use crate::options::Options;

/// Nodes, CPUs, memory, distances.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Nodes with CPUs; they come first.
    pub cpu_nodes: usize,
    /// CPUs of each of these.
    pub cpus_per_node: usize,
    /// Of each node.
    pub mebibytes: u64,
    /// `[from][to]`, for all nodes.
    pub distance: Vec<Vec<u64>>,
    hmat: bool,
}

impl Machine {
    /// The machine of a command line.
    pub fn of(options: &Options) -> Result<Machine, Failure> {
        let cpu_nodes = options.nodes as usize;
        let cpus = options.cpus.unwrap_or(options.nodes) as usize;
        if !cpus.is_multiple_of(cpu_nodes) {
            return lab(format!("--cpus {cpus} cannot be dealt out to {cpu_nodes} nodes: give a multiple"));
        }
        let nodes = cpu_nodes + options.mem_nodes as usize;
        let distance = options.dist.table(nodes).map_err(|why| Failure::Lab(format!("--dist: {why}")))?;
        let cpus_per_node = cpus / cpu_nodes;
        Ok(Machine { cpu_nodes, cpus_per_node, mebibytes: options.memory, distance, hmat: options.hmat })
    }

    /// All nodes.
    pub fn nodes(&self) -> usize {
        self.distance.len()
    }

    /// All CPUs.
    pub fn cpus(&self) -> usize {
        self.cpu_nodes * self.cpus_per_node
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: usize) -> usize {
        cpu / self.cpus_per_node
    }

    /// The caches of this machine: each node with CPUs is a socket.
    pub fn caches(&self, asked: &CacheModel) -> CacheModel {
        CacheModel { sockets: self.cpu_nodes as u32, ..*asked }
    }

    /// What QEMU needs to be told.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "-machine".to_owned(),
            format!("pc{}", if self.hmat { ",hmat=on" } else { "" }),
            "-smp".to_owned(),
            format!("{},sockets={},cores={},threads=1", self.cpus(), self.cpu_nodes, self.cpus_per_node),
            "-m".to_owned(),
            format!("{}M", self.mebibytes * self.nodes() as u64),
        ];
        for node in 0..self.nodes() {
            arguments.push("-object".to_owned());
            arguments.push(format!("memory-backend-ram,id=node{node},size={}M", self.mebibytes));
            let initiator =
                if self.hmat { format!(",initiator={}", self.nearest_with_cpus(node)) } else { String::new() };
            arguments.push("-numa".to_owned());
            arguments.push(format!("node,nodeid={node},memdev=node{node}{initiator}"));
        }
        let mut numa = |text: String| arguments.extend(["-numa".to_owned(), text]);
        for node in 0..self.cpu_nodes {
            numa(format!("cpu,node-id={node},socket-id={node}"));
        }
        for (from, row) in self.distance.iter().enumerate() {
            for (to, distance) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                numa(format!("dist,src={from},dst={to},val={distance}"));
            }
        }
        if self.hmat {
            for (from, row) in self.distance[..self.cpu_nodes].iter().enumerate() {
                for (to, distance) in row.iter().enumerate() {
                    let of =
                        |what| format!("hmat-lb,initiator={from},target={to},hierarchy=memory,data-type=access-{what}");
                    numa(format!("{},latency={}", of("latency"), distance * 10));
                    numa(format!("{},bandwidth={}M", of("bandwidth"), 400 * LOCAL * 1024 / (distance * 10)));
                }
            }
        }
        arguments
    }

    fn nearest_with_cpus(&self, node: usize) -> usize {
        (0..self.cpu_nodes).min_by_key(|&from| self.distance[from][node]).unwrap_or(0)
    }
}
