//! From a recording to loads that threads wait for: the part of the model that does not depend on the placement.
//!
//! ```text
//!   seconds that loads waited / latency there in the recording -> misses       (MemorySource::Time)
//!   counted misses / number that a thread has under way at once -> misses      (counts)
//!   CPU time - time that loads waited                           -> compute time
//! ```

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use numamma_findings::{InstanceUse, MemorySource, ObjectUse, PageThreadUse, PageUse, Usage};

use crate::error::AdviseError;
use crate::latencies::Latencies;
use crate::options::{Options, ThreadPlacement};
use crate::traffic::Share;

/// Waiting for CPUs is worth a sentence from this part of the run on.
const LONG: f64 = 0.05;
/// A thread or a process works if it does more than this part of what the busiest one does.
const WORKS: f64 = 0.1;
/// Processes ran at once if this part of the shorter one's life is of both.
const AT_ONCE: f64 = 0.5;

/// Compute time and memory accesses of each phase.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Number of phases, at least 1.
    pub phases: usize,
    /// Number of threads.
    pub threads: usize,
    /// By thread: true if its process is predicted.
    pub included: Vec<bool>,
    /// Number of these processes.
    pub processes: usize,
    /// Seconds of CPU time with what loads wait, spinning excluded: `[phase * threads + thread]`. 0 where it is not known.
    pub work_s: Vec<f64>,
    /// Seconds of each phase in which not even its busiest thread works, and what calibration adds.
    pub idle_s: Vec<f64>,
    /// Seconds of `idle_s` of phases with as many threads as CPUs: these may have waited for a CPU.
    pub crowded_s: f64,
    /// Seconds of phases with more threads than CPUs in which not even the busiest thread worked, and which are not in `idle_s`.
    pub left_out_s: f64,
    /// Whether CPU time is not known, so that times hold memory accesses alone.
    pub memory_only: bool,
    /// Half-width of the 95 % interval of the seconds that loads wait, as a share of them, by thread.
    pub stall_error: Vec<f64>,
    /// Loads that a thread has under way at once; of stall times 1, they hold it already.
    pub overlap: f64,
    /// Thread seconds that loads waited in the recording; 0 where it is not known.
    stalls_s: f64,
    /// Assumptions, one sentence each.
    pub assumptions: Vec<String>,
    source: MemorySource,
    /// Nanoseconds of a load in the recording: `[(phase * threads + thread) * (nodes + 1) + node of the page, or nodes]`.
    recorded_ns: Vec<f64>,
    recorded_nodes: usize,
}

impl Demand {
    /// Of a recording. `latencies`: of the machine to predict for.
    ///
    /// # Errors
    /// If accesses to memory are not known.
    pub fn new(usage: &Usage, latencies: &Latencies, options: &Options) -> Result<Self, AdviseError> {
        check(usage)?;
        let threads = usage.threads.len();
        let phases = usage.phases.len().max(1);
        let (included, processes) = included(usage);
        let mut demand = Self {
            phases,
            threads,
            work_s: vec![0.0; phases * threads],
            idle_s: vec![0.0; phases],
            crowded_s: 0.0,
            left_out_s: 0.0,
            memory_only: usage.threads.iter().zip(&included).any(|(thread, &is)| is && thread.busy_s.is_none()),
            stall_error: usage.threads.iter().map(stall_error).collect(),
            included,
            processes,
            overlap: 1.0,
            stalls_s: 0.0,
            assumptions: Vec::new(),
            source: usage.memory_source,
            recorded_ns: Vec::new(),
            recorded_nodes: usage.nodes.max(1),
        };
        if !demand.memory_only {
            demand.work(usage);
            demand.stalls_s =
                (0..threads).filter(|&t| demand.included[t]).filter_map(|t| usage.threads[t].stall_s).sum();
        }
        demand.recorded(usage, latencies, options)?;
        demand.counts(usage);
        demand.assume(usage, latencies, options);
        if let Some(calibration) = options.calibration {
            demand.overlap = calibration.overlap;
            demand.idle_s[0] += calibration.compute_s;
            demand.memory_only = false;
        }
        Ok(demand)
    }

