//! Nodes, CPUs, caches and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tree::{Tree, field, size};

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// A machine: where its CPUs and its memory are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub model: Option<String>,
    /// Ascending by id. A kernel without NUMA support shows as one node 0.
    pub nodes: Vec<Node>,
    /// Ascending by id, offline CPUs included.
    pub cpus: Vec<Cpu>,
    /// Memory of all nodes that the kernel manages.
    pub memory_bytes: Option<u64>,
    /// The base page.
    pub page_bytes: Option<u64>,
    /// The sizes of huge pages, ascending.
    pub huge_page_bytes: Vec<u64>,
}

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: u32,
    /// True if the kernel uses it now.
    pub online: bool,
    /// Its online CPUs.
    pub cpus: Vec<u32>,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Memory without CPUs: CXL, HBM, persistent memory.
    pub memory_only: bool,
    /// The firmware's distance to each online node, 10 being local.
    pub distances: BTreeMap<u32, u32>,
    /// What the firmware promises to the nearest CPUs (HMAT); most machines say nothing.
    pub performance: Option<Performance>,
}

/// Latency and bandwidth of a node's memory as its firmware states them, seen from `initiators`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// The nodes whose CPUs reach this memory best.
    pub initiators: Vec<u32>,
    /// Read latency in nanoseconds.
    pub read_latency_ns: Option<u64>,
    /// Write latency in nanoseconds.
    pub write_latency_ns: Option<u64>,
    /// Read bandwidth in MB/s.
    pub read_bandwidth_mb: Option<u64>,
    /// Write bandwidth in MB/s.
    pub write_bandwidth_mb: Option<u64>,
}

/// One logical CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The kernel's number.
    pub id: u32,
    /// True if the kernel schedules on it now.
    pub online: bool,
    /// Its node; unknown while it is offline.
    pub node: Option<u32>,
    /// Its socket.
    pub package: Option<u32>,
    /// Its core, unique within the package only.
    pub core: Option<u32>,
    /// The CPUs of the same core, itself included.
    pub siblings: Vec<u32>,
    /// Its caches, nearest first.
    pub caches: Vec<Cache>,
}

/// One cache as one CPU sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3, ..
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: Option<u64>,
    /// Its line.
    pub line_bytes: Option<u64>,
    /// Lines of a set.
    #[serde(default)]
    pub ways: Option<u32>,
    /// The CPUs that share it.
    pub shared_by: Vec<u32>,
}

impl Machine {
    /// Reads the machine whose `/sys` and `/proc` lie below `root`.
    pub fn read(root: &Path) -> Self {
        let tree = Tree::new(root);
        let meminfo = tree.text("proc/meminfo").unwrap_or_default();
        let memory_bytes = field(&meminfo, "MemTotal").and_then(size);
        let mut cpus = read_cpus(&tree);
        let mut nodes = read_nodes(&tree);
        if nodes.is_empty() && (!cpus.is_empty() || memory_bytes.is_some()) {
            nodes.push(whole_machine(&cpus, memory_bytes));
        }
        for node in &nodes {
            for cpu in cpus.iter_mut().filter(|cpu| node.cpus.binary_search(&cpu.id).is_ok()) {
                cpu.node = Some(node.id);
            }
        }
        Self {
            model: model(&tree),
            // The nodes of a guest may claim the memory of their host.
            memory_bytes: memory_bytes.or_else(|| total(&nodes)),
            page_bytes: page_bytes(&tree),
            huge_page_bytes: huge_page_bytes(&tree),
            nodes,
            cpus,
        }
    }

    /// The node that holds `cpu`; `None` if it is unknown or offline.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<u32> {
        let index = self.cpus.binary_search_by_key(&cpu, |cpu| cpu.id).ok()?;
        self.cpus[index].node
    }

    /// The node with this id.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The firmware's distance between two online nodes.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        self.node(from)?.distances.get(&to).copied()
    }

    /// The CPUs that run threads now.
    pub fn online_cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id)
    }

    /// The number of sockets with an online CPU.
    pub fn packages(&self) -> usize {
        self.cpus.iter().filter_map(|cpu| cpu.package).collect::<BTreeSet<_>>().len()
    }

    /// The number of cores with an online CPU.
    pub fn cores(&self) -> usize {
        let cores = self.cpus.iter().filter_map(|cpu| Some((cpu.package, cpu.core?)));
        cores.collect::<BTreeSet<_>>().len()
    }

    /// True if memory lies in more than one place, so that an access can be remote.
    pub fn is_numa(&self) -> bool {
        let with_memory = |node: &&Node| node.online && node.memory_bytes.is_none_or(|b| b > 0);
        self.nodes.iter().filter(with_memory).count() > 1
    }
}

/// What stands for the machine on a kernel without NUMA support.
fn whole_machine(cpus: &[Cpu], memory_bytes: Option<u64>) -> Node {
    Node {
        id: 0,
        online: true,
        cpus: cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect(),
        memory_bytes,
        distances: BTreeMap::from([(0, 10)]),
        ..Node::default()
    }
}

/// What the kernel uses now; it always uses something, so an empty list is a file that lies.
fn online(tree: &Tree, dir: &str, all: &[u32]) -> Vec<u32> {
    let online = tree.list(&format!("{dir}/online")).filter(|online| !online.is_empty());
    online.unwrap_or_else(|| all.to_vec())
}

