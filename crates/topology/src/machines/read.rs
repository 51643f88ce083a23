//! The text of a machine file, TOML.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::error::Fault;
use crate::model::{Contention, MachineModel, ModelNode};
use crate::tree;

/// More nodes than any machine has.
const MOST_NODES: usize = 1024;
const DEFAULT_PAGE: u64 = 4096;

type Rows = Spanned<Vec<Spanned<Vec<Spanned<f64>>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: Spanned<String>,
    source: Spanned<String>,
    page_bytes: Option<Spanned<SizeText>>,
    huge_page_bytes: Option<Spanned<SizeText>>,
    ghz: Option<Spanned<f64>>,
    cache_bytes: Option<Spanned<SizeText>>,
    nodes: Spanned<Vec<Spanned<NodeText>>>,
    latency_ns: Option<Rows>,
    latency_cycles: Option<Rows>,
    bandwidth_gbs: Option<Rows>,
    #[serde(default)]
    contention: Vec<Spanned<ContentionText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    cpus: u32,
    threads_per_core: Option<Spanned<u32>>,
    memory_bytes: Option<Spanned<SizeText>>,
    bandwidth_gbs: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentionText {
    cpus: Spanned<u32>,
    latency_ns: Option<Spanned<f64>>,
    latency_cycles: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a size, such as 4096 or \"16 GiB\"")]
enum SizeText {
    Bytes(u64),
    Text(String),
}

/// The model that a text describes, or all that is wrong with it.
pub fn parse(text: &str) -> Result<MachineModel, Vec<Fault>> {
    let mut reader = Reader { text, faults: Vec::new() };
    let model = match toml::from_str::<Text>(text) {
        Ok(parsed) => reader.model(&parsed),
        Err(error) => {
            let line = error.span().map_or(0, |span| reader.line(&span));
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(vec![Fault { line, message }]);
        }
    };
    reader.faults.sort_by_key(|fault| fault.line);
    if reader.faults.is_empty() { Ok(model) } else { Err(reader.faults) }
}

