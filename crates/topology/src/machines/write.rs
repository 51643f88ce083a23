//! A model as the text of a machine file.

use std::fmt::Write as _;

use crate::model::{MachineModel, ModelNode};

/// The text from which [`super::parse`] reads the same model.
pub fn to_toml(model: &MachineModel) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("name", &quoted(&model.name));
    line("source", &quoted(&model.source));
    line("page_bytes", &model.page_bytes.to_string());
    if let Some(bytes) = model.huge_page_bytes {
        line("huge_page_bytes", &size(bytes));
    }
    if let Some(ghz) = model.ghz {
        line("ghz", &number(ghz));
    }
    if let Some(bytes) = model.cache_bytes {
        line("cache_bytes", &size(bytes));
    }
    list(&mut text, "nodes", model.nodes.iter().map(node));
    matrix(&mut text, "latency_ns", &model.latency_ns);
    matrix(&mut text, "bandwidth_gbs", &model.bandwidth_gbs);
    let points = model.contention.iter();
    let points = points.map(|point| format!("{{ cpus = {}, latency_ns = {} }}", point.cpus, number(point.latency_ns)));
    list(&mut text, "contention", points);
    text
}

/// An empty list is not written: its key is optional, or the reader says what is missing.
fn list(text: &mut String, key: &str, entries: impl Iterator<Item = String>) {
    let lines: Vec<String> = entries.map(|entry| format!("  {entry},\n")).collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{key} = [\n{}]", lines.concat());
    }
}

fn node(node: &ModelNode) -> String {
    let mut fields = vec![format!("cpus = {}", node.cpus)];
    if node.threads_per_core != 1 {
        fields.push(format!("threads_per_core = {}", node.threads_per_core));
    }
    fields.extend(node.memory_bytes.map(|bytes| format!("memory_bytes = {}", size(bytes))));
    fields.extend(node.bandwidth_gbs.map(|gbs| format!("bandwidth_gbs = {}", number(gbs))));
    format!("{{ {} }}", fields.join(", "))
}

/// Columns are aligned, so that people see the pattern.
fn matrix(text: &mut String, key: &str, rows: &[Vec<f64>]) {
    let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().copied().map(number).collect()).collect();
    let width = texts.iter().flatten().map(String::len).max().unwrap_or(0);
    let rows = texts.iter().map(|row| {
        let cells: Vec<String> = row.iter().map(|cell| format!("{cell:>width$}")).collect();
        format!("[{}]", cells.join(", "))
    });
    list(text, key, rows);
}

/// The shortest text that reads as the same number, and as a floating one.
fn number(value: f64) -> String {
    format!("{value:?}")
}

/// In the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|&(_, unit)| bytes >= unit && bytes.is_multiple_of(unit)) {
        Some((name, unit)) => format!("\"{} {name}\"", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // The reader refuses control characters.
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
