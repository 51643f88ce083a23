//! One pass over the samples: everything that is counted per object, page, thread and line.

use std::collections::hash_map::Entry;

use numamma_attribute::Cursor;
use numamma_trace::{Access, BasisRow, Dataset, ObjectKind, Rule, SampleRow, TraceError};
use rustc_hash::FxHashMap;

use crate::accuracy::Accuracy;
use crate::cache_lines::{self, CacheLine, LineAddress, line_of};
use crate::first_touch::{Touch, Touches};
use crate::groups::{GroupId, Groups};
use crate::pages::{PageAddress, PageKey, PageNodes, page_address, page_key};
use crate::shared_memory::place;
use crate::summary::Tables;

/// Cost and accesses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Samples that carry cost; of counts, the accesses.
    pub samples: u64,
    /// Nanoseconds.
    pub cost: i64,
    pub reads: f64,
    pub writes: f64,
    /// Those of them that reach memory, where that is known.
    pub memory_reads: f64,
    pub memory_writes: f64,
    /// Rows that stand for accesses.
    pub rows: u64,
    /// Accesses whose number stands on no basis.
    pub without_basis: f64,
    /// Nanoseconds of them.
    pub without_basis_cost: i64,
    /// Accesses that trace windows count, where nothing is drawn from an instruction's samples.
    pub followed: f64,
}

impl Count {
    /// Adds a row. `trace_windows`: the first basis that is a trace window.
    pub fn add(&mut self, row: &SampleRow, trace_windows: i32) {
        self.samples += samples(row);
        self.cost += row.cost;
        let accesses = f64::from(row.accesses);
        if accesses > 0.0 {
            let followed = row.basis >= trace_windows;
            self.rows += u64::from(!followed);
            self.followed += if followed { accesses * ways(row) } else { 0.0 };
            if row.basis < 0 {
                self.without_basis += accesses * ways(row);
                self.without_basis_cost += row.cost;
            }
        }
        let memory = f64::from(row.memory.max(0.0));
        if row.access & Access::Read as i32 != 0 {
            self.reads += accesses;
            self.memory_reads += memory;
        }
        if row.access & Access::Write as i32 != 0 {
            self.writes += accesses;
            self.memory_writes += memory;
        }
    }

    /// Reads and writes that reach memory.
    pub fn memory(&self) -> f64 {
        self.memory_reads + self.memory_writes
    }

    /// Reads and writes.
    pub fn accesses(&self) -> f64 {
        self.reads + self.writes
    }
}

/// A row that reads and writes is two accesses.
fn ways(row: &SampleRow) -> f64 {
    f64::from((row.access & Access::ReadWrite as i32).count_ones())
}

/// Counts of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupCount {
    pub all: Count,
    pub remote_reads: f64,
    pub remote_writes: f64,
    /// Accesses whose page's node and whose CPU's node are known.
    pub located: f64,
    /// Samples that those were seen in: several rows of one sample do not tell more than one.
    pub located_samples: u64,
    last_located: (i32, i64),
    /// Interrupts with an access to it, each once however many instances and pages it shows; of counts, the accesses.
    pub interrupts: u64,
    /// The last of them, by thread.
    last_interrupts: FxHashMap<i32, i64>,
    pub threads: FxHashMap<i32, Count>,
    /// Accesses by the basis that their number stands on.
    pub bases: FxHashMap<i32, f64>,
    pub pages: FxHashMap<PageKey, PageCount>,
    /// By number of the instance.
    pub instances: FxHashMap<u32, Users>,
    /// Cache lines of small objects that the program places.
    pub lines: FxHashMap<LineAddress, CacheLine>,
}

/// Accesses of a thread to a page or an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadUse {
    pub thread: i32,
    /// Accesses, see [`weight`].
    pub accesses: f64,
    /// Interrupts with an access there, each once whatever its number of accesses; of counts, the accesses.
    pub samples: u64,
    /// Nanoseconds.
    pub cost: i64,
    /// The last of these interrupts.
    interrupt: i64,
}

/// The threads that used a page or an instance.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// In order of the threads: a map would take more memory, and few threads use a page.
    pub threads: Vec<ThreadUse>,
}

