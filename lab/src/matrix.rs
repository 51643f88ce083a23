//! What was counted, as JSON. docs/LAB.md describes the fields.

use serde::Serialize;

use crate::machine::Machine;
use crate::options::Options;
use crate::table::{Cell, Counted};

/// The file that `--matrix` names.
#[derive(Debug, Serialize)]
pub struct Matrix {
    version: u32,
    command: Vec<String>,
    complete: bool,
    counts: &'static str,
    caches: Option<String>,
    distance: Vec<Vec<u64>>,
    cpus: Vec<Row>,
    nodes: Vec<Column>,
    local: u64,
    remote: u64,
    remote_share: f64,
    imbalance: f64,
    astray: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    cpu: usize,
    node: usize,
    reads: Vec<u64>,
    writes: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Column {
    node: usize,
    reads: u64,
    writes: u64,
    remote: u64,
}

impl Matrix {
    /// Puts it together. `complete`: the command has ended by itself.
    pub fn new(machine: &Machine, counted: &Counted, options: &Options, complete: bool) -> Matrix {
        let row = |(cpu, cells): (usize, &Vec<Cell>)| Row {
            cpu,
            node: machine.node_of(cpu),
            reads: cells.iter().map(|cell| cell.reads).collect(),
            writes: cells.iter().map(|cell| cell.writes).collect(),
        };
        let cpus: Vec<Row> = counted.cells.iter().enumerate().map(row).collect();
        let sum = |of: &dyn Fn(&Row) -> u64| cpus.iter().map(of).sum::<u64>();
        let column = |node: usize| Column {
            node,
            reads: sum(&|row| row.reads[node]),
            writes: sum(&|row| row.writes[node]),
            remote: sum(&|row| if row.node == node { 0 } else { row.reads[node] + row.writes[node] }),
        };
        let nodes: Vec<Column> = (0..machine.nodes()).map(column).collect();
        let all = nodes.iter().map(|node| node.reads + node.writes).sum::<u64>();
        let remote = nodes.iter().map(|node| node.remote).sum::<u64>();
        let loads: Vec<f64> = nodes.iter().map(|node| (node.reads + node.writes) as f64).collect();
        Matrix {
            version: 1,
            command: options.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            complete,
            counts: if options.caches.is_some() { "memory" } else { "accesses" },
            caches: options.caches.as_ref().map(|caches| machine.caches(caches).to_string()),
            distance: machine.distance.clone(),
            local: all - remote,
            remote,
            remote_share: if all == 0 { 0.0 } else { remote as f64 / all as f64 },
            imbalance: imbalance(&loads),
            astray: counted.astray,
            cpus,
            nodes,
        }
    }
}

/// Standard deviation of a sample, in percent of the mean.
fn imbalance(loads: &[f64]) -> f64 {
    let count = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / count;
    if loads.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    let squares: f64 = loads.iter().map(|load| (load - mean).powi(2)).sum();
    100.0 * (squares / (count - 1.0)).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_of_few_nodes_among_eight() {
        let of = |busy: usize| {
            imbalance(&(0..8).map(|node| if node < busy { 5.0 } else { 0.0 }).collect::<Vec<_>>()).round()
        };
        assert_eq!((1..=8).rev().map(of).collect::<Vec<_>>(), [0.0, 40.0, 62.0, 83.0, 107.0, 138.0, 185.0, 283.0]);
    }
}
