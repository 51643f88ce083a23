//! One measurement from start to end.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use numamma_topology::{Machine, MachineModel, Node, list};

use crate::caches;
use crate::chase::{Chase, Cycle};
use crate::error::MeasureError;
use crate::estimate::{Estimate, repeat};
use crate::measurement::{CoreLatencies, Footprint, Loaded, Matrix, Measurement, date};
use crate::stream::{Kind, rate, under_load};
use crate::system::{Region, allowed_cpus, on_cpu};

/// How long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// About ten seconds.
    Quick,
    /// Minutes: from each core too.
    Full,
    /// A second: shows that it works, not how fast the machine is.
    Trial,
}

impl Effort {
    fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Trial => "trial",
        }
    }

    fn time(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(10),
            Self::Full => Duration::from_secs(120),
            Self::Trial => Duration::from_secs(1),
        }
    }
}

/// Shares of the time.
const CACHES: f64 = 0.2;
const LATENCIES: f64 = 0.3;
const BANDWIDTHS: f64 = 0.3;
const CURVES: f64 = 0.15;

const SMALLEST_FOOTPRINT: u64 = 64 << 20;
const LARGEST_FOOTPRINT: u64 = 1 << 30;
/// Of the largest cache that one CPU reaches.
const CACHE_MULTIPLE: u64 = 4;

/// Called with the share that is done and what comes next.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// A node, and what of it this process may use.
struct Place {
    id: u32,
    /// One of each core first.
    cpus: Vec<u32>,
    cores: usize,
    has_memory: bool,
    /// Bytes that may be taken of its memory.
    free: u64,
}

struct Run<'a> {
    machine: &'a Machine,
    effort: Effort,
    places: Vec<Place>,
    cycle: Cycle,
    /// Of the largest cache that one CPU reaches.
    cache_bytes: u64,
    /// Bytes of lines that there is time to set up.
    affordable: u64,
    huge_page: usize,
    notes: Vec<String>,
    progress: Progress<'a>,
    done: f64,
}

/// Measures the machine that this process runs on, of which `machine` is the description.
///
/// # Errors
/// If the process may use no CPU, or no memory can be placed.
pub fn measure(machine: &Machine, effort: Effort, progress: Progress) -> Result<Measurement, MeasureError> {
    let begin = Instant::now();
    let mut run = Run::new(machine, effort, progress)?;
    let (footprints, caches) = run.caches()?;
    let mut measurement = Measurement {
        effort: effort.name(),
        date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())),
        seconds: 0.0,
        nodes: run.places.iter().map(|place| place.id).collect(),
        cpus: run.places.iter().map(|place| sorted(&place.cpus)).collect(),
        footprint_bytes: (run.cycle.words() * size_of::<u64>()) as u64,
        latency_ns: run.matrix(),
        cores: run.cores(),
        read_gbs: run.matrix(),
        write_gbs: run.matrix(),
        copy_gbs: run.matrix(),
        node_gbs: vec![None; run.places.len()],
        loaded_node: None,
        on_one_node: Vec::new(),
        spread: Vec::new(),
        footprints,
        caches,
        notes: Vec::new(),
    };
    for to in 0..run.places.len() {
        run.node(to, &mut measurement)?;
    }
    run.curves(&mut measurement)?;
    (run.progress)(1.0, "done");
    measurement.notes = run.notes;
    measurement.seconds = begin.elapsed().as_secs_f64();
    Ok(measurement)
}

fn sorted(cpus: &[u32]) -> Vec<u32> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus
}