impl Users {
    fn add(&mut self, row: &SampleRow, interrupt: i64) {
        let at = match self.threads.binary_search_by_key(&row.thread, |of| of.thread) {
            Ok(at) => at,
            Err(at) => {
                let (thread, interrupt) = (row.thread, i64::MIN);
                self.threads.insert(at, ThreadUse { thread, accesses: 0.0, samples: 0, cost: 0, interrupt });
                at
            }
        };
        let of = &mut self.threads[at];
        of.accesses += weight(row);
        of.cost += row.cost;
        of.samples += evidence(row, interrupt, &mut of.interrupt);
    }

    /// Interrupts of all threads.
    pub fn samples(&self) -> u64 {
        self.threads.iter().map(|of| of.samples).sum()
    }

    /// The thread with most accesses; the first of several with as many.
    pub fn owner(&self) -> Option<i32> {
        let most = |a: &&ThreadUse, b: &&ThreadUse| a.accesses.total_cmp(&b.accesses).then(b.thread.cmp(&a.thread));
        self.threads.iter().max_by(most).map(|of| of.thread)
    }
}

/// The interrupt that a row is of, by thread. Clocks that go off one right after the other find a thread in the same access, so they are one.
#[derive(Debug, Default)]
struct Interrupts {
    last: FxHashMap<i32, i64>,
}

impl Interrupts {
    /// Nanoseconds. Threads that were preempted are interrupted by both clocks as soon as they run again. In a hash table of 2 million nodes,
    /// read at random on a loaded machine, two samples in one node were 3 to 16 microseconds apart.
    const NEAR: i64 = 50_000;

    /// The time of the first sample of those that count as one.
    fn of(&mut self, row: &SampleRow) -> i64 {
        let last = self.last.entry(row.thread).or_insert(row.time);
        if row.time - *last >= Self::NEAR {
            *last = row.time;
        }
        *last
    }
}

/// How much evidence a row adds to what has seen the interrupt `last`: rows of one interrupt are one piece.
fn evidence(row: &SampleRow, interrupt: i64, last: &mut i64) -> u64 {
    match row.rule == Rule::Exact as i32 {
        true => row.accesses as u64,
        false => u64::from(std::mem::replace(last, interrupt) != interrupt),
    }
}

/// Counts of a page of a group.
#[derive(Clone, Debug)]
pub struct PageCount {
    /// Where it was when it was first sampled.
    pub address: PageAddress,
    /// Samples that carry cost.
    pub samples: u64,
    pub users: Users,
    /// Accesses that reach memory, where that is known.
    pub memory: f64,
    /// Accesses by node of the CPU, in order of the nodes; empty on a machine with one node.
    pub by_node: Vec<(i32, f64)>,
    /// The thread that touched it first, if it was before the object's time; else see [`Touches::in_life`].
    pub touched_before: Option<Touch>,
}

/// All that is counted.
#[derive(Debug, Default)]
pub struct Counters {
    pub groups: Vec<GroupCount>,
    /// Data accesses of the run, attributed or not.
    pub data: Count,
    /// All accesses were counted: nothing is estimated, and nothing is known of their cost.
    pub exact: bool,
    /// It is known which accesses reach memory.
    pub memory_known: bool,
    pub recorded: u64,
    pub attributed: u64,
    pub unattributed: FxHashMap<&'static str, u64>,
    /// Attributed cost and accesses per thread.
    pub threads: FxHashMap<i32, Count>,
    /// Samples of each thread on each CPU.
    pub cpus: FxHashMap<(i32, i32), u64>,
    /// How far shares of accesses may be off, if their numbers were estimated.
    pub accuracy: Option<Accuracy>,
    /// Nanoseconds of each thread.
    pub time: FxHashMap<i32, i64>,
    /// Nanoseconds of each thread in spin loops, by process and instruction.
    pub waiting: FxHashMap<(i32, i32, i64), i64>,
    /// Counts per code address and group.
    pub code: FxHashMap<(i32, i64), FxHashMap<Option<GroupId>, Count>>,
}

/// Reasons why a sample belongs to no object: their names in reports.
pub mod reason {
    /// No instruction near the sample accesses memory.
    pub const NO_ACCESS: &str = "no_memory_access";
    /// The thread was waiting in a spin loop for another one.
    pub const SPIN_WAIT: &str = "spin_wait";
    /// The address depends on a register whose value is not known.
    pub const ADDRESS: &str = "address_unknown";
    /// The code could not be read.
    pub const CODE: &str = "code_unreadable";
    /// Memory of the allocator or of the C library that is no live object.
    pub const ALLOCATOR: &str = "allocator";
    /// Memory of the kernel's in the program: vdso, vvar.
    pub const KERNEL: &str = "kernel_mapping";
    /// NumaMMA's own library and rings in the program.
    pub const RECORDER: &str = "recorder";
    /// No mapping is known there.
    pub const UNMAPPED: &str = "unmapped";
}

