//! From a machine to XML.

use std::fmt::Write as _;

use super::bitmap;
use crate::machine::{Machine, Node};
use crate::model::MachineModel;

/// An object that holds CPUs.
#[derive(Clone, PartialEq)]
struct Object {
    /// Larger sets are outside; of equal ones that with the lower rank.
    rank: u32,
    kind: String,
    os_index: Option<u32>,
    attributes: String,
    cpus: Vec<u32>,
    children: Vec<Object>,
}

impl Object {
    fn new(rank: u32, kind: impl Into<String>, os_index: Option<u32>, cpus: &[u32]) -> Self {
        let attributes = String::new();
        Self { rank, kind: kind.into(), os_index, attributes, cpus: cpus.to_vec(), children: Vec::new() }
    }

    fn holds(&self, other: &Self) -> bool {
        other.cpus.iter().all(|cpu| self.cpus.binary_search(cpu).is_ok())
    }

    /// Puts an object as deep as it fits; `None` if it is in, else it lies across others.
    fn insert(&mut self, object: Object) -> Option<()> {
        if let Some(child) = self.children.iter_mut().find(|child| child.holds(&object)) {
            return child.insert(object);
        }
        let apart = |child: &Object| !child.cpus.iter().any(|cpu| object.cpus.binary_search(cpu).is_ok());
        self.children.iter().all(apart).then(|| self.children.push(object))
    }
}

/// The text from which [`super::parse`] reads the same machine, and what it can of the model.
pub fn to_xml(machine: &Machine, model: Option<&MachineModel>) -> String {
    let mut writer =
        Writer { machine, text: String::new(), next: 1, nodes_by_gp_index: Vec::new(), written: Vec::new() };
    writer.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n");
    writer.text.push_str("<topology version=\"2.0\">\n");
    writer.object(&tree(machine), 1);
    writer.distances();
    writer.attributes(model);
    writer.text.push_str("</topology>\n");
    writer.text
}

/// All objects that hold CPUs, nested.
fn tree(machine: &Machine) -> Object {
    let online: Vec<u32> = machine.online_cpus().collect();
    let mut objects: Vec<Object> = Vec::new();
    let mut add = |object: Object| {
        if !objects.contains(&object) {
            objects.push(object);
        }
    };
    let of_package = |package| {
        let inside = machine.cpus.iter().filter(|cpu| cpu.online && cpu.package == Some(package));
        inside.map(|cpu| cpu.id).collect::<Vec<u32>>()
    };
    for cpu in machine.cpus.iter().filter(|cpu| cpu.online) {
        if let Some(package) = cpu.package {
            add(Object::new(0, "Package", Some(package), &of_package(package)));
        }
        for cache in &cpu.caches {
            let (suffix, kind) = match cache.kind.as_str() {
                "Instruction" => ("i", 2),
                "Data" => ("", 1),
                _ => ("", 0),
            };
            let rank = 100 - cache.level * 2 + u32::from(suffix == "i");
            let mut object = Object::new(rank, format!("L{}{suffix}Cache", cache.level), None, &cache.shared_by);
            object.attributes = format!(
                " cache_size=\"{}\" depth=\"{}\" cache_linesize=\"{}\" cache_type=\"{kind}\"",
                cache.bytes.unwrap_or(0),
                cache.level,
                cache.line_bytes.unwrap_or(0)
            );
            add(object);
        }
        if let Some(core) = cpu.core {
            let siblings = if cpu.siblings.is_empty() { vec![cpu.id] } else { cpu.siblings.clone() };
            add(Object::new(200, "Core", Some(core), &siblings));
        }
        add(Object::new(300, "PU", Some(cpu.id), &[cpu.id]));
    }
    // Memory is a child of an object with just its CPUs: of a group where nothing else has them.
    for node in machine.nodes.iter().filter(|node| node.online && !node.cpus.is_empty()) {
        if node.cpus != online && !objects.iter().any(|object| object.cpus == node.cpus && object.rank == 0) {
            let mut group = Object::new(1, "Group", None, &node.cpus);
            group.attributes = " kind=\"1001\" subkind=\"0\"".to_owned();
            objects.push(group);
        }
    }
    objects.sort_by_key(|object| (std::cmp::Reverse(object.cpus.len()), object.rank, object.cpus.first().copied()));
    let mut root = Object::new(0, "Machine", Some(0), &online);
    for object in objects {
        // What lies across others (a kernel that lies about a cache) has no place in a tree.
        let _ = root.insert(object);
    }
    sort(&mut root);
    root
}