impl<'a> Run<'a> {
    fn new(machine: &'a Machine, effort: Effort, progress: Progress<'a>) -> Result<Self, MeasureError> {
        let allowed = allowed_cpus().map_err(MeasureError::Affinity)?;
        let memory = allowed_nodes();
        let place = |node: &Node| place(machine, node, &allowed, memory.as_deref());
        let places: Vec<Place> = machine.used_nodes().into_iter().map(place).collect();
        let mut notes = Vec::new();
        for (place, node) in places.iter().zip(machine.used_nodes()) {
            if place.cpus.len() < node.cpus.len() {
                let cpus = list::format(&sorted(&place.cpus));
                let usable = if cpus.is_empty() { "no CPU".to_owned() } else { format!("CPUs {cpus} only") };
                notes.push(format!("node {}: this process may use {usable}", node.id));
            }
            if !place.has_memory && node.memory_bytes != Some(0) {
                notes.push(format!("node {}: this process may not use its memory", node.id));
            }
        }
        let first = places.iter().find_map(|place| place.cpus.first().copied()).ok_or(MeasureError::NoCpu)?;
        let caches = || machine.cpus.iter().flat_map(|cpu| &cpu.caches);
        let line = caches().filter_map(|cache| cache.line_bytes).max().unwrap_or(64).clamp(16, 4096) as usize;
        let largest_cache = caches().filter_map(|cache| cache.bytes).max().unwrap_or(0);
        let wanted = (largest_cache * CACHE_MULTIPLE).clamp(SMALLEST_FOOTPRINT, LARGEST_FOOTPRINT);
        let free = places.iter().filter(|place| place.has_memory).map(|place| place.free).min().unwrap_or(wanted);
        // Where a CPU is slow, setting up is what takes time.
        let ns_per_line = on_cpu(first, setup_cost).unwrap_or(0.0).max(0.1);
        let setup = effort.time().as_secs_f64() * 0.1 * 1e9 / places.len() as f64;
        let affordable = (setup / ns_per_line) as u64 * line as u64;
        let bytes = wanted.min(free).min(affordable).max(64 << 10);
        if bytes < largest_cache * 2 {
            notes.push(format!(
                "footprint of {} MiB, less than twice the largest cache: caches may serve part of the loads",
                bytes >> 20
            ));
        }
        let huge_page = machine.huge_page_bytes.first().map_or(2 << 20, |&bytes| bytes.min(64 << 20)) as usize;
        let cycle = Cycle::new(bytes as usize, line);
        Ok(Self {
            machine,
            effort,
            places,
            cycle,
            cache_bytes: largest_cache,
            affordable,
            huge_page,
            notes,
            progress,
            done: 0.0,
        })
    }

    fn bytes(&self) -> usize {
        self.cycle.words() * size_of::<u64>()
    }

    fn matrix(&self) -> Matrix {
        let row = |place: &Place| vec![None; if place.cpus.is_empty() { 0 } else { self.places.len() }];
        self.places.iter().map(row).collect()
    }

    fn cores(&self) -> Vec<CoreLatencies> {
        if self.effort != Effort::Full {
            return Vec::new();
        }
        let of = |place: &Place| {
            let (node, count) = (place.id, self.places.len());
            let cpus: Vec<u32> = place.cpus[..place.cores].to_vec();
            cpus.into_iter().map(move |cpu| CoreLatencies { cpu, node, latency_ns: vec![None; count] })
        };
        self.places.iter().flat_map(of).collect()
    }

    fn advance(&mut self, share: f64, next: &str) {
        self.done += share;
        (self.progress)(self.done.min(1.0), next);
    }

    fn time(&self, share: f64) -> Duration {
        self.effort.time().mul_f64(share)
    }

    /// Memory of a node, made on one of its own CPUs if there is one.
    fn region(&self, bytes: usize, place: &Place) -> Result<Region, MeasureError> {
        let huge_page = self.huge_page;
        let make = || Region::on_node(bytes, place.id, huge_page);
        let made = match place.cpus.first() {
            Some(&cpu) => on_cpu(cpu, make).unwrap_or_else(make),
            None => make(),
        };
        made.map_err(|source| MeasureError::Memory { node: place.id, source })
    }

    /// Memory of a node with the cycle in it, and in no cache: what lies behind it was written later.
    fn linked(&self, bytes: usize, place: &Place) -> Result<Region, MeasureError> {
        let behind = (self.cache_bytes * 2).min(place.free).min(self.affordable) as usize;
        let mut region = self.region(bytes.max(self.bytes() + behind), place)?;
        let cycle = &self.cycle;
        let mut write = || {
            let (links, behind) = region.split_at_mut(cycle.words());
            cycle.write(links);
            behind.iter_mut().step_by(cycle.line_bytes() / size_of::<u64>()).for_each(|word| *word = 1);
        };
        let near = place.cpus.first().or_else(|| self.places.iter().find_map(|place| place.cpus.first()));
        near.and_then(|&cpu| on_cpu(cpu, &mut write));
        Ok(region)
    }

    /// Latency from a CPU, beginning at a line of its own: no shared cache has the lines that others have just loaded.
    fn latency(&self, cpu: u32, links: &[u64], time: Duration) -> Option<Estimate> {
        let lines = self.cycle.words() * size_of::<u64>() / self.cycle.line_bytes();
        let start = (cpu as usize * 7919) % lines * (self.cycle.line_bytes() / size_of::<u64>());
        on_cpu(cpu, || {
            let mut chase = Chase::new(links, start, sample_time(time));
            repeat(time, || chase.sample())
        })
    }

