//! The time of a placement.
//!
//! ```text
//!   time(phase)  = idle + max(longest thread, threads of a node / its CPUs, bytes of a node or link / its bandwidth)
//!   thread       = compute + sum over nodes of misses * (idle latency + queue)
//!   queue(node)  = contention curve at the CPU of the thread and the mean number of others that wait for the node
//!   waiting CPUs = seconds that the other threads wait for the node / time(phase)
//! ```
//!
//! The last three depend on each other; they are repeated until the time stays the same.

use crate::demand::Demand;
use crate::latencies::Latencies;
use crate::traffic::Traffic;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;
/// Rounds until the time has settled: each halves the distance, 2^-40 is none.
const ROUNDS: usize = 40;
/// Relative change of the time that ends the rounds.
const SETTLED: f64 = 1e-6;

/// Which of the things that are not known are taken otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Otherwise {
    /// All threads access memory at the same time, not spread over the phase.
    pub bursts: bool,
    /// Nanoseconds of each load that the CPU hides behind other work.
    pub hidden_ns: f64,
    /// Times so many half-widths of the error of the stall times.
    pub stalls: f64,
}

/// Time of a placement, with the load of the nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds of the whole run.
    pub time_s: f64,
    /// Thread seconds that loads wait.
    pub waiting_s: f64,
    /// Thread seconds that loads wait for each node.
    pub node_waiting_s: Vec<f64>,
}

/// Predicts the time.
pub fn cost(
    demand: &Demand,
    latencies: &Latencies,
    thread_nodes: &[usize],
    traffic: &Traffic,
    otherwise: Otherwise,
) -> Cost {
    let mut sum = Cost { node_waiting_s: vec![0.0; latencies.nodes], ..Cost::default() };
    for phase in 0..demand.phases {
        let phase = Phase::new(demand, latencies, thread_nodes, traffic, otherwise, phase);
        let (time_s, waiting) = phase.settle(latencies, otherwise);
        sum.time_s += time_s;
        for (sum, waiting) in sum.node_waiting_s.iter_mut().zip(&waiting) {
            *sum += waiting;
        }
    }
    sum.waiting_s = sum.node_waiting_s.iter().sum();
    sum
}

/// One phase. Threads without misses are all one: the longest.
struct Phase {
    /// Seconds that no thread works.
    idle_s: f64,
    /// The longest thread without misses, and bandwidth.
    least_s: f64,
    /// Seconds of all threads without misses, by node.
    others_s: Vec<f64>,
    /// Node of each thread with misses.
    from: Vec<usize>,
    /// Compute time and idle latencies of each thread with misses, seconds.
    alone_s: Vec<f64>,
    /// Their misses, by node.
    misses: Vec<f64>,
    /// Seconds that they wait for each node at idle latency, as `misses`.
    idle_waiting_s: Vec<f64>,
}

impl Phase {
    fn new(
        demand: &Demand,
        latencies: &Latencies,
        thread_nodes: &[usize],
        traffic: &Traffic,
        otherwise: Otherwise,
        phase: usize,
    ) -> Self {
        let nodes = latencies.nodes;
        let misses = traffic.phase(&traffic.misses, phase);
        let recorded_s = traffic.phase(&traffic.recorded_s, phase);
        let mut of = Self {
            idle_s: demand.idle_s[phase],
            least_s: 0.0,
            others_s: vec![0.0; nodes],
            from: Vec::new(),
            alone_s: Vec::new(),
            misses: Vec::new(),
            idle_waiting_s: Vec::new(),
        };
        let mut links = vec![0.0; nodes * nodes];
        for thread in (0..demand.threads).filter(|&thread| demand.included[thread]) {
            let row = thread * nodes..(thread + 1) * nodes;
            let (misses, recorded_s) = (&misses[row.clone()], &recorded_s[row]);
            let more = (1.0 + otherwise.stalls * demand.stall_error[thread]).max(0.0);
            let compute = demand.work_s[phase * demand.threads + thread] - more * recorded_s.iter().sum::<f64>();
            let from = thread_nodes[thread];
            let mut alone = compute.max(0.0);
            if misses.iter().all(|&misses| misses <= 0.0) {
                of.least_s = of.least_s.max(alone);
                of.others_s[from] += alone;
                continue;
            }
            for (to, (&misses, &recorded_s)) in misses.iter().zip(recorded_s).enumerate() {
                links[from * nodes + to] += misses;
                // The part of a latency that is hidden was no part of the stall either.
                let ns = if misses > 0.0 { recorded_s * 1e9 / misses } else { 0.0 };
                let hidden = otherwise.hidden_ns.min(0.5 * ns).min(0.5 * latencies.idle_ns(from, to));
                let misses = more * if ns > 0.0 { misses * ns / (ns - hidden) } else { misses };
                let wait = misses * (latencies.idle_ns(from, to) - hidden) * 1e-9;
                of.misses.push(misses);
                of.idle_waiting_s.push(wait);
                alone += wait;
            }
            of.alone_s.push(alone);
            of.from.push(from);
        }
        of.least_s = of.least_s.max(bandwidth_s(latencies, &links, demand.overlap));
        of
    }