fn read_nodes(tree: &Tree) -> Vec<Node> {
    let ids = tree.numbered(NODES, "node");
    let online = online(tree, NODES, &ids);
    ids.into_iter().map(|id| read_node(tree, id, &online)).collect()
}

fn read_node(tree: &Tree, id: u32, online: &[u32]) -> Node {
    let dir = format!("{NODES}/node{id}");
    let cpus = tree.list(&format!("{dir}/cpulist"));
    let meminfo = tree.text(&format!("{dir}/meminfo")).unwrap_or_default();
    let memory_bytes = field(&meminfo, &format!("Node {id} MemTotal")).and_then(size);
    // The file has one number per online node, in their order.
    let distances = tree.text(&format!("{dir}/distance")).unwrap_or_default();
    let distances: Option<Vec<u32>> = distances.split_whitespace().map(|word| word.parse().ok()).collect();
    let distances = distances.filter(|d| d.len() == online.len()).unwrap_or_default();
    Node {
        id,
        online: online.contains(&id),
        memory_only: cpus.as_ref().is_some_and(Vec::is_empty) && memory_bytes.is_some_and(|b| b > 0),
        cpus: cpus.unwrap_or_default(),
        memory_bytes,
        distances: online.iter().copied().zip(distances).collect(),
        performance: read_performance(tree, &format!("{dir}/access0/initiators")),
    }
}

fn read_performance(tree: &Tree, dir: &str) -> Option<Performance> {
    // The kernel writes 0 for what the firmware left out.
    let number = |name: &str| tree.number(&format!("{dir}/{name}")).filter(|&n: &u64| n > 0);
    let performance = Performance {
        initiators: tree.numbered(dir, "node"),
        read_latency_ns: number("read_latency"),
        write_latency_ns: number("write_latency"),
        read_bandwidth_mb: number("read_bandwidth"),
        write_bandwidth_mb: number("write_bandwidth"),
    };
    let p = &performance;
    let stated = [p.read_latency_ns, p.write_latency_ns, p.read_bandwidth_mb, p.write_bandwidth_mb];
    stated.iter().any(Option::is_some).then_some(performance)
}

fn read_cpus(tree: &Tree) -> Vec<Cpu> {
    let ids = tree.numbered(CPUS, "cpu");
    let online = online(tree, CPUS, &ids);
    let read = |id| {
        let dir = format!("{CPUS}/cpu{id}");
        let topology = |name: &str| format!("{dir}/topology/{name}");
        Cpu {
            id,
            online: online.contains(&id),
            node: None,
            package: tree.number(&topology("physical_package_id")),
            core: tree.number(&topology("core_id")),
            siblings: tree
                .list(&topology("core_cpus_list"))
                .or_else(|| tree.list(&topology("thread_siblings_list")))
                .unwrap_or_default(),
            caches: read_caches(tree, &format!("{dir}/cache")),
        }
    };
    ids.into_iter().map(read).collect()
}

fn read_caches(tree: &Tree, dir: &str) -> Vec<Cache> {
    let read = |index: u32| {
        let file = |name: &str| format!("{dir}/index{index}/{name}");
        Some(Cache {
            level: tree.number(&file("level"))?,
            kind: tree.text(&file("type"))?,
            bytes: tree.text(&file("size")).and_then(|text| size(&text)),
            line_bytes: tree.number(&file("coherency_line_size")),
            ways: tree.number(&file("ways_of_associativity")),
            shared_by: tree.list(&file("shared_cpu_list")).unwrap_or_default(),
        })
    };
    let mut caches: Vec<Cache> = tree.numbered(dir, "index").into_iter().filter_map(read).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn total(nodes: &[Node]) -> Option<u64> {
    let known = nodes.iter().filter_map(|node| node.memory_bytes);
    known.reduce(|a, b| a.saturating_add(b))
}

fn model(tree: &Tree) -> Option<String> {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let name = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "cpu"));
    // Arm kernels give numbers only; the device tree or the firmware may have the name.
    let name = name.map(str::to_owned).or_else(|| tree.text("sys/firmware/devicetree/base/model"));
    name.or_else(|| tree.text("sys/class/dmi/id/product_name"))
        .map(|name| name.trim_end_matches('\0').split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
}

/// From the auxiliary vector, pairs of words of which 6 (`AT_PAGESZ`) is the page size; only the
/// owner may read that file, and a binary with capabilities is not its own owner. `smaps` is open to
/// the process itself always.
fn page_bytes(tree: &Tree) -> Option<u64> {
    let auxv = tree.bytes("proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    let pair = |pair: &[u8; 16]| Some((word(&pair[..8])?, word(&pair[8..])?));
    let size_of_page = auxv.as_chunks().0.iter().filter_map(pair).find(|&(key, _)| key == 6);
    let plausible = |bytes: &u64| bytes.is_power_of_two() && (1 << 9..=1 << 24).contains(bytes);
    size_of_page.map(|(_, bytes)| bytes).filter(plausible).or_else(|| {
        let smaps = tree.text("proc/self/smaps")?;
        field(&smaps, "KernelPageSize").and_then(size).filter(plausible)
    })
}

fn huge_page_bytes(tree: &Tree) -> Vec<u64> {
    let names = tree.names("sys/kernel/mm/hugepages");
    let mut sizes: Vec<u64> = names.iter().filter_map(|name| size(name.strip_prefix("hugepages-")?)).collect();
    sizes.sort_unstable();
    sizes
}