    fn caches(&mut self) -> Result<(Vec<Footprint>, Vec<crate::CacheStep>), MeasureError> {
        let with_both = self.places.iter().find(|place| !place.cpus.is_empty() && place.has_memory);
        let place = with_both.or_else(|| self.places.iter().find(|place| place.has_memory));
        let cpu = self.places.iter().find_map(|place| place.cpus.first().copied());
        let (Some(place), Some(cpu)) = (place, cpu) else { return Ok((Vec::new(), Vec::new())) };
        let cpu = place.cpus.first().copied().unwrap_or(cpu);
        let line = self.cycle.line_bytes();
        let mut region = self.region(self.bytes(), place)?;
        let sizes = caches::footprints(self.bytes());
        let (each, end) = (CACHES / sizes.len().max(1) as f64, Instant::now() + self.time(CACHES * 1.5));
        let time = self.time(each);
        let mut points = Vec::new();
        for bytes in sizes {
            if Instant::now() > end {
                self.notes.push(format!(
                    "footprints up to {} KiB only: time was up",
                    points.last().map_or(0, |point: &Footprint| point.bytes >> 10)
                ));
                break;
            }
            let region = &mut region;
            let estimate = on_cpu(cpu, move || {
                let cycle = Cycle::new(bytes, line);
                cycle.write(region);
                let mut chase = Chase::new(&region[..cycle.words()], 0, sample_time(time));
                repeat(time, || chase.sample())
            });
            points.extend(estimate.map(|latency_ns| Footprint { bytes: bytes as u64, latency_ns }));
            self.advance(each, "caches");
        }
        let steps = caches::steps(&points, self.machine.cpus.iter().find(|other| other.id == cpu));
        Ok((points, steps))
    }

    /// All that is about memory of one node.
    fn node(&mut self, to: usize, measurement: &mut Measurement) -> Result<(), MeasureError> {
        let sources: Vec<usize> = (0..self.places.len()).filter(|&from| !self.places[from].cpus.is_empty()).collect();
        let shares = (self.places.len() * sources.len()) as f64;
        let (latency, bandwidth) = (LATENCIES / shares, BANDWIDTHS / (shares * 3.0 + self.places.len() as f64));
        if !self.places[to].has_memory {
            return Ok(());
        }
        let node = self.places[to].id;
        let mut region = self.linked(self.stream_bytes(to), &self.places[to])?;
        let links = self.cycle.words();
        let cores = measurement.cores.len().max(sources.len()) as f64 / sources.len() as f64;
        for &from in &sources {
            self.advance(latency, &format!("latency from node {} to node {node}", self.places[from].id));
            let time = self.time(latency / cores);
            let cpu = self.places[from].cpus[0];
            measurement.latency_ns[from][to] = self.latency(cpu, &region[..links], time);
            for core in measurement.cores.iter_mut().filter(|core| core.node == self.places[from].id) {
                core.latency_ns[to] = match core.cpu == cpu {
                    true => measurement.latency_ns[from][to],
                    false => self.latency(core.cpu, &region[..links], time),
                };
            }
        }
        let time = self.time(bandwidth);
        for &from in &sources {
            let cpus = self.places[from].cpus.clone();
            let matrices = [&mut measurement.read_gbs, &mut measurement.write_gbs, &mut measurement.copy_gbs];
            for (matrix, kind) in matrices.into_iter().zip([Kind::Read, Kind::Write, Kind::Copy]) {
                let what = format!("{kind:?} bandwidth from node {} to node {node}", self.places[from].id);
                self.advance(bandwidth, &what.to_lowercase());
                matrix[from][to] = Some(repeat(time, || rate(kind, &cpus, &mut region, window(time))));
            }
        }
        let cpus: Vec<u32> = self.places.iter().flat_map(|place| place.cpus.iter().copied()).collect();
        self.advance(bandwidth, &format!("read bandwidth of node {node}"));
        measurement.node_gbs[to] = Some(repeat(time, || rate(Kind::Read, &cpus, &mut region, window(time))));
        Ok(())
    }

    /// Twice the caches of all CPUs that stream, as far as there is memory and time for it.
    fn stream_bytes(&self, to: usize) -> usize {
        let caches = MachineModel::without_latencies(self.machine).cache_bytes.unwrap_or(0);
        let all = caches * self.places.len() as u64 * 2;
        let most = LARGEST_FOOTPRINT.min(self.places[to].free).min(self.affordable);
        all.min(most) as usize
    }