fn sort(object: &mut Object) {
    object.children.sort_by_key(|child| child.cpus.first().copied());
    object.children.iter_mut().for_each(sort);
}

struct Writer<'a> {
    machine: &'a Machine,
    text: String,
    next: u64,
    nodes_by_gp_index: Vec<(u32, u64)>,
    written: Vec<u32>,
}

impl<'a> Writer<'a> {
    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", depth * 2);
    }

    fn gp_index(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn object(&mut self, object: &Object, depth: usize) {
        let is_root = depth == 1;
        let gp_index = self.gp_index();
        let os_index = object.os_index.map(|index| format!(" os_index=\"{index}\"")).unwrap_or_default();
        let cpus = bitmap::format(&object.cpus);
        let complete: Vec<u32> = self.machine.cpus.iter().map(|cpu| cpu.id).collect();
        let complete = if is_root { bitmap::format(&complete) } else { cpus.clone() };
        let kind = &object.kind;
        let sets = format!("cpuset=\"{cpus}\" complete_cpuset=\"{complete}\"{}", self.node_sets(object, is_root));
        let attributes = &object.attributes;
        let start = format!("<object type=\"{kind}\"{os_index} {sets} gp_index=\"{gp_index}\"{attributes}");
        let memory = self.memory_of(object, is_root);
        let infos = self.infos(object, is_root);
        if memory.is_empty() && infos.is_empty() && object.children.is_empty() {
            return self.line(depth, &format!("{start}/>"));
        }
        self.line(depth, &format!("{start}>"));
        for (name, value) in infos {
            self.line(depth + 1, &format!("<info name=\"{name}\" value=\"{}\"/>", escaped(&value)));
        }
        for node in memory {
            self.node(node, &cpus, depth + 1);
        }
        for child in &object.children {
            self.object(child, depth + 1);
        }
        self.line(depth, "</object>");
    }

    fn node_sets(&self, object: &Object, is_root: bool) -> String {
        let machine = self.machine;
        let local = |node: &&Node| node.online && (is_root || node.cpus.iter().any(|cpu| object.cpus.contains(cpu)));
        let nodes: Vec<u32> = machine.nodes.iter().filter(local).map(|node| node.id).collect();
        let all: Vec<u32> = machine.nodes.iter().map(|node| node.id).collect();
        let complete = bitmap::format(if is_root { &all } else { &nodes });
        format!(" nodeset=\"{}\" complete_nodeset=\"{complete}\"", bitmap::format(&nodes))
    }

    /// The nodes with just these CPUs; those with CPUs first, for they are the ones that have them.
    fn memory_of(&mut self, object: &Object, is_root: bool) -> Vec<&'a Node> {
        let online = self.machine.nodes.iter().filter(|node| node.online);
        let (with_cpus, without): (Vec<&'a Node>, Vec<&'a Node>) = online.partition(|node| !node.cpus.is_empty());
        let here = with_cpus.into_iter().filter(|node| node.cpus == object.cpus && !self.written.contains(&node.id));
        let here: Vec<&'a Node> = here.chain(without.into_iter().filter(|_| is_root)).collect();
        self.written.extend(here.iter().map(|node| node.id));
        here
    }

    fn infos(&self, object: &Object, is_root: bool) -> Vec<(&'static str, String)> {
        let machine = self.machine;
        let mut infos = Vec::new();
        let has_packages = machine.cpus.iter().any(|cpu| cpu.online && cpu.package.is_some());
        if object.kind == "Package" || is_root && !has_packages {
            infos.extend(machine.model.clone().map(|model| ("CPUModel", model)));
        }
        let sum = machine.nodes.iter().filter_map(|node| node.memory_bytes).reduce(u64::saturating_add);
        if is_root && machine.memory_bytes != sum {
            infos.extend(machine.memory_bytes.map(|bytes| ("MemTotal", bytes.to_string())));
        }
        infos
    }

    fn node(&mut self, node: &Node, cpus: &str, depth: usize) {
        let gp_index = self.gp_index();
        self.nodes_by_gp_index.push((node.id, gp_index));
        let set = bitmap::format(&[node.id]);
        let memory = node.memory_bytes.map(|bytes| format!(" local_memory=\"{bytes}\"")).unwrap_or_default();
        self.line(
            depth,
            &format!(
                "<object type=\"NUMANode\" os_index=\"{}\" cpuset=\"{cpus}\" complete_cpuset=\"{cpus}\" nodeset=\"{set}\" \
                 complete_nodeset=\"{set}\" gp_index=\"{gp_index}\"{memory}>",
                node.id
            ),
        );
        if let Some(page) = self.machine.page_bytes {
            let count = node.memory_bytes.unwrap_or(0) / page.max(1);
            self.line(depth + 1, &format!("<page_type size=\"{page}\" count=\"{count}\"/>"));
            for size in &self.machine.huge_page_bytes {
                self.line(depth + 1, &format!("<page_type size=\"{size}\" count=\"0\"/>"));
            }
        }
        self.line(depth, "</object>");
    }

    /// The firmware's distances, if there is one for each pair of several nodes.
    fn distances(&mut self) {
        let ids: Vec<u32> = self.machine.nodes.iter().filter(|node| node.online).map(|node| node.id).collect();
        let cells = ids.iter().flat_map(|&from| ids.iter().map(move |&to| (from, to)));
        let values: Option<Vec<u32>> = cells.map(|(from, to)| self.machine.distance(from, to)).collect();
        let Some(values) = values.filter(|_| ids.len() > 1) else { return };
        let count = ids.len();
        let start = format!(
            "<distances2 type=\"NUMANode\" nbobjs=\"{count}\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">"
        );
        self.line(1, &start);
        for (name, numbers) in [("indexes", ids), ("u64values", values)] {
            let text: String = numbers.iter().map(|number| format!("{number} ")).collect();
            self.line(2, &format!("<{name} length=\"{}\">{text}</{name}>", text.len()));
        }
        self.line(1, "</distances2>");
    }

    fn attributes(&mut self, model: Option<&MachineModel>) {
        let machine = self.machine;
        let nodes = machine.used_nodes();
        let pairs = |matrix: &[Vec<f64>], scale: f64| {
            let mut values = Vec::new();
            for (from, row) in nodes.iter().zip(matrix) {
                let row = nodes.iter().zip(row).map(|(to, value)| (to.id, from.id, (value * scale).round() as u64));
                values.extend(row);
            }
            values
        };
        if let Some(model) = model.filter(|model| model.nodes.len() == nodes.len() && !model.latency_ns.is_empty()) {
            self.attribute("Latency", 6, pairs(&model.latency_ns, 1.0));
            self.attribute("Bandwidth", 5, pairs(&model.bandwidth_gbs, 1e3));
            return;
        }
        let stated = |value: fn(&crate::machine::Performance) -> Option<u64>| {
            let with = machine.nodes.iter().filter_map(|node| Some((node, node.performance.as_ref()?)));
            let values = with.filter_map(|(node, stated)| Some((node.id, &stated.initiators, value(stated)?)));
            values.flat_map(|(to, from, value)| from.iter().map(move |&from| (to, from, value))).collect::<Vec<_>>()
        };
        self.attribute("ReadLatency", 6, stated(|stated| stated.read_latency_ns));
        self.attribute("WriteLatency", 6, stated(|stated| stated.write_latency_ns));
        self.attribute("ReadBandwidth", 5, stated(|stated| stated.read_bandwidth_mb));
        self.attribute("WriteBandwidth", 5, stated(|stated| stated.write_bandwidth_mb));
    }

    /// Values of memory of a node, seen from the CPUs of another. Flags: 1 higher is better, 2 lower is, 4 seen from CPUs.
    fn attribute(&mut self, name: &str, flags: u32, values: Vec<(u32, u32, u64)>) {
        if values.is_empty() {
            return;
        }
        self.line(1, &format!("<memattr name=\"{name}\" flags=\"{flags}\">"));
        for (to, from, value) in values {
            let gp_index = self.nodes_by_gp_index.iter().find(|(id, _)| *id == to).map(|&(_, gp_index)| gp_index);
            let cpus = self.machine.node(from).map(|node| bitmap::format(&node.cpus));
            let (Some(gp_index), Some(cpus)) = (gp_index, cpus) else { continue };
            self.line(
                2,
                &format!(
                    "<memattr_value target_obj_type=\"NUMANode\" target_obj_gp_index=\"{gp_index}\" value=\"{value}\" initiator_cpuset=\"{cpus}\"/>"
                ),
            );
        }
        self.line(1, "</memattr>");
    }
}

/// Text of an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace(char::is_control, " ")
}
