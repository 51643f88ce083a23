//! From XML to a machine.

use std::collections::BTreeMap;

use roxmltree::{Document, Node as Element, ParsingOptions};

use super::{Described, bitmap};
use crate::machine::{Cache, Cpu, Machine, Node, Performance};
use crate::machines::Fault;
use crate::model::MachineModel;

/// Beyond this it is no description of a machine.
const MOST_ELEMENTS: u32 = 4 << 20;
/// Nested objects; hwloc has about twenty levels.
const DEEPEST: usize = 100;

/// What is around an object.
#[derive(Clone, Default)]
struct Around {
    depth: usize,
    node: Option<u32>,
    package: Option<u32>,
    core: Option<(u32, Vec<u32>)>,
    caches: Vec<Cache>,
}

#[derive(Default)]
struct Reader {
    machine: Machine,
    /// Numbers of nodes by hwloc's own index of the object.
    nodes_by_gp_index: BTreeMap<u64, u32>,
    /// How deep the nodes of version 1 are, in the order of the file.
    depths: Vec<usize>,
    pages: Vec<u64>,
}

/// The machine that a text describes, or what is wrong with it.
///
/// # Errors
/// If it is no XML of hwloc.
pub fn parse(text: &str) -> Result<Described, Fault> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| Fault { line: error.pos().row as usize, message: format!("is no XML: {error}") })?;
    let fault = |element: Element, message: String| Fault {
        line: document.text_pos_at(element.range().start).row as usize,
        message,
    };
    let topology = document.root_element();
    if !matches!(topology.tag_name().name(), "topology" | "root") {
        let message = format!("is no file of hwloc: begins with <{}>, not <topology>", topology.tag_name().name());
        return Err(fault(topology, message));
    }
    let version = topology.attribute("version").unwrap_or("1.0");
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if !(1..=3).contains(&major) {
        return Err(fault(topology, format!("version \"{version}\" of hwloc's format; 1, 2 and 3 can be read")));
    }
    let root = objects(topology).next().ok_or_else(|| fault(topology, "has no object".to_owned()))?;
    let mut reader = Reader::default();
    reader.object(root, Around::default()).map_err(|(element, message)| fault(element, message))?;
    reader.finish(topology, root);
    if reader.machine.cpus.iter().all(|cpu| !cpu.online) {
        return Err(fault(root, "has no CPU (PU)".to_owned()));
    }
    let model = model(&reader.machine, &reader.nodes_by_gp_index, topology);
    Ok(Described { machine: reader.machine, model })
}

fn objects<'a, 'input>(element: Element<'a, 'input>) -> impl Iterator<Item = Element<'a, 'input>> + use<'a, 'input> {
    element.children().filter(|child| child.has_tag_name("object"))
}

fn number<T: std::str::FromStr>(element: Element, name: &str) -> Option<T> {
    element.attribute(name)?.trim().parse().ok()
}

fn set(element: Element, name: &str) -> Option<Vec<u32>> {
    bitmap::parse(element.attribute(name)?)
}

fn info(element: Element, name: &str) -> Option<String> {
    let infos = element.children().filter(|child| child.has_tag_name("info"));
    let value = infos.filter(|info| info.attribute("name") == Some(name)).find_map(|info| info.attribute("value"));
    value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|value| !value.is_empty())
}

type Wrong<'a, 'input> = (Element<'a, 'input>, String);

impl Reader {
    fn object<'a, 'input>(&mut self, object: Element<'a, 'input>, mut around: Around) -> Result<(), Wrong<'a, 'input>> {
        if around.depth > DEEPEST {
            return Err((object, format!("objects more than {DEEPEST} levels deep")));
        }
        let kind = object.attribute("type").unwrap_or_default();
        let os_index =
            || number(object, "os_index").ok_or_else(|| (object, format!("{kind}: os_index is missing or no number")));
        if self.machine.model.is_none() {
            self.machine.model = info(object, "CPUModel");
        }
        match kind {
            "NUMANode" => {
                around.node = Some(os_index()?);
                self.node(object, os_index()?, around.depth);
            }
            "Package" | "Socket" => around.package = number(object, "os_index"),
            "Core" => around.core = number(object, "os_index").zip(set(object, "cpuset")),
            "PU" => self.cpu(os_index()?, &around),
            _ => around.caches.extend(cache(object, kind)),
        }
        // The first node that is a child has the CPUs; further ones are memory only.
        let memory = objects(object).find(|child| child.attribute("type") == Some("NUMANode"));
        let is_memory_child = |node: Element| objects(node).next().is_none();
        if let Some(id) = memory.filter(|&node| is_memory_child(node)).and_then(|node| number(node, "os_index")) {
            around.node = Some(id);
        }
        around.depth += 1;
        objects(object).try_for_each(|child| self.object(child, around.clone()))
    }

