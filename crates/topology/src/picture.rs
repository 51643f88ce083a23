//! A machine and its model as text for people: tables and bars.

use std::fmt::Write as _;

use crate::doctor::{ascii, bytes, count, processor};
use crate::list;
use crate::machine::{Cache, Machine, Node};
use crate::model::MachineModel;

/// What the output can show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns of a line.
    pub width: usize,
    /// True if block characters can be shown.
    pub unicode: bool,
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Nodes, CPUs, caches, distances and what the firmware promises.
pub fn machine(machine: &Machine, style: Style) -> String {
    let mut text = String::new();
    row(&mut text, style, "processor", &processor(machine));
    let threads = machine.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(0);
    match threads {
        0 => {}
        1 => row(&mut text, style, "threads", "1 of each core (no SMT)"),
        threads => row(&mut text, style, "threads", &format!("{threads} of each core (SMT)")),
    }
    let memory = machine.memory_bytes.map_or_else(|| "of unknown size".to_owned(), bytes);
    let pages = machine.page_bytes.map(|page| format!(", pages of {}", bytes(page))).unwrap_or_default();
    let huge: Vec<String> = machine.huge_page_bytes.iter().map(|&size| bytes(size)).collect();
    let huge = if huge.is_empty() { String::new() } else { format!(", huge {}", huge.join(", ")) };
    row(&mut text, style, "memory", &format!("{memory}{pages}{huge}"));
    for line in caches(machine) {
        row(&mut text, style, "cache", &line);
    }
    let memory_only = machine.nodes.iter().filter(|node| node.memory_only).count();
    let note = if memory_only > 0 { format!(", {memory_only} memory-only") } else { String::new() };
    row(&mut text, style, "nodes", &format!("{}{note}", machine.nodes.len()));
    text.push('\n');
    nodes(&mut text, machine, style);
    for node in &machine.nodes {
        promised(&mut text, node, style);
    }
    let ids: Vec<u32> = machine.nodes.iter().filter(|node| node.online).map(|node| node.id).collect();
    let cell = |from: u32, to: u32| machine.distance(from, to).map(f64::from);
    let distances: Vec<Vec<Option<f64>>> =
        ids.iter().map(|&from| ids.iter().map(|&to| cell(from, to)).collect()).collect();
    if ids.len() > 1 && distances.iter().flatten().any(Option::is_some) {
        text.push_str(&matrix("Firmware distance, 10 is local", &ids, &distances, 0, style));
    }
    text
}

/// Latencies, bandwidths and contention of a model.
pub fn model(model: &MachineModel, style: Style) -> String {
    let mut text = String::new();
    row(&mut text, style, "model", &model.name);
    row(&mut text, style, "source", &model.source);
    let ids: Vec<u32> = (0..model.nodes.len() as u32).collect();
    let cells = |rows: &[Vec<f64>]| -> Vec<Vec<Option<f64>>> {
        rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect()
    };
    match model.latency_ns.is_empty() {
        true => row(&mut text, style, "latency", "not known"),
        false => text.push_str(&matrix("Latency, ns", &ids, &cells(&model.latency_ns), 1, style)),
    }
    if !model.bandwidth_gbs.is_empty() {
        text.push_str(&matrix("Read bandwidth, GB/s", &ids, &cells(&model.bandwidth_gbs), 1, style));
    }
    if !model.contention.is_empty() {
        let points = model.contention.iter();
        let points: Vec<(String, f64, &str)> =
            points.map(|point| (point.cpus.to_string(), point.latency_ns, "")).collect();
        text.push_str(&bars("Latency of one node as CPUs load it, ns", "CPUs", &points, style));
    }
    text
}

