//! A measurement as text for people.

use numamma_topology::picture::{Style, bars, matrix, row};

use crate::estimate::Estimate;
use crate::measurement::{Loaded, Matrix, Measurement};

/// Matrices, curves and caches; ends with a line feed.
pub fn render_measurement(measurement: &Measurement, style: Style) -> String {
    let mut text = String::new();
    let m = measurement;
    let how = format!("{} on {} in {:.0} s, loads in {}", m.effort, m.date, m.seconds, size(m.footprint_bytes));
    row(&mut text, style, "measured", &how);
    for note in &m.notes {
        row(&mut text, style, "note", note);
    }
    let tables = [
        ("Latency, ns", &m.latency_ns),
        ("Read bandwidth, GB/s", &m.read_gbs),
        ("Write bandwidth, GB/s", &m.write_gbs),
        ("Copy bandwidth, GB/s read and written", &m.copy_gbs),
    ];
    for (title, cells) in tables {
        if cells.iter().flatten().any(Option::is_some) {
            text.push_str(&matrix(title, &m.nodes, &medians(cells), digits(cells), style));
            text.push_str(&spread(cells, style));
        }
    }
    if !m.cores.is_empty() {
        text.push_str(&by_core(m, style));
    }
    if m.nodes.len() > 1 && m.node_gbs.iter().any(Option::is_some) {
        let nodes = m.nodes.iter().zip(&m.node_gbs).filter_map(|(node, gbs)| Some((node.to_string(), (*gbs)?)));
        text.push_str(&curve("Read bandwidth of a node for all CPUs together, GB/s", "node", nodes, style));
    }
    if let Some(node) = m.loaded_node {
        let points = |curve: &[Loaded]| -> Vec<(String, Estimate)> {
            curve.iter().map(|point| (point.cpus.to_string(), point.latency_ns)).collect()
        };
        let title = format!("Latency of node {node} as CPUs read it at full speed, ns");
        text.push_str(&curve(&title, "CPUs", points(&m.on_one_node), style));
        if m.on_one_node.len() > 1 {
            let title = format!("Latency of node {node} while each other CPU reads its own node, ns");
            text.push_str(&curve(&title, "CPUs", points(&m.spread), style));
        }
    }
    let points = m.footprints.iter().map(|point| (size(point.bytes), point.latency_ns));
    text.push_str(&curve("Latency by footprint, ns", "bytes", points, style));
    text.push('\n');
    for step in &m.caches {
        let stated = match (step.level, step.stated_bytes) {
            (Some(level), Some(bytes)) => format!("; the kernel states {} of L{level}", size(bytes)),
            _ => "; the kernel states no cache of about this size".to_owned(),
        };
        row(&mut text, style, "cache", &format!("{}, {:.1} ns{stated}", size(step.bytes), step.latency_ns));
    }
    match m.unstable() {
        0 => row(&mut text, style, "stable", "all medians within 3 % (95 % intervals)"),
        count => {
            let what = format!(
                "{count} of the medians have 95 % intervals wider than 3 %: other programs ran, or the clock changed"
            );
            row(&mut text, style, "unstable", &what);
        }
    }
    text
}

/// So many digits behind the point that the smallest number has two.
fn digits(cells: &Matrix) -> usize {
    let least = cells.iter().flatten().flatten().map(|estimate| estimate.median).fold(f64::MAX, f64::min);
    [10.0, 1.0, 0.1].iter().filter(|&&limit| least < limit).count() + 1
}

fn medians(cells: &Matrix) -> Vec<Vec<Option<f64>>> {
    cells.iter().map(|row| row.iter().map(|cell| cell.map(|estimate| estimate.median)).collect()).collect()
}

/// How far the worst interval of a matrix reaches.
fn spread(cells: &Matrix, style: Style) -> String {
    let half = |estimate: &Estimate| (estimate.high - estimate.low) / 2.0 / estimate.median * 100.0;
    let worst = cells.iter().flatten().flatten().map(half).fold(0.0, f64::max);
    let mark = if style.unicode { "±" } else { "+-" };
    format!("        95 % intervals: {mark}{worst:.1} % at most\n")
}

/// The core with the least and the most latency of each node.
fn by_core(m: &Measurement, style: Style) -> String {
    let mut text = String::from("\nLatency by core, ns: least and most among the cores of a node, to its own memory\n");
    for (index, &node) in m.nodes.iter().enumerate() {
        let cores = m.cores.iter().filter(|core| core.node == node);
        let local = cores.filter_map(|core| Some((core.cpu, core.latency_ns.get(index).copied()??.median)));
        let mut local: Vec<(u32, f64)> = local.collect();
        local.sort_by(|a, b| a.1.total_cmp(&b.1));
        if let (Some(least), Some(most)) = (local.first(), local.last()) {
            let line = format!("{:.1} (CPU {}) to {:.1} (CPU {})", least.1, least.0, most.1, most.0);
            row(&mut text, style, &format!("  node {node}"), &line);
        }
    }
    text
}

fn curve(title: &str, axis: &str, points: impl IntoIterator<Item = (String, Estimate)>, style: Style) -> String {
    let remark = |estimate: &Estimate| if estimate.stable { "" } else { "unstable" };
    let points: Vec<_> = points.into_iter().map(|(label, point)| (label, point.median, remark(&point))).collect();
    bars(title, axis, &points, style)
}

fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|&(_, unit)| bytes >= unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}