    fn node(&mut self, object: Element, id: u32, depth: usize) {
        if let Some(gp_index) = number(object, "gp_index") {
            self.nodes_by_gp_index.insert(gp_index, id);
        }
        self.depths.push(depth);
        self.pages.extend(pages(object));
        let memory_bytes = number(object, "local_memory");
        self.machine.nodes.push(Node { id, online: true, memory_bytes, ..Node::default() });
    }

    fn cpu(&mut self, id: u32, around: &Around) {
        let mut caches = around.caches.clone();
        caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
        self.machine.cpus.push(Cpu {
            id,
            online: true,
            node: around.node,
            package: around.package,
            core: around.core.as_ref().map(|&(core, _)| core),
            siblings: around.core.as_ref().map_or_else(Vec::new, |(_, siblings)| siblings.clone()),
            caches,
        });
    }

    fn finish(&mut self, topology: Element, root: Element) {
        let machine = &mut self.machine;
        if let Some(online) = set(root, "online_cpuset") {
            machine.cpus.iter_mut().for_each(|cpu| cpu.online = online.binary_search(&cpu.id).is_ok());
        }
        for id in set(root, "complete_cpuset").unwrap_or_default() {
            if !machine.cpus.iter().any(|cpu| cpu.id == id) {
                machine.cpus.push(Cpu { id, ..Cpu::default() });
            }
        }
        machine.cpus.sort_by_key(|cpu| cpu.id);
        machine.cpus.dedup_by_key(|cpu| cpu.id);
        // In the order of the file, to which matrices without indexes refer.
        let order: Vec<u32> = machine.nodes.iter().map(|node| node.id).collect();
        if machine.nodes.is_empty() {
            machine.nodes.push(Node {
                id: 0,
                online: true,
                memory_bytes: number(root, "local_memory"),
                ..Node::default()
            });
            machine.cpus.iter_mut().filter(|cpu| cpu.online).for_each(|cpu| cpu.node = Some(0));
        }
        for id in set(root, "complete_nodeset").unwrap_or_default() {
            if !machine.nodes.iter().any(|node| node.id == id) {
                machine.nodes.push(Node { id, ..Node::default() });
            }
        }
        machine.nodes.sort_by_key(|node| node.id);
        machine.nodes.dedup_by_key(|node| node.id);
        for node in &mut machine.nodes {
            let cpus = machine.cpus.iter().filter(|cpu| cpu.online && cpu.node == Some(node.id));
            node.cpus = cpus.map(|cpu| cpu.id).collect();
            node.memory_only = node.online && node.cpus.is_empty() && node.memory_bytes.is_some_and(|bytes| bytes > 0);
        }
        let stated = info(root, "MemTotal").and_then(|bytes| bytes.parse().ok());
        let sum = machine.nodes.iter().filter_map(|node| node.memory_bytes).reduce(u64::saturating_add);
        machine.memory_bytes = stated.or(sum);
        self.pages.extend(pages(root));
        self.pages.sort_unstable();
        self.pages.dedup();
        machine.page_bytes = self.pages.first().copied();
        machine.huge_page_bytes = self.pages.get(1..).unwrap_or_default().to_vec();
        let matrix = distances2(topology, &self.nodes_by_gp_index).or_else(|| distances1(root, &order, &self.depths));
        match matrix {
            Some((ids, values)) => enter_distances(machine, &ids, &values),
            // By definition, of the only node there is.
            None if machine.nodes.iter().filter(|node| node.online).count() == 1 => {
                let node = machine.nodes.iter_mut().find(|node| node.online);
                node.into_iter().for_each(|node| node.distances = BTreeMap::from([(node.id, 10)]));
            }
            None => {}
        }
        let performance: Vec<Option<Performance>> =
            machine.nodes.iter().map(|node| performance(machine, &self.nodes_by_gp_index, topology, node.id)).collect();
        for (node, performance) in machine.nodes.iter_mut().zip(performance) {
            node.performance = performance;
        }
    }
}