    /// Misses and waiting time of one use of a page.
    pub fn share(&self, page: &PageUse, of: &PageThreadUse) -> Share {
        let row = (of.phase * self.threads + of.thread) * (self.recorded_nodes + 1);
        let node = page.node.filter(|&node| node < self.recorded_nodes).unwrap_or(self.recorded_nodes);
        let ns = self.recorded_ns[row + node];
        let (misses, recorded_s) = match self.source {
            MemorySource::Time => (of.memory * 1e9 / ns, of.memory),
            _ if self.memory_only => (of.memory / self.overlap, 0.0),
            _ => (of.memory / self.overlap, of.memory / self.overlap * ns * 1e-9),
        };
        let is_exact = self.source == MemorySource::CacheModel;
        let variance = if is_exact { 0.0 } else { misses * misses / of.samples.max(1) as f64 };
        Share { misses, recorded_s, variance }
    }

    /// Part of the threads' CPU time that loads wait for memory, 0..1; `None` where times are not known.
    pub fn waiting_share(&self) -> Option<f64> {
        let work: f64 = self.work_s.iter().sum();
        (work > 0.0).then(|| (self.stalls_s / work).min(1.0))
    }

    /// Whether each use was counted, so that there is no error of sampling.
    pub fn is_exact(&self) -> bool {
        self.source == MemorySource::CacheModel
    }

    /// Whether the misses are counts of cache lines; else they are the least number of them.
    pub fn is_counted(&self) -> bool {
        self.source != MemorySource::Time
    }

    /// CPU time without spinning, and what is left of each phase.
    fn work(&mut self, usage: &Usage) {
        for (thread, used) in usage.threads.iter().enumerate().filter(|(thread, _)| self.included[*thread]) {
            let busy = used.busy_s.unwrap_or(0.0);
            for phase in 0..self.phases {
                let in_phase = match usage.phases.get(phase) {
                    Some(of) => of.busy_s.get(thread).copied().unwrap_or(0.0),
                    None => busy,
                };
                self.work_s[phase * self.threads + thread] = in_phase;
            }
        }
        let included = usage.threads.iter().zip(&self.included).filter(|(_, is)| **is);
        let spinning: f64 = included.map(|(thread, _)| thread.waiting_s).sum();
        for (phase, idle) in self.idle_s.iter_mut().enumerate() {
            let wall = usage.phases.get(phase).map_or(usage.wall_s, |of| of.wall_s);
            let work = &self.work_s[phase * self.threads..][..self.threads];
            let longest = work.iter().copied().fold(0.0, f64::max);
            let crowded = work.iter().sum::<f64>() / usage.cpus.max(1) as f64;
            *idle = (wall - longest.max(crowded)).max(0.0);
            // Where there are more threads than CPUs, they wait for each other's CPUs, which depends on the recorded machine. Where there
            // are as many, they wait for CPUs of other programs, or for each other.
            let workers = work.iter().filter(|&&seconds| seconds > WORKS * longest).count();
            match workers.cmp(&usage.cpus.max(1)) {
                Ordering::Greater => {
                    // Threads in spin loops have CPUs that others wait for.
                    let spun = crowded + spinning * wall / usage.wall_s.max(wall) / usage.cpus.max(1) as f64;
                    self.left_out_s += std::mem::take(idle).min((wall - spun).max(0.0));
                }
                Ordering::Equal => self.crowded_s += *idle,
                Ordering::Less => {}
            }
        }
    }