struct Reader<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.as_bytes()[..span.start.min(self.text.len())].iter().filter(|&&byte| byte == b'\n').count()
    }

    fn fault<T>(&mut self, at: &Spanned<T>, message: impl Into<String>) {
        let line = self.line(&at.span());
        self.faults.push(Fault { line, message: message.into() });
    }

    fn model(&mut self, text: &Text) -> MachineModel {
        self.sentence("name", &text.name);
        self.sentence("source", &text.source);
        let page_bytes = self.page("page_bytes", text.page_bytes.as_ref()).unwrap_or(DEFAULT_PAGE);
        let huge_page_bytes = self.page("huge_page_bytes", text.huge_page_bytes.as_ref());
        if let (Some(at), Some(huge)) = (&text.huge_page_bytes, huge_page_bytes)
            && huge <= page_bytes
        {
            self.fault(at, format!("huge_page_bytes: must be more than the base page of {page_bytes} bytes"));
        }
        // One that is stated wrongly is one fault, not one more at each number of cycles.
        let ghz = text.ghz.as_ref().map(|at| self.positive("ghz", at).unwrap_or(1.0));
        let nodes = self.nodes(&text.nodes);
        let latency_ns = match (&text.latency_ns, &text.latency_cycles) {
            (Some(_), Some(cycles)) => {
                self.fault(cycles, "latency_cycles: latency_ns says the same; keep one of the two");
                Vec::new()
            }
            (Some(rows), None) => self.matrix("latency_ns", rows, &nodes, 1.0),
            (None, Some(rows)) => {
                let scale = self.ns_per_cycle(rows, ghz);
                self.matrix("latency_cycles", rows, &nodes, scale)
            }
            (None, None) => Vec::new(),
        };
        let bandwidth_gbs = match &text.bandwidth_gbs {
            Some(rows) => self.matrix("bandwidth_gbs", rows, &nodes, 1.0),
            None => Vec::new(),
        };
        MachineModel {
            name: text.name.get_ref().clone(),
            source: text.source.get_ref().clone(),
            page_bytes,
            huge_page_bytes,
            ghz,
            cache_bytes: text.cache_bytes.as_ref().and_then(|at| self.size("cache_bytes", at)),
            contention: self.contention(&text.contention, &nodes, ghz),
            nodes,
            latency_ns,
            bandwidth_gbs,
        }
    }

    fn sentence(&mut self, key: &str, at: &Spanned<String>) {
        let text = at.get_ref();
        if text.trim().is_empty() {
            self.fault(at, format!("{key}: is empty"));
        } else if text.chars().any(char::is_control) {
            self.fault(at, format!("{key}: must be of one line, without control characters"));
        }
    }

    fn size(&mut self, key: &str, at: &Spanned<SizeText>) -> Option<u64> {
        let bytes = match at.get_ref() {
            SizeText::Bytes(bytes) => Some(*bytes),
            SizeText::Text(text) => tree::size(text),
        };
        if bytes.is_none() {
            self.fault(at, format!("{key}: must be a size, such as 4096 or \"16 GiB\""));
        }
        bytes
    }

    fn page(&mut self, key: &str, at: Option<&Spanned<SizeText>>) -> Option<u64> {
        let at = at?;
        let bytes = self.size(key, at)?;
        if !bytes.is_power_of_two() || bytes < 512 {
            self.fault(at, format!("{key}: pages have a power of two of bytes, 4096 for example"));
            return None;
        }
        Some(bytes)
    }

    fn positive(&mut self, key: &str, at: &Spanned<f64>) -> Option<f64> {
        let value = *at.get_ref();
        if value.is_finite() && value > 0.0 {
            return Some(value);
        }
        self.fault(at, format!("{key}: is {value}, must be above 0; leave out what is not known"));
        None
    }

    fn nodes(&mut self, list: &Spanned<Vec<Spanned<NodeText>>>) -> Vec<ModelNode> {
        let nodes: Vec<ModelNode> = list.get_ref().iter().map(|at| self.node(at)).collect();
        if nodes.is_empty() || nodes.len() > MOST_NODES {
            self.fault(list, format!("nodes: {} of them, must be 1 to {MOST_NODES}", nodes.len()));
        } else if nodes.iter().all(|node| node.cpus == 0) {
            self.fault(list, "nodes: none has a CPU");
        }
        nodes
    }

    fn node(&mut self, at: &Spanned<NodeText>) -> ModelNode {
        let node = at.get_ref();
        let memory_bytes = node.memory_bytes.as_ref().and_then(|at| self.size("memory_bytes", at));
        if node.cpus == 0 && memory_bytes == Some(0) {
            self.fault(at, "nodes: one has neither CPUs nor memory");
        }
        let threads_per_core = node.threads_per_core.as_ref().map_or(1, |threads| {
            let count = *threads.get_ref();
            if count == 0 || node.cpus % count != 0 {
                let message = format!("threads_per_core: {} CPUs are no cores of {count} threads each", node.cpus);
                self.fault(threads, message);
            }
            count
        });
        let bandwidth_gbs = node.bandwidth_gbs.as_ref().and_then(|at| self.positive("bandwidth_gbs", at));
        ModelNode { cpus: node.cpus, threads_per_core, memory_bytes, bandwidth_gbs }
    }

    /// The rows times `scale`. An empty matrix is one that is not known.
    fn matrix(&mut self, key: &str, rows: &Rows, nodes: &[ModelNode], scale: f64) -> Vec<Vec<f64>> {
        if rows.get_ref().is_empty() {
            return Vec::new();
        }
        if rows.get_ref().len() != nodes.len() {
            let message = format!("{key}: has {} rows, but there are {} nodes", rows.get_ref().len(), nodes.len());
            self.fault(rows, message);
            return Vec::new();
        }
        let rows = rows.get_ref().iter().zip(nodes).enumerate();
        rows.map(|(from, (row, node))| self.row(key, from, row, node, nodes.len(), scale)).collect()
    }

    fn row(
        &mut self,
        key: &str,
        from: usize,
        row: &Spanned<Vec<Spanned<f64>>>,
        node: &ModelNode,
        nodes: usize,
        scale: f64,
    ) -> Vec<f64> {
        let values = row.get_ref();
        if node.cpus == 0 {
            if !values.is_empty() {
                self.fault(row, format!("{key}: node {from} has no CPUs, its row must be empty: []"));
            }
            return Vec::new();
        }
        if values.len() != nodes {
            let message =
                format!("{key}: the row of node {from} has {} numbers, but there are {nodes} nodes", values.len());
            self.fault(row, message);
            return Vec::new();
        }
        values.iter().filter_map(|at| Some(self.positive(key, at)? * scale)).collect()
    }

    /// Nanoseconds of a cycle, which only a stated clock gives.
    fn ns_per_cycle<T>(&mut self, at: &Spanned<T>, ghz: Option<f64>) -> f64 {
        match ghz {
            Some(ghz) => 1.0 / ghz,
            None => {
                self.fault(at, "latency_cycles: needs ghz, the cycles of the clock in a nanosecond");
                1.0
            }
        }
    }

    fn contention(
        &mut self,
        points: &[Spanned<ContentionText>],
        nodes: &[ModelNode],
        ghz: Option<f64>,
    ) -> Vec<Contention> {
        let all = nodes.iter().fold(0u32, |sum, node| sum.saturating_add(node.cpus));
        let mut below = 0;
        let mut curve = Vec::new();
        for at in points {
            let point = at.get_ref();
            let cpus = *point.cpus.get_ref();
            if cpus <= below {
                let message = match below {
                    0 => "contention: at least one CPU loads a node".to_owned(),
                    _ => format!("contention: {cpus} CPUs after {below}; must be in ascending order of CPUs"),
                };
                self.fault(&point.cpus, message);
            } else if cpus > all {
                self.fault(&point.cpus, format!("contention: {cpus} CPUs, but the nodes have {all} in all"));
            }
            below = below.max(cpus);
            let latency_ns = match (&point.latency_ns, &point.latency_cycles) {
                (Some(ns), None) => self.positive("latency_ns", ns),
                (None, Some(cycles)) => {
                    let scale = self.ns_per_cycle(cycles, ghz);
                    self.positive("latency_cycles", cycles).map(|value| value * scale)
                }
                _ => {
                    self.fault(at, "contention: each point has one of latency_ns and latency_cycles");
                    None
                }
            };
            curve.extend(latency_ns.map(|latency_ns| Contention { cpus, latency_ns }));
        }
        curve
    }
}
