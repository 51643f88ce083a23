//! Plans and predictions for a million pages, 256 threads and 16 nodes: time and memory.
//!
//! Memory is that of this process after both, with the list itself.

use std::fs;
use std::time::Instant;

use numamma_advise::{Options, plan, predict};
use numamma_findings::{
    CallSite, InstanceUse, MemorySource, ObjectUse, PageThreadUse, PageUse, PhaseUse, ThreadUse, Usage,
};
use numamma_topology::{Contention, MachineModel, ModelNode};
use serde_json::json;

use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Measured};

const PAGE_BYTES: u64 = 4096;
const THREADS: usize = 256;
const NODES: usize = 16;

pub fn run(bench: &Bench) -> Measured {
    let pages: u64 = if bench.quick { 1 << 15 } else { 1_000_000 };
    let (usage, machine) = (usage(pages), machine());
    let (mut plans, mut predictions) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(3, 1) {
        let start = Instant::now();
        let advice = plan(&usage, &machine, &Options::default())?;
        plans.push(start.elapsed().as_secs_f64());
        if advice.plan.objects.len() != 2 {
            return Err(format!("{} objects are placed, not 2", advice.plan.objects.len()).into());
        }
        let start = Instant::now();
        predict(&usage, &machine, &Options::default())?;
        predictions.push(start.elapsed().as_secs_f64());
    }
    let name = format!("{pages} pages, {THREADS} threads, {NODES} nodes");
    let seconds = |times: &[f64]| format!("{:.2} s", Spread::of(times));
    let mut lines = vec![
        Line::beside(format!("plan in memory, {name}: time"), seconds(&plans)),
        Line::beside(format!("predictions, {name}: time"), seconds(&predictions)),
    ];
    let peak = peak_bytes();
    if let Some(bytes) = peak {
        let reached = format!("{:.2} GiB", bytes / (1_u64 << 30) as f64);
        lines.push(Line::beside(format!("plan and predictions, {name}: peak memory"), reached));
    }
    let raw = json!({ "pages": pages, "plan_s": plans, "predict_s": predictions, "peak_bytes": peak });
    Ok((lines, raw))
}

/// Two objects of half the pages each: a block for each thread, and one that all share, with four threads at each page.
fn usage(pages: u64) -> Usage {
    let half = pages / 2;
    let threads = THREADS as u64;
    let block = |page: u64| vec![((page * threads / half) as usize, 50.0)];
    let user = |page: u64, n: u64| ((page * 2_654_435_761 + n * 40_503) % threads) as usize;
    let shared = |page: u64| (0..4).map(|n| (user(page, n), 12.0)).collect();
    Usage {
        wall_s: 0.0,
        page_bytes: PAGE_BYTES,
        nodes: 1,
        cpus: THREADS,
        memory_source: MemorySource::Hardware,
        threads: (0..THREADS).map(|thread| ThreadUse { thread, node: Some(0), ..ThreadUse::default() }).collect(),
        objects: vec![object(0, "field", half, block), object(1, "table", half, shared)],
        phases: vec![PhaseUse { name: "phase 1".into(), wall_s: 0.0, busy_s: vec![0.0; THREADS] }],
    }
}

/// A heap object that the main thread touches first; `uses(page)`: threads with their accesses.
fn object(id: usize, name: &str, pages: u64, uses: impl Fn(u64) -> Vec<(usize, f64)>) -> ObjectUse {
    let by_thread = |page: u64| {
        let of = uses(page).into_iter();
        of.map(|(thread, memory)| PageThreadUse { thread, phase: 0, samples: 1, memory, writes: 0.0 }).collect()
    };
    let page = |page: u64| PageUse { page, first_touch: Some(0), node: Some(0), by_thread: by_thread(page) };
    let pages_used = (0..pages).map(page).collect();
    ObjectUse {
        id,
        name: name.into(),
        kind: "heap".into(),
        site: Some(CallSite {
            function: format!("make_{name}"),
            file: "solver.c".into(),
            line: 10,
            ..CallSite::default()
        }),
        instances: vec![InstanceUse { bytes: pages * PAGE_BYTES, pages: pages_used, ..InstanceUse::default() }],
        ..ObjectUse::default()
    }
}

/// Nodes with 4 CPUs each, remote memory twice as far as local memory.
fn machine() -> MachineModel {
    let latency = |from: usize, to: usize| if from == to { 80.0 } else { 160.0 };
    MachineModel {
        name: format!("{NODES}x4"),
        page_bytes: PAGE_BYTES,
        nodes: vec![ModelNode { cpus: 4, threads_per_core: 1, ..ModelNode::default() }; NODES],
        latency_ns: (0..NODES).map(|from| (0..NODES).map(|to| latency(from, to)).collect()).collect(),
        contention: vec![
            Contention { cpus: 1, latency_ns: 80.0 },
            Contention { cpus: 4 * NODES as u32, latency_ns: 160.0 + 60.0 * NODES as f64 },
        ],
        ..MachineModel::default()
    }
}

/// Most memory that this process has had at once.
fn peak_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0)
}