fn pages(object: Element) -> Vec<u64> {
    let types = object.children().filter(|child| child.has_tag_name("page_type"));
    types.filter_map(|page| number(page, "size")).filter(|&bytes: &u64| bytes.is_power_of_two()).collect()
}

/// `L1iCache`, or `Cache` with a depth and a type as version 1 has it.
fn cache(object: Element, kind: &str) -> Option<Cache> {
    let inner = kind.strip_suffix("Cache")?;
    let level = match inner.strip_prefix('L') {
        Some(rest) => rest.trim_end_matches('i').parse().ok()?,
        None if inner.is_empty() => number(object, "depth")?,
        None => return None,
    };
    let kind = match object.attribute("cache_type") {
        Some("1") => "Data",
        Some("2") => "Instruction",
        _ => "Unified",
    };
    let positive = |name: &str| number(object, name).filter(|&bytes: &u64| bytes > 0);
    Some(Cache {
        level,
        kind: kind.to_owned(),
        bytes: positive("cache_size"),
        line_bytes: positive("cache_linesize"),
        shared_by: set(object, "cpuset").unwrap_or_default(),
    })
}

/// The numbers of all elements `name` below `element`, in their order.
fn values(element: Element, name: &str) -> Option<Vec<u64>> {
    let texts = element.children().filter(|child| child.has_tag_name(name)).filter_map(|child| child.text());
    texts.flat_map(str::split_whitespace).map(|word| word.parse().ok()).collect()
}

/// Numbers of nodes and the matrix between them, row by row.
type Matrix = (Vec<u32>, Vec<u32>);

fn distances2(topology: Element, by_gp_index: &BTreeMap<u64, u32>) -> Option<Matrix> {
    let mut all = topology.children().filter(|child| child.has_tag_name("distances2"));
    let element = all.find(|element| {
        let is_latency = element.attribute("name") == Some("NUMALatency")
            // Kinds are a sum: 4 means that larger is farther.
            || element.attribute("name").is_none() && number(*element, "kind").is_some_and(|kind: u64| kind & 4 == 4);
        element.attribute("type") == Some("NUMANode") && is_latency
    })?;
    let indexes = values(element, "indexes")?;
    let by_os = element.attribute("indexing") == Some("os");
    let id = |index: &u64| if by_os { u32::try_from(*index).ok() } else { by_gp_index.get(index).copied() };
    let ids = indexes.iter().map(id).collect::<Option<Vec<u32>>>()?;
    let values = values(element, "u64values")?.into_iter().map(|value| u32::try_from(value).ok());
    Some((ids, values.collect::<Option<Vec<u32>>>()?))
}

/// Version 1: in the root, for the objects so many levels below it.
fn distances1(root: Element, order: &[u32], depths: &[usize]) -> Option<Matrix> {
    let depth = *depths.first()?;
    let element = root.children().find(|child| {
        child.has_tag_name("distances")
            && number(*child, "nbobjs") == Some(order.len())
            && number(*child, "relative_depth") == Some(depth)
    })?;
    let base: f64 = number(element, "latency_base").unwrap_or(1.0);
    let cells = element.children().filter(|child| child.has_tag_name("latency"));
    let values = cells.map(|cell| number(cell, "value").map(|value: f64| (value * base).round() as u32));
    Some((order.to_vec(), values.collect::<Option<Vec<u32>>>()?))
}

fn enter_distances(machine: &mut Machine, ids: &[u32], values: &[u32]) {
    if ids.is_empty() || values.len() != ids.len() * ids.len() {
        return;
    }
    for (from, row) in ids.iter().zip(values.chunks(ids.len())) {
        if let Some(node) = machine.nodes.iter_mut().find(|node| node.id == *from) {
            node.distances = ids.iter().copied().zip(row.iter().copied()).collect();
        }
    }
}