/// Counts the samples of a recording.
pub fn count(
    dataset: &Dataset,
    tables: &Tables,
    groups: &Groups,
    nodes: &PageNodes,
    touches: &Touches,
) -> Result<Counters, TraceError> {
    let mut counters = Counters {
        groups: vec![GroupCount::default(); groups.groups.len()],
        exact: dataset.meta().sampler.kind == "exact",
        memory_known: dataset.meta().sampler.caches.is_some(),
        ..Counters::default()
    };
    let mut cursors: Vec<Cursor> = vec![Cursor::default(); tables.threads.len()];
    let mut interrupts = Interrupts::default();
    let cpu_nodes = &dataset.meta().cpu_nodes;
    let several_nodes = dataset.meta().nodes > 1;
    let counted = dataset.meta().sampler.counted.is_some();
    let bases = dataset.read::<BasisRow>()?;
    let trace_windows = bases.iter().filter(|of| of.ip < 0).map(|of| of.basis).min().unwrap_or(i32::MAX);
    dataset.visit(|rows: &mut Vec<SampleRow>| {
        for row in rows.iter() {
            let process = tables.process_of(row.thread);
            let samples = samples(row);
            let interrupt = interrupts.of(row);
            counters.recorded += samples;
            if row.cost > 0 {
                *counters.cpus.entry((row.thread, row.cpu)).or_default() += 1;
                *counters.time.entry(row.thread).or_default() += row.cost;
            }
            // Of a recording that was not finished: nobody knows what they stand for.
            if row.rule == Rule::TraceWindow as i32 && !counted {
                continue;
            }
            let without = |reason, counters: &mut Counters| *counters.unattributed.entry(reason).or_default() += 1;
            let rule = |rule: Rule| row.rule == rule as i32;
            if rule(Rule::None) || rule(Rule::SpinWait) || rule(Rule::Recorder) {
                if rule(Rule::SpinWait) {
                    *counters.waiting.entry((row.thread, process, row.ip)).or_default() += row.cost;
                }
                let reason = match () {
                    () if rule(Rule::None) => reason::NO_ACCESS,
                    () if rule(Rule::SpinWait) => reason::SPIN_WAIT,
                    () => reason::RECORDER,
                };
                without(reason, &mut counters);
                continue;
            }
            if rule(Rule::Unreadable) || rule(Rule::AddressUnknown) {
                counters.data.add(row, trace_windows);
                without(if rule(Rule::Unreadable) { reason::CODE } else { reason::ADDRESS }, &mut counters);
                continue;
            }
            let addr = row.addr as u64;
            let mut spare = Cursor::default();
            let cursor = cursors.get_mut(row.thread as usize).unwrap_or(&mut spare);
            let object = groups.index.find(process, addr, row.time, cursor);
            let group = object.and_then(|object| groups.of_object[object]);
            if group.is_none() && region_reason(tables, object) == reason::RECORDER {
                if samples > 0 {
                    *counters.unattributed.entry(reason::RECORDER).or_default() += samples;
                }
                continue;
            }
            counters.data.add(row, trace_windows);
            // Counts are of many instructions.
            if row.rule != Rule::Exact as i32 {
                let code = counters.code.entry((process, row.ip)).or_default();
                code.entry(group).or_default().add(row, trace_windows);
            }
            let (Some(object), Some(group)) = (object, group) else {
                if samples > 0 {
                    *counters.unattributed.entry(region_reason(tables, object)).or_default() += samples;
                }
                continue;
            };
            counters.attributed += samples;
            counters.threads.entry(row.thread).or_default().add(row, trace_windows);
            let count = &mut counters.groups[group as usize];
            count.all.add(row, trace_windows);
            count.threads.entry(row.thread).or_default().add(row, trace_windows);
            if row.basis >= 0 {
                *count.bases.entry(row.basis).or_default() += f64::from(row.accesses) * ways(row);
            }

            let last = count.last_interrupts.entry(row.thread).or_insert(i64::MIN);
            count.interrupts += evidence(row, interrupt, last);
            count.instances.entry(groups.instance[object]).or_default().add(row, interrupt);
            let key = page_key(groups, tables, object, addr);
            let address = page_address(tables, object, addr);
            let page = match count.pages.entry(key) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(page) => page.insert(PageCount {
                    address,
                    samples: 0,
                    users: Users::default(),
                    memory: 0.0,
                    by_node: Vec::new(),
                    touched_before: match touches.in_life.contains_key(&(group, key)) {
                        true => None,
                        false => touches.before(tables, object, address, row.time),
                    },
                }),
            };
            page.samples += samples;
            page.users.add(row, interrupt);
            if has_lines(tables, object) && !rule(Rule::Exact) && !rule(Rule::TraceWindow) {
                let (space, at) = place(&tables.objects[object], addr);
                count.lines.entry(line_of(space, at)).or_default().add(tables.worker(row.thread), row);
            }
            page.memory += f64::from(row.memory.max(0.0));
            if !several_nodes {
                continue;
            }
            let Some(&node) = cpu_nodes.get(row.cpu as usize).filter(|&&node| node >= 0) else { continue };
            add(&mut page.by_node, node, weight(row));
            if let Some(home) = nodes.node(address) {
                if std::mem::replace(&mut count.last_located, (row.thread, row.time)) != (row.thread, row.time) {
                    count.located_samples += 1;
                }
                let mut located = Count::default();
                located.add(row, trace_windows);
                count.located += located.accesses();
                if home != node {
                    count.remote_reads += located.reads;
                    count.remote_writes += located.writes;
                }
            }
        }
    })?;
    counters.accuracy = Accuracy::of(dataset, &counters, &bases);
    Ok(counters)
}

