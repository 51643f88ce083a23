//! Measured numbers, and the model made of them.

use numamma_topology::{Contention, LatencyUnknown, Machine, MachineModel};
use serde::Serialize;

use crate::estimate::Estimate;

/// From CPUs of one node to memory of another; what could not be measured is `None`.
pub type Matrix = Vec<Vec<Option<Estimate>>>;

/// Measured numbers of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// `quick` or `full`.
    pub effort: &'static str,
    /// The day, UTC: `2026-03-01`.
    pub date: String,
    /// Seconds that it took.
    pub seconds: f64,
    /// The kernel's numbers of the nodes; rows and columns of each matrix are in this order.
    pub nodes: Vec<u32>,
    /// CPUs of each node that the process could use.
    pub cpus: Vec<Vec<u32>>,
    /// Bytes that a chase goes through, larger than the caches.
    pub footprint_bytes: u64,
    /// Nanoseconds of a load on an idle machine.
    pub latency_ns: Matrix,
    /// The same from each core; empty unless the effort is full.
    pub cores: Vec<CoreLatencies>,
    /// GB/s that all CPUs of a node read.
    pub read_gbs: Matrix,
    /// GB/s that they write.
    pub write_gbs: Matrix,
    /// GB/s that they copy within the other node, read and written bytes together.
    pub copy_gbs: Matrix,
    /// GB/s that all CPUs together read from each node.
    pub node_gbs: Vec<Option<Estimate>>,
    /// The node that the curves are of.
    pub loaded_node: Option<u32>,
    /// Latency of that node while more and more CPUs read it.
    pub on_one_node: Vec<Loaded>,
    /// The same while each of these CPUs reads memory of its own node.
    pub spread: Vec<Loaded>,
    /// Latency by footprint.
    pub footprints: Vec<Footprint>,
    /// The caches that this shows.
    pub caches: Vec<CacheStep>,
    /// Limits of the measurement, one sentence each.
    pub notes: Vec<String>,
}

/// Latencies from one CPU to each node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreLatencies {
    /// The CPU.
    pub cpu: u32,
    /// Its node.
    pub node: u32,
    /// Nanoseconds by node.
    pub latency_ns: Vec<Option<Estimate>>,
}

/// Latency under load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loaded {
    /// CPUs that access memory, with the one that measures.
    pub cpus: u32,
    /// Nanoseconds of a load.
    pub latency_ns: Estimate,
}

/// Latency of a footprint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Footprint {
    /// Its size.
    pub bytes: u64,
    /// Nanoseconds of a load.
    pub latency_ns: Estimate,
}

/// A cache as latencies show it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CacheStep {
    /// The largest footprint that fits.
    pub bytes: u64,
    /// Nanoseconds of a load that it serves.
    pub latency_ns: f64,
    /// The level that the kernel states with a size near to it.
    pub level: Option<u32>,
    /// The size that the kernel states.
    pub stated_bytes: Option<u64>,
}

impl Measurement {
    /// The model of the machine, which was `machine` when it was measured.
    ///
    /// # Errors
    /// If a pair of nodes could not be measured.
    pub fn model(&self, machine: &Machine) -> Result<MachineModel, LatencyUnknown> {
        let mut model = MachineModel::without_latencies(machine);
        let has_cpus: Vec<bool> = model.nodes.iter().map(|node| node.cpus > 0).collect();
        let values = |matrix: &Matrix| -> Option<Vec<Vec<f64>>> {
            let row = |(row, &has_cpus): (&Vec<Option<Estimate>>, &bool)| match has_cpus {
                true => row.iter().map(|cell| cell.map(|estimate| rounded(estimate.median))).collect(),
                false => Some(Vec::new()),
            };
            matrix.iter().zip(&has_cpus).map(row).collect()
        };
        model.latency_ns = values(&self.latency_ns).ok_or_else(|| LatencyUnknown {
            reason: format!("not all pairs of nodes could be measured; {}", self.notes.join("; ")),
        })?;
        let all_cpus = machine.used_nodes().iter().zip(&self.cpus).all(|(node, cpus)| node.cpus.len() == cpus.len());
        if all_cpus {
            model.bandwidth_gbs = values(&self.read_gbs).unwrap_or_default();
            for (node, gbs) in model.nodes.iter_mut().zip(&self.node_gbs) {
                node.bandwidth_gbs = gbs.map(|estimate| rounded(estimate.median));
            }
        }
        let point = |loaded: &Loaded| Contention { cpus: loaded.cpus, latency_ns: rounded(loaded.latency_ns.median) };
        model.contention = self.on_one_node.iter().map(point).collect();
        // Some CPUs of a node do not reach what all of them would.
        let some = if all_cpus { "" } else { ", with some of the CPUs: no bandwidths" };
        model.source =
            format!("measured on {} by NumaMMA {}, {}{some}", self.date, env!("CARGO_PKG_VERSION"), self.effort);
        Ok(model)
    }

    /// Estimates that did not become stable.
    pub fn unstable(&self) -> usize {
        let matrices = [&self.latency_ns, &self.read_gbs, &self.write_gbs, &self.copy_gbs];
        let cells = matrices.into_iter().flatten().flatten().flatten();
        let others =
            self.node_gbs.iter().flatten().chain(self.cores.iter().flat_map(|core| core.latency_ns.iter().flatten()));
        let loaded = self.on_one_node.iter().chain(&self.spread).map(|point| &point.latency_ns);
        cells.chain(others).chain(loaded).filter(|estimate| !estimate.stable).count()
    }
}

/// Three digits behind the point: more would be noise in a file.
fn rounded(value: f64) -> f64 {
    ((value * 1e3).round() / 1e3).max(1e-3)
}

/// The day of a time in seconds since 1970, UTC.
pub(crate) fn date(seconds: u64) -> String {
    // Days from 0000-03-01, in eras of 400 years (H. Hinnant's algorithm).
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (seconds, text) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (951_868_800, "2000-03-01"), (1_767_225_599, "2025-12-31")]
        {
            assert_eq!(date(seconds), text);
        }
    }
}