/// A line with a name before it; long texts continue below.
pub fn row(text: &mut String, style: Style, name: &str, value: &str) {
    const INDENT: usize = 11;
    let mut line = format!("{name:<INDENT$}");
    let mut used = INDENT;
    for word in value.split_whitespace() {
        if used > INDENT && used + 1 + word.chars().count() > style.width {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(INDENT);
            used = INDENT;
        }
        if used > INDENT {
            line.push(' ');
            used += 1;
        }
        line.push_str(&ascii(word));
        used += word.chars().count();
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// One line for each kind of cache.
fn caches(machine: &Machine) -> Vec<String> {
    let mut kinds: Vec<(&Cache, Vec<&[u32]>)> = Vec::new();
    for cache in machine.cpus.iter().filter(|cpu| cpu.online).flat_map(|cpu| &cpu.caches) {
        let same = |other: &&mut (&Cache, Vec<&[u32]>)| {
            let key = |cache: &Cache| (cache.level, cache.kind.clone(), cache.bytes, cache.shared_by.len());
            key(other.0) == key(cache)
        };
        match kinds.iter_mut().find(same) {
            Some((_, sets)) if sets.contains(&&cache.shared_by[..]) => {}
            Some((_, sets)) => sets.push(&cache.shared_by),
            None => kinds.push((cache, vec![&cache.shared_by])),
        }
    }
    kinds.sort_by_key(|(cache, _)| cache.level);
    let line = |(cache, sets): &(&Cache, Vec<&[u32]>)| {
        let size = cache.bytes.map_or_else(|| "unknown size".to_owned(), bytes);
        let line = cache.line_bytes.map(|line| format!(", lines of {line} B")).unwrap_or_default();
        let shared = match cache.shared_by.len() {
            0 | 1 => "one for each CPU".to_owned(),
            sharing => format!("{} of them, each shared by {}", sets.len(), count(sharing, "CPU", "CPUs")),
        };
        format!("L{} {}: {size}{line}; {shared}", cache.level, cache.kind.to_lowercase())
    };
    kinds.iter().map(line).collect()
}

fn nodes(text: &mut String, machine: &Machine, style: Style) {
    let cpus = |node: &Node| match (node.online, node.cpus.is_empty()) {
        (false, _) => "offline".to_owned(),
        (true, true) => "none: memory only".to_owned(),
        (true, false) => list::format(&node.cpus),
    };
    let _ = writeln!(text, "{:>6}  {:>10}  CPUs", "node", "memory");
    for node in &machine.nodes {
        let memory = node.memory_bytes.map_or_else(|| "-".to_owned(), bytes);
        let lead = format!("{:>6}  {memory:>10}  ", node.id);
        let mut line = lead.clone();
        // Lists of scattered CPUs are long.
        for part in cpus(node).split_inclusive(',') {
            if line.len() > lead.len() && line.len() + part.len() > style.width {
                let _ = writeln!(text, "{line}");
                line = " ".repeat(lead.len());
            }
            line.push_str(part);
        }
        let _ = writeln!(text, "{line}");
    }
}

fn promised(text: &mut String, node: &Node, style: Style) {
    let Some(stated) = &node.performance else { return };
    let mut parts = Vec::new();
    let ns = [("read", stated.read_latency_ns), ("write", stated.write_latency_ns)];
    parts.extend(ns.into_iter().filter_map(|(what, value)| Some(format!("{what} {} ns", value?))));
    let mb = [("read", stated.read_bandwidth_mb), ("write", stated.write_bandwidth_mb)];
    parts.extend(mb.into_iter().filter_map(|(what, value)| Some(format!("{what} {:.1} GB/s", value? as f64 / 1e3))));
    let from = list::format(&stated.initiators);
    row(text, style, "HMAT", &format!("node {} from node {from}: {}", node.id, parts.join(", ")));
}

/// A matrix of numbers from node to node; a block beside each shows where it is between the smallest and the largest.
pub fn matrix(title: &str, ids: &[u32], rows: &[Vec<Option<f64>>], digits: usize, style: Style) -> String {
    let values = || rows.iter().flatten().flatten().copied();
    let (least, most) = values().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let block = |value: f64| match most > least * 1.02 {
        true => LEVELS[((value - least) / (most - least) * 7.0).round() as usize],
        false => ' ',
    };
    let widest = values().map(|value| format!("{value:.digits$}").len()).max().unwrap_or(1).max(3);
    let cell = widest + if style.unicode { 3 } else { 2 };
    let lead = 8;
    let columns = (style.width.saturating_sub(lead) / cell).max(1);
    let mut text = format!("\n{title}; rows: CPUs of node, columns: memory of node\n");
    for (part, of_part) in ids.chunks(columns).enumerate() {
        let head: String = of_part
            .iter()
            .map(|id| format!("{id:>width$}", width = widest + 2) + if style.unicode { " " } else { "" })
            .collect();
        let _ = writeln!(text, "{:lead$}{}", "", head.trim_end());
        for (id, row) in ids.iter().zip(rows).filter(|(_, row)| !row.is_empty()) {
            let cells = row.iter().skip(part * columns).take(of_part.len());
            let cells: String = cells
                .map(|cell| match cell {
                    Some(value) if style.unicode => {
                        format!("{value:>width$.digits$}{}", block(*value), width = widest + 2)
                    }
                    Some(value) => format!("{value:>width$.digits$}", width = widest + 2),
                    None => format!("{:>width$}{}", "-", if style.unicode { " " } else { "" }, width = widest + 2),
                })
                .collect();
            let _ = writeln!(text, "{id:>lead$}{}", cells.trim_end());
        }
    }
    text
}

/// A curve as horizontal bars: label, number, bar, remark.
pub fn bars(title: &str, axis: &str, points: &[(String, f64, &str)], style: Style) -> String {
    let most = points.iter().map(|&(_, value, _)| value).fold(0.0, f64::max);
    let label = points.iter().map(|(label, ..)| label.len()).max().unwrap_or(0).max(axis.len());
    let remark = points.iter().map(|(.., remark)| remark.len()).max().unwrap_or(0);
    let room = style.width.saturating_sub(label + remark + 15).clamp(8, 60);
    let mut text = format!("\n{title}\n  {axis:>label$}\n");
    for (name, value, remark) in points {
        let eighths = if most > 0.0 { (value / most * (room * 8) as f64).round() as usize } else { 0 };
        let bar: String = match style.unicode {
            true => {
                let rest = (eighths % 8).checked_sub(1).map(|eighth| EIGHTHS[eighth]);
                std::iter::repeat_n('█', eighths / 8).chain(rest).collect()
            }
            false => "#".repeat(eighths.div_ceil(8)),
        };
        let line =
            format!("  {name:>label$}  {value:>7.1}  {bar}{}{remark}", if remark.is_empty() { "" } else { "  " });
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { width: 80, unicode: true };

    #[test]
    fn matrices_fit_their_width() {
        let ids: Vec<u32> = (0..24).collect();
        let rows: Vec<Vec<Option<f64>>> =
            (0..24).map(|from| (0..24).map(|to| Some(f64::from(from * to))).collect()).collect();
        for unicode in [true, false] {
            let text = matrix("Latency, ns", &ids, &rows, 1, Style { width: 80, unicode });
            assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
            assert_eq!(text.is_ascii(), !unicode);
            assert!(text.contains("529.0"));
        }
        let text = matrix("x", &[0, 3], &[vec![Some(1.0), None], vec![]], 0, STYLE);
        assert_eq!(text.lines().count(), 4, "a node without CPUs has no row: {text}");
        assert!(text.contains('-'));
    }

    #[test]
    fn bars_are_in_proportion() {
        let points = [("1".to_owned(), 50.0, ""), ("48".to_owned(), 100.0, "unstable")];
        let text = bars("Latency", "CPUs", &points, STYLE);
        let blocks: Vec<usize> =
            text.lines().map(|line| line.matches('█').count()).filter(|&count| count > 0).collect();
        assert!(blocks[1].abs_diff(blocks[0] * 2) <= 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert!(bars("Latency", "CPUs", &points, Style { unicode: false, ..STYLE }).is_ascii());
        assert!(bars("Nothing", "CPUs", &[], STYLE).contains("Nothing"));
    }
}