/// True if the cache lines of an object are looked at.
fn has_lines(tables: &Tables, object: usize) -> bool {
    let row = &tables.objects[object];
    row.bytes <= cache_lines::MOST_BYTES && row.kind != ObjectKind::Stack.name() && row.kind != ObjectKind::Tls.name()
}

/// Adds to the accesses of a node.
fn add(to: &mut Vec<(i32, f64)>, whose: i32, accesses: f64) {
    match to.binary_search_by_key(&whose, |(of, _)| *of) {
        Ok(at) => to[at].1 += accesses,
        Err(at) => to.insert(at, (whose, accesses)),
    }
}

/// Whose accesses are most; the first of several with as many.
pub fn most(of: &[(i32, f64)]) -> Option<i32> {
    of.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(whose, _)| *whose)
}

/// How many samples a row is: one if it carries cost, none if it only spreads it; each access that was counted is one.
fn samples(row: &SampleRow) -> u64 {
    match row.rule == Rule::Exact as i32 {
        true => row.accesses as u64,
        false => u64::from(row.cost > 0),
    }
}

/// Weight of a row in a page's ownership: its accesses, or a trace of one for a row that carries cost alone.
pub fn weight(row: &SampleRow) -> f64 {
    f64::from(row.accesses).max(if row.cost > 0 { 0.01 } else { 0.0 })
}

fn region_reason(tables: &Tables, object: Option<usize>) -> &'static str {
    match object.map(|object| &tables.objects[object]) {
        Some(row) if row.kind == ObjectKind::Region.name() && row.name == "allocator" => reason::ALLOCATOR,
        Some(row) if row.kind == ObjectKind::Region.name() && row.name == "recorder" => reason::RECORDER,
        Some(_) => reason::KERNEL,
        None => reason::UNMAPPED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(thread: i32, time: i64, cost: i64) -> SampleRow {
        SampleRow {
            time,
            thread,
            cpu: 0,
            ip: 0,
            addr: 0x1000,
            bytes: 8,
            access: Access::Read as i32,
            rule: Rule::Before as i32,
            cost,
            accesses: 1.0,
            basis: -1,
            memory: -1.0,
        }
    }

    /// Two rows of one interrupt, one of another thread in between, the second clock, and one later.
    #[test]
    fn rows_of_one_interrupt_and_clocks_that_go_off_together_count_once() {
        let us = 1000;
        let rows = [row(1, 500 * us, 10), row(2, 503 * us, 10), row(1, 500 * us, 0), row(1, 507 * us, 10)];
        let (mut interrupts, mut users) = (Interrupts::default(), Users::default());
        for row in rows.iter().chain(&[row(1, 900 * us, 10)]) {
            let interrupt = interrupts.of(row);
            users.add(row, interrupt);
        }
        let samples: Vec<(i32, u64)> = users.threads.iter().map(|of| (of.thread, of.samples)).collect();
        assert_eq!(samples, [(1, 2), (2, 1)]);
    }
}