    /// Nanoseconds of a load in the recording, from the recorded machine if it is known.
    fn recorded(&mut self, usage: &Usage, latencies: &Latencies, options: &Options) -> Result<(), AdviseError> {
        let (rows, nodes) = (self.phases * self.threads, self.recorded_nodes);
        self.recorded_ns = vec![latencies.local_ns(); rows * (nodes + 1)];
        let Some(machine) = &options.recorded else { return Ok(()) };
        let recorded = Latencies::new(machine)?;
        if recorded.nodes != nodes {
            let fault = format!("the recording is of a machine with {nodes} nodes, this one has {}", recorded.nodes);
            return Err(AdviseError::Machine { name: machine.name.clone(), fault });
        }
        // CPUs that waited for each node at a time: in all, and of each thread.
        let mut waiting = vec![0.0; self.phases * nodes];
        let mut own = vec![0.0; rows * nodes];
        if self.source == MemorySource::Time {
            for (page, of) in uses(usage) {
                let node = page.node.or(usage.threads[of.thread].node).filter(|&node| node < nodes);
                let wall = usage.phases.get(of.phase).map_or(usage.wall_s, |phase| phase.wall_s);
                if let (Some(node), true) = (node, wall > 0.0) {
                    waiting[of.phase * nodes + node] += of.memory / wall;
                    own[(of.phase * self.threads + of.thread) * nodes + node] += of.memory / wall;
                }
            }
        }
        for row in 0..rows {
            let (phase, thread) = (row / self.threads, row % self.threads);
            let from = usage.threads[thread].node.filter(|&node| node < nodes && recorded.cpus[node] > 0);
            let mean = |of: &mut dyn Iterator<Item = f64>| {
                let all: Vec<f64> = of.collect();
                all.iter().sum::<f64>() / all.len() as f64
            };
            // A thread that moved was on each node for a while.
            let idle = |to: usize| match from {
                Some(from) => recorded.idle_ns(from, to),
                None => mean(&mut recorded.cpu_nodes().map(|from| recorded.idle_ns(from, to))),
            };
            for to in 0..nodes {
                let queue = recorded.queue_ns(1.0 + waiting[phase * nodes + to] - own[row * nodes + to]);
                self.recorded_ns[row * (nodes + 1) + to] = idle(to) + queue;
            }
            self.recorded_ns[row * (nodes + 1) + nodes] = from.map_or(recorded.local_ns(), idle);
        }
        Ok(())
    }

    /// Loads under way at once, where both their number and the time that they took are known.
    fn counts(&mut self, usage: &Usage) {
        if self.source == MemorySource::Time || self.memory_only {
            return;
        }
        let mut one_by_one_s = vec![0.0; self.threads];
        for (page, of) in uses(usage) {
            one_by_one_s[of.thread] += self.share(page, of).recorded_s;
        }
        let all: f64 = one_by_one_s.iter().sum();
        let stalls: Option<f64> =
            (0..self.threads).filter(|&t| self.included[t]).map(|t| usage.threads[t].stall_s).sum();
        // Loads cannot have waited longer than the threads worked.
        let most = self.work_s.iter().sum::<f64>();
        let time = stalls.filter(|&stalls| stalls > 0.0).unwrap_or(all).min(most);
        self.overlap = if time > 0.0 { (all / time).max(1.0) } else { 1.0 };
    }

    fn assume(&mut self, usage: &Usage, latencies: &Latencies, options: &Options) {
        let mut assume = |text: &str| self.assumptions.push(text.to_owned());
        if self.source == MemorySource::Time && options.recorded.is_none() {
            assume(
                "The recorded machine's latencies are not known: its loads are taken to have waited as long as for local memory of this machine.",
            );
        }
        if !latencies.contention_known {
            assume(
                "The machine's contention is not known: each further CPU that waits for a node adds a tenth of the local latency, as on the 48-core machine amd-8x6.",
            );
        }
        if latencies.node_gb_s.iter().all(Option::is_none) && latencies.link_gb_s.is_none() {
            assume(
                "The machine's bandwidths are not known: where programs stream faster than a node or a link can, they take longer than this.",
            );
        }
        if self.memory_only && options.calibration.is_none() {
            assume("The native run time is not known: times are of accesses to memory alone.");
        }
        let share = |seconds: f64| 100.0 * seconds / usage.wall_s;
        if self.left_out_s > LONG * usage.wall_s {
            self.assumptions.push(format!(
                "The program had more threads than CPUs when it was recorded: the {:.0} % of the time in which none of them worked are left out, and in the interval.",
                share(self.left_out_s)
            ));
        }
        if self.crowded_s > LONG * usage.wall_s {
            self.assumptions.push(format!(
                "The program had as many threads as CPUs when it was recorded: in {:.0} % of the time none of them worked, which stays; if they waited for a CPU, it will not: the interval has both.",
                share(self.crowded_s)
            ));
        }
        if self.processes > 1 {
            self.assumptions.push(format!(
                "{} processes ran at once: a plan places their memory and leaves their threads free, which are taken to run as {}.",
                self.processes,
                match &options.threads {
                    ThreadPlacement::Best | ThreadPlacement::Scatter => "Linux spreads them, from node to node",
                    ThreadPlacement::Compact => "--pin compact has them, node by node",
                    ThreadPlacement::AsRecorded | ThreadPlacement::Nodes(_) => "they are asked for",
                }
            ));
        }
        if usage.phases.len() < 2 {
            let one = "The run has one phase: a serial part is taken to overlap with other threads.";
            self.assumptions.push(one.to_owned());
        }
    }
}