/// The values of a memory attribute: node whose memory it is, CPUs it is seen from, value.
fn attribute(topology: Element, name: &str, by_gp_index: &BTreeMap<u64, u32>) -> Vec<(u32, Vec<u32>, u64)> {
    let of_name = |child: &Element| child.has_tag_name("memattr") && child.attribute("name") == Some(name);
    let values = topology.children().filter(of_name).flat_map(|element| element.children());
    values
        .filter(|value| value.attribute("target_obj_type") == Some("NUMANode"))
        .filter_map(|value| {
            let target = *by_gp_index.get(&number(value, "target_obj_gp_index")?)?;
            Some((target, set(value, "initiator_cpuset")?, number(value, "value")?))
        })
        .collect()
}

/// What holds for the nearest CPUs, as the kernel shows it.
fn performance(
    machine: &Machine,
    by_gp_index: &BTreeMap<u64, u32>,
    topology: Element,
    target: u32,
) -> Option<Performance> {
    let mut initiators = Vec::new();
    let mut best = |names: [&str; 2], less: bool| {
        let named =
            names.iter().map(|name| attribute(topology, name, by_gp_index)).find(|values| !values.is_empty())?;
        let of_target = || named.iter().filter(|(node, ..)| *node == target);
        let best = of_target().map(|&(_, _, value)| value);
        let best = if less { best.min() } else { best.max() }.filter(|&value| value > 0)?;
        if initiators.is_empty() {
            let nearest = of_target().filter(|(_, _, value)| *value == best);
            let nodes = nearest.flat_map(|(_, cpus, _)| nodes_within(machine, cpus));
            initiators = nodes.collect();
            initiators.sort_unstable();
            initiators.dedup();
        }
        Some(best)
    };
    let performance = Performance {
        read_latency_ns: best(["ReadLatency", "Latency"], true),
        write_latency_ns: best(["WriteLatency", "Latency"], true),
        read_bandwidth_mb: best(["ReadBandwidth", "Bandwidth"], false),
        write_bandwidth_mb: best(["WriteBandwidth", "Bandwidth"], false),
        initiators: Vec::new(),
    };
    let p = &performance;
    let stated = [p.read_latency_ns, p.write_latency_ns, p.read_bandwidth_mb, p.write_bandwidth_mb];
    stated.iter().any(Option::is_some).then_some(Performance { initiators, ..performance })
}

/// The nodes whose CPUs are all in a set.
fn nodes_within<'a>(machine: &'a Machine, cpus: &'a [u32]) -> impl Iterator<Item = u32> + use<'a> {
    let inside = |node: &&Node| !node.cpus.is_empty() && node.cpus.iter().all(|cpu| cpus.binary_search(cpu).is_ok());
    machine.nodes.iter().filter(inside).map(|node| node.id)
}

/// The model, if there is a latency for each pair.
fn model(machine: &Machine, by_gp_index: &BTreeMap<u64, u32>, topology: Element) -> Option<MachineModel> {
    let matrix = |names: [&str; 2]| {
        let values =
            names.iter().map(|name| attribute(topology, name, by_gp_index)).find(|values| !values.is_empty())?;
        let cell = |from: &Node, to: &Node| {
            let found = values
                .iter()
                .find(|(target, cpus, _)| *target == to.id && nodes_within(machine, cpus).any(|id| id == from.id));
            found.map(|&(_, _, value)| value as f64).filter(|&value| value > 0.0)
        };
        let nodes = machine.used_nodes();
        let row = |from: &&Node| match from.cpus.is_empty() {
            true => Some(Vec::new()),
            false => nodes.iter().map(|to| cell(from, to)).collect(),
        };
        nodes.iter().map(row).collect::<Option<Vec<Vec<f64>>>>()
    };
    let latency_ns = matrix(["ReadLatency", "Latency"])?;
    let bandwidth = matrix(["ReadBandwidth", "Bandwidth"]).unwrap_or_default();
    let gbs = |row: Vec<f64>| row.into_iter().map(|mb| mb / 1e3).collect();
    Some(MachineModel {
        source: "memory attributes of a file of hwloc".to_owned(),
        latency_ns,
        bandwidth_gbs: bandwidth.into_iter().map(gbs).collect(),
        ..MachineModel::without_latencies(machine)
    })
}