    fn curves(&mut self, measurement: &mut Measurement) -> Result<(), MeasureError> {
        let Some(at) = self.places.iter().position(|place| !place.cpus.is_empty() && place.has_memory) else {
            return Ok(());
        };
        measurement.loaded_node = Some(self.places[at].id);
        let order = self.load_order(at);
        let counts: Vec<usize> = doubling(order.len());
        let each = CURVES / (counts.len() * 2) as f64;
        let links = self.linked(0, &self.places[at])?;
        let load = self.region(self.stream_bytes(at).max(self.bytes()), &self.places[at])?;
        let part = (load.len() / order.len()).max(512);
        for &count in &counts {
            self.advance(each, &format!("latency of node {} under load", self.places[at].id));
            let others: Vec<(u32, &[u64])> =
                order[1..count].iter().zip(load.chunks(part)).map(|(&(cpu, _), part)| (cpu, part)).collect();
            let latency = self.loaded_latency(order[0].0, &links, &others, each);
            measurement.on_one_node.extend(latency.map(|latency_ns| Loaded { cpus: count as u32, latency_ns }));
        }
        drop(load);
        let mut regions = Vec::new();
        for place in &self.places {
            let needed = order[1..].iter().any(|&(_, node)| node == place.id) && place.has_memory;
            regions.push(if needed { Some(self.region(self.bytes(), place)?) } else { None });
        }
        for &count in &counts {
            self.advance(each, "latency under load that is spread");
            let others = order[1..count].iter().filter_map(|&(cpu, node)| {
                let index = self.places.iter().position(|place| place.id == node)?;
                let region: &[u64] = regions[index].as_ref()?;
                let place = self.places[index].cpus.iter().position(|&other| other == cpu)?;
                let part = (region.len() / self.places[index].cpus.len()).max(512);
                Some((cpu, region.chunks(part).nth(place)?))
            });
            let others: Vec<(u32, &[u64])> = others.collect();
            let latency = self.loaded_latency(order[0].0, &links, &others, each);
            measurement.spread.extend(latency.map(|latency_ns| Loaded { cpus: count as u32, latency_ns }));
        }
        Ok(())
    }

    fn loaded_latency(&self, cpu: u32, links: &[u64], load: &[(u32, &[u64])], share: f64) -> Option<Estimate> {
        under_load(load, || self.latency(cpu, &links[..self.cycle.words()], self.time(share)))
    }

    /// CPUs with their nodes in the order in which they load: cores of the node, cores of the others, then further threads of cores.
    fn load_order(&self, at: usize) -> Vec<(u32, u32)> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.swap(0, at);
        let cores = places.iter().flat_map(|place| place.cpus[..place.cores].iter().map(|&cpu| (cpu, place.id)));
        let threads = places.iter().flat_map(|place| place.cpus[place.cores..].iter().map(|&cpu| (cpu, place.id)));
        cores.chain(threads).collect()
    }
}

/// Of a chase: short, so that most samples are of moments when nothing else ran here.
fn sample_time(time: Duration) -> Duration {
    (time / 32).clamp(Duration::from_micros(200), Duration::from_millis(2))
}

/// Of threads that stream: they must all be under way for most of it.
fn window(time: Duration) -> Duration {
    (time / 12).clamp(Duration::from_millis(2), Duration::from_millis(20))
}

/// 1, 2, 4, .. and the last.
fn doubling(last: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|&count| count < last);
    powers.chain([last]).collect()
}

fn place(machine: &Machine, node: &Node, allowed: &[u32], memory: Option<&[u32]>) -> Place {
    let usable = |cpu: &&u32| allowed.binary_search(cpu).is_ok();
    let usable: Vec<u32> = node.cpus.iter().filter(usable).copied().collect();
    let siblings = |id: u32| machine.cpus.iter().find(|cpu| cpu.id == id).map_or(&[][..], |cpu| &cpu.siblings[..]);
    let is_first = |cpu: &u32| !usable.iter().any(|other| other < cpu && siblings(*cpu).contains(other));
    let (mut cpus, threads): (Vec<u32>, Vec<u32>) = usable.iter().partition(|cpu| is_first(cpu));
    let cores = cpus.len();
    cpus.extend(threads);
    let has_memory = node.memory_bytes != Some(0) && memory.is_none_or(|nodes| nodes.binary_search(&node.id).is_ok());
    Place { id: node.id, cpus, cores, has_memory, free: free_bytes(node) / 4 }
}

/// The kernel's count of free memory; a part of all where there is none.
fn free_bytes(node: &Node) -> u64 {
    let of_node = fs::read_to_string(format!("/sys/devices/system/node/node{}/meminfo", node.id));
    let of_all = || fs::read_to_string("/proc/meminfo");
    let text = of_node.or_else(|_| of_all()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.split_once("MemFree:").map(|(_, rest)| rest));
    let free = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map(|kib| kib << 10);
    free.unwrap_or_else(|| node.memory_bytes.unwrap_or(256 << 20) / 2)
}

/// The nodes that the process's cpuset lets it take memory from; `None` if the kernel does not say.
fn allowed_nodes() -> Option<Vec<u32>> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
    list::parse(text)
}

/// Nanoseconds that a line of a cycle costs before the first load: made, written, and the memory faulted in.
fn setup_cost() -> f64 {
    const LINES: usize = 1 << 13;
    let begin = Instant::now();
    let cycle = Cycle::new(LINES * 64, 64);
    let mut memory = vec![0; cycle.words()];
    cycle.write(&mut memory);
    std::hint::black_box(&memory);
    begin.elapsed().as_secs_f64() * 1e9 / LINES as f64
}