    /// The time, and the thread seconds that are waited for each node. A thread that comes to a node finds the others there, as if it were
    /// not part of them (arrival theorem: Reiser and Lavenberg, 1980).
    fn settle(&self, latencies: &Latencies, otherwise: Otherwise) -> (f64, Vec<f64>) {
        let nodes = latencies.nodes;
        let threads = self.alone_s.len().max(1) as f64;
        // By thread and node, as `misses`.
        let mut queue_s = vec![0.0; self.misses.len()];
        let mut waiting = vec![0.0; nodes];
        let mut last = 0.0;
        for _ in 0..ROUNDS {
            let (mut time, mut on_node_s) = (self.least_s, self.others_s.clone());
            waiting.fill(0.0);
            for (thread, (alone, &from)) in self.alone_s.iter().zip(&self.from).enumerate() {
                let mut seconds = *alone;
                for (node, waiting) in waiting.iter_mut().enumerate() {
                    let at = thread * nodes + node;
                    let queued = self.misses[at] * queue_s[at];
                    seconds += queued;
                    *waiting += self.idle_waiting_s[at] + queued;
                }
                time = time.max(seconds);
                on_node_s[from] += seconds;
            }
            // More threads than CPUs take turns.
            let crowded = on_node_s.iter().zip(&latencies.cpus).filter(|(_, cpus)| **cpus > 0);
            let time = crowded.map(|(seconds, &cpus)| seconds / f64::from(cpus)).fold(time, f64::max);
            if (time - last).abs() <= SETTLED * time {
                return (self.idle_s + time, waiting);
            }
            last = time;
            // In bursts, threads wait at the same time: as long as the mean one of them waits.
            let during = if otherwise.bursts { waiting.iter().sum::<f64>() / threads } else { time + self.idle_s };
            for (at, queue) in queue_s.iter_mut().enumerate() {
                let own = self.idle_waiting_s[at] + self.misses[at] * *queue;
                let others = if during > 0.0 { (waiting[at % nodes] - own).max(0.0) / during } else { 0.0 };
                *queue = 0.5 * (*queue + latencies.queue_ns((1.0 + others).min(threads)) * 1e-9);
            }
        }
        (self.idle_s + last, waiting)
    }
}

/// Seconds that the slowest node or link needs for the bytes; `misses`: `[from * nodes + to]`, of which each stands for `overlap`.
fn bandwidth_s(latencies: &Latencies, misses: &[f64], overlap: f64) -> f64 {
    let nodes = latencies.nodes;
    let seconds = |misses: f64, gb_s: f64| misses * overlap * LINE / (gb_s * 1e9);
    let of_node = |to: usize| {
        let all: f64 = misses.iter().skip(to).step_by(nodes).sum();
        latencies.node_gb_s[to].map_or(0.0, |gb_s| seconds(all, gb_s))
    };
    let longest = (0..nodes).map(of_node).fold(0.0, f64::max);
    let links = latencies.link_gb_s.iter().flatten().zip(misses);
    links.map(|(&gb_s, &misses)| seconds(misses, gb_s)).fold(longest, f64::max)
}
