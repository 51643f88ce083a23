//! Machines and recordings made up for tests.
#![allow(dead_code)]

use numamma_findings::{
    CallSite, FirstTouch, InstanceUse, MemorySource, ObjectUse, PageThreadUse, PageUse, PhaseUse, ThreadUse, Usage,
};
use numamma_topology::{Contention, MachineModel, ModelNode};

pub mod random;

pub const PAGE: u64 = 4096;

/// Nodes with 4 CPUs each, remote memory twice as far as local memory.
pub fn machine(nodes: usize) -> MachineModel {
    let latency = |from: usize, to: usize| if from == to { 80.0 } else { 160.0 };
    MachineModel {
        name: format!("{nodes}x4"),
        page_bytes: PAGE,
        nodes: vec![ModelNode { cpus: 4, threads_per_core: 1, ..ModelNode::default() }; nodes],
        latency_ns: (0..nodes).map(|from| (0..nodes).map(|to| latency(from, to)).collect()).collect(),
        contention: vec![
            Contention { cpus: 1, latency_ns: 80.0 },
            Contention { cpus: 4 * nodes as u32, latency_ns: 160.0 + 60.0 * nodes as f64 },
        ],
        ..MachineModel::default()
    }
}

/// The course's machine (AMD Opteron 6174, 8 nodes of 6 cores): 155, 275 and 380 cycles, 870 if all cores access one node. Which
/// nodes are one hop apart is AMD's layout of four sockets: the other node of the socket, and those of the same parity.
pub fn amd48() -> MachineModel {
    let ghz = 2.2;
    let hops = |a: usize, b: usize| match () {
        () if a == b => 0,
        () if a / 2 == b / 2 || a % 2 == b % 2 => 1,
        () => 2,
    };
    let latency = |from: usize, to: usize| [155.0, 275.0, 380.0][hops(from, to)] / ghz;
    MachineModel {
        name: "amd-8x6".into(),
        source: "G. Thomas, course on NUMA".into(),
        page_bytes: PAGE,
        huge_page_bytes: Some(2 << 20),
        ghz: Some(ghz),
        nodes: vec![ModelNode { cpus: 6, threads_per_core: 1, ..ModelNode::default() }; 8],
        latency_ns: (0..8).map(|from| (0..8).map(|to| latency(from, to)).collect()).collect(),
        contention: vec![
            Contention { cpus: 1, latency_ns: 155.0 / ghz },
            Contention { cpus: 48, latency_ns: 870.0 / ghz },
        ],
        ..MachineModel::default()
    }
}

/// A run of `threads` threads on a machine of one node, of which nothing is recorded yet.
pub fn usage(threads: usize, source: MemorySource) -> Usage {
    let thread = |thread| ThreadUse { thread, node: Some(0), ..ThreadUse::default() };
    Usage {
        wall_s: 0.0,
        page_bytes: PAGE,
        nodes: 1,
        cpus: 1 << 16,
        memory_source: source,
        threads: (0..threads).map(thread).collect(),
        objects: Vec::new(),
        phases: vec![PhaseUse { name: "phase 1".into(), wall_s: 0.0, busy_s: vec![0.0; threads] }],
    }
}

/// A heap object `name`, allocated in `make_NAME` and touched first by `toucher`; `uses(page)`: threads with their accesses.
pub fn object(
    usage: &mut Usage,
    name: &str,
    pages: u64,
    toucher: impl Fn(u64) -> usize,
    uses: impl Fn(u64) -> Vec<(usize, f64)>,
) {
    let id = usage.objects.len();
    let page = |page: u64| PageUse {
        page,
        first_touch: Some(toucher(page)),
        node: Some(0),
        by_thread: uses(page)
            .into_iter()
            .map(|(thread, memory)| PageThreadUse { thread, phase: 0, samples: 1, memory, writes: 0.0 })
            .collect(),
    };
    let pages_used: Vec<PageUse> = (0..pages).map(page).collect();
    let site = CallSite {
        function: format!("make_{name}"),
        file: "solver.c".into(),
        line: 10 + id as u32,
        ..CallSite::default()
    };
    let touch = FirstTouch {
        thread: toucher(0),
        function: "init".into(),
        file: "solver.c".into(),
        line: 31,
        pages,
        ..FirstTouch::default()
    };
    usage.objects.push(ObjectUse {
        id,
        name: name.into(),
        kind: "heap".into(),
        site: Some(site),
        first_touch: vec![touch],
        instances: vec![InstanceUse { bytes: pages * PAGE, pages: pages_used, ..InstanceUse::default() }],
        ..ObjectUse::default()
    });
}

/// Gives counts native times: each thread computes `compute_s` beside its accesses, which take `ns` each in the recording.
pub fn timed(counted: &Usage, compute_s: f64, ns: f64) -> Usage {
    let mut timed = Usage { memory_source: MemorySource::Time, ..counted.clone() };
    let mut stalls = vec![0.0; timed.threads.len()];
    for instance in timed.objects.iter_mut().flat_map(|object| &mut object.instances) {
        for of in instance.pages.iter_mut().flat_map(|page| &mut page.by_thread) {
            // Known without noise.
            (of.samples, of.memory) = (1 << 40, of.memory * ns * 1e-9);
            stalls[of.thread] += of.memory;
        }
    }
    for (thread, stall) in timed.threads.iter_mut().zip(&stalls) {
        thread.busy_s = Some(compute_s + stall);
        thread.stall_s = Some(*stall);
    }
    timed.phases[0].busy_s = stalls.iter().map(|stall| compute_s + stall).collect();
    timed.wall_s = compute_s + stalls.iter().copied().fold(0.0, f64::max);
    timed.phases[0].wall_s = timed.wall_s;
    timed
}