/// Each use of each page.
fn uses(usage: &Usage) -> impl Iterator<Item = (&PageUse, &PageThreadUse)> {
    instances(usage)
        .flat_map(|(_, instance)| &instance.pages)
        .flat_map(|page| page.by_thread.iter().map(move |of| (page, of)))
}

/// Each instance of each object.
pub fn instances(usage: &Usage) -> impl Iterator<Item = (&ObjectUse, &InstanceUse)> {
    usage.objects.iter().flat_map(|object| object.instances.iter().map(move |instance| (object, instance)))
}

fn stall_error(thread: &numamma_findings::ThreadUse) -> f64 {
    let share =
        thread.stall_error_s.zip(thread.stall_s.filter(|&stall| stall > 0.0)).map(|(error, stall)| error / stall);
    share.unwrap_or(0.0).clamp(0.0, 1.0)
}

/// The threads of the process that accesses memory most, and of those that worked at the same time; and the number of these processes.
fn included(usage: &Usage) -> (Vec<bool>, usize) {
    let mut by_process = BTreeMap::<usize, f64>::new();
    for (_, of) in uses(usage) {
        *by_process.entry(usage.threads[of.thread].process).or_default() += of.memory;
    }
    let most = by_process.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(process, memory)| (*process, *memory));
    let Some((first, most)) = most else { return (vec![false; usage.threads.len()], 0) };
    let life = |process: usize| {
        let of = usage.threads.iter().filter(|thread| thread.process == process);
        of.fold((f64::INFINITY, 0.0_f64), |life, thread| (life.0.min(thread.from_s), life.1.max(thread.to_s)))
    };
    let is_at_once = |process: usize| {
        let (a, b) = (life(first), life(process));
        let shared = a.1.min(b.1) - a.0.max(b.0);
        shared > AT_ONCE * (a.1 - a.0).min(b.1 - b.0)
    };
    let works = |(&process, &memory): (&usize, &f64)| {
        (process == first || (memory > WORKS * most && is_at_once(process))).then_some(process)
    };
    let processes: BTreeSet<usize> = by_process.iter().filter_map(works).collect();
    (usage.threads.iter().map(|thread| processes.contains(&thread.process)).collect(), processes.len())
}

/// Whether the recording can be computed with.
fn check(usage: &Usage) -> Result<(), AdviseError> {
    if usage.memory_source == MemorySource::Unknown {
        return Err(AdviseError::MemoryUnknown);
    }
    if usage.threads.is_empty() {
        return Err(AdviseError::Option(
            "the recording's threads are not known: its table of them cannot be read".into(),
        ));
    }
    if usage.page_bytes == 0 {
        return Err(AdviseError::Option("the recording does not tell the size of its pages".into()));
    }
    let mut memory = 0.0;
    for (_, of) in uses(usage) {
        if of.thread >= usage.threads.len() || of.phase >= usage.phases.len().max(1) {
            let (thread, phase) = (of.thread, of.phase);
            return Err(AdviseError::Option(format!("the recording has no thread {thread} or no phase {phase}")));
        }
        if !(of.memory.is_finite() && of.memory >= 0.0) {
            return Err(AdviseError::Option("the recording has a page with accesses that are no number".into()));
        }
        memory += of.memory;
    }
    if memory <= 0.0 { Err(AdviseError::NoSamples) } else { Ok(()) }
}
