//! Which threads use which pages, when, and how long their loads waited there or how many reached memory: what advice and predictions
//! are made of.
//!
//! ```text
//!   pass 1:  time by instruction  ->  part of each that is waiting for memory
//!            time by moment and thread  ->  phases
//!   pass 2:  waiting by page, thread and phase
//! ```
//!
//! A sample whose instruction stalled (rule `before`) stands for the time that this instruction took. What it would have taken with its
//! line in the nearest cache is about what the instructions around it take that access nothing: the mean of those that were sampled in
//! the same function. The rest is waiting. How far that may be off is said: between nothing and three times as much for a hit.
//!
//! An emulated processor is interrupted between blocks of code, so that no sample shows a stall. Then half of the time at the next
//! access (rule `forward`) is taken for waiting, give or take all of it: who uses what is known, how long that takes is not.

use numamma_attribute::Cursor;
use numamma_findings::{InstanceUse, MemorySource, ObjectUse, PageThreadUse, PageUse, ThreadUse, Usage};
use numamma_trace::{Access, MarkerRow, ObjectKind, Rule, SampleRow, ThreadRow, TraceError};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Analysis;
use crate::detail::pages_by_group;
use crate::groups::GroupId;
use crate::pages::{PageKey, PageNodes, SMALL, page_key};
use crate::phases::Phases;
use crate::shared_memory::Extent;
use crate::summary::{Tables, order};

/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;
/// Objects that have touched no more than this are in a cache of the core: the second level of every server since 2008 has it.
const CACHED: u64 = 128 << 10;
/// A hit may take so many times as long as instructions that access nothing.
const SLOW_HIT: f64 = 3.0;

/// Stalls with less than this part of the time are chance: 0.02 % were seen in an emulated guest, 68 to 98 % elsewhere.
const NO_STALLS: f64 = 0.01;

/// Makes it, with the ids that the findings have.
pub fn usage(analysis: &Analysis<'_>) -> Result<Usage, TraceError> {
    let Analysis { dataset, tables, groups, counters, touches, findings } = analysis;
    let nodes = PageNodes::read(dataset, tables, groups)?;
    let pages = pages_by_group(tables, groups, counters, touches, &nodes);
    let order = order(groups, counters, &pages);
    let markers = dataset.read::<MarkerRow>()?;
    let workers = Workers::new(tables);
    let mut phases = Phases::new(dataset.meta(), &markers, workers.count);
    let mut costs = Costs::default();
    dataset.visit(|rows: &mut Vec<SampleRow>| {
        for row in rows.iter().filter(|row| row.cost > 0) {
            if row.rule != Rule::SpinWait as i32 && row.rule != Rule::Recorder as i32 {
                phases.add(row.time, workers.of(row.thread) as i32, row.cost);
            }
            costs.add(tables.process_of(row.thread), row);
        }
    })?;
    phases.finish();
    let shows = if costs.shows_stalls() { Rule::Before } else { Rule::Forward };
    let function = |process, ip| tables.code(process, ip).map_or("", |code| code.function.as_str());
    let hits = costs.hits(function);
    // A model of caches knows what they hold.
    let cached = if counters.memory_known { FxHashSet::default() } else { cached(analysis, &pages) };

    let mut uses: FxHashMap<(GroupId, PageKey), Vec<PageThreadUse>> = FxHashMap::default();
    let mut stalls: FxHashMap<usize, Stall> = FxHashMap::default();
    let mut cursors: Vec<Cursor> = vec![Cursor::default(); tables.threads.len()];
    dataset.visit(|rows: &mut Vec<SampleRow>| {
        for row in rows.iter() {
            let is_stall = row.rule == shows as i32 && row.cost > 0;
            if !is_stall && row.memory <= 0.0 {
                continue;
            }
            let process = tables.process_of(row.thread);
            let mut spare = Cursor::default();
            let cursor = cursors.get_mut(row.thread as usize).unwrap_or(&mut spare);
            let object = groups.index.find(process, row.addr as u64, row.time, cursor);
            let Some(object) = object else { continue };
            let Some(group) = groups.of_object[object].filter(|group| !cached.contains(group)) else { continue };
            // Counts are of accesses that reach memory, else it is time that they waited.
            let memory = match is_stall {
                true => {
                    let (part, seconds) = (hits.waiting(process, row.ip), row.cost as f64 / 1e9);
                    stalls.entry(workers.of(row.thread)).or_default().add(seconds, part);
                    seconds * part.best
                }
                false => f64::from(row.memory),
            };
            let key = page_key(groups, tables, object, row.addr as u64);
            let (thread, phase) = (workers.of(row.thread), phases.of(row.time));
            let users = uses.entry((group, key)).or_default();
            let at = users.iter().position(|of| (of.thread, of.phase) == (thread, phase)).unwrap_or_else(|| {
                users.push(PageThreadUse { thread, phase, ..PageThreadUse::default() });
                users.len() - 1
            });
            let of = &mut users[at];
            let writes = f64::from(u8::from(row.access & Access::Write as i32 != 0));
            of.writes = match of.memory + memory > 0.0 {
                true => (of.writes * of.memory + writes * memory) / (of.memory + memory),
                false => writes,
            };
            of.memory += memory;
            of.samples += 1;
        }
    })?;

    let mut objects = Vec::new();
    for (id, &group) in order.iter().enumerate() {
        let instances = instances(analysis, &workers, group, &pages[group as usize], &mut uses);
        let Some(found) = findings.objects.get(id).filter(|_| !instances.is_empty()) else { continue };
        objects.push(ObjectUse {
            id,
            name: found.name.clone(),
            kind: found.kind.clone(),
            module: found.module.clone(),
            site: found.site.clone(),
            first_touch: found.first_touch.clone(),
            instances,
        });
    }
    let memory = |object: &ObjectUse| -> f64 {
        let pages = object.instances.iter().flat_map(|of| &of.pages);
        pages.flat_map(|page| &page.by_thread).map(|of| of.memory).sum()
    };
    objects.sort_by(|a, b| memory(b).total_cmp(&memory(a)).then(a.id.cmp(&b.id)));
    let source = match () {
        () if counters.memory_known => MemorySource::CacheModel,
        () if counters.exact => MemorySource::Unknown,
        () => MemorySource::Time,
    };
    Ok(Usage {
        wall_s: findings.run.wall_s,
        page_bytes: tables.page_bytes,
        nodes: findings.run.nodes.max(1),
        cpus: counters.cpus.keys().map(|&(_, cpu)| cpu).collect::<FxHashSet<_>>().len().max(1),
        memory_source: source,
        threads: threads(analysis, &workers, &stalls, &phases),
        objects,
        phases: phases.uses(),
    })
}

/// Time that a thread waited for memory.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    seconds: f64,
    least: f64,
    most: f64,
    squares: f64,
}

impl Stall {
    fn add(&mut self, seconds: f64, part: Waiting) {
        self.seconds += seconds * part.best;
        self.least += seconds * part.least;
        self.most += seconds;
        self.squares += (seconds * part.best).powi(2);
    }

    /// Half-width of the 95 % interval: what hits may take, and that samples are few.
    fn error(&self) -> f64 {
        let hits = (self.most - self.seconds).max(self.seconds - self.least);
        hits.hypot(1.96 * self.squares.sqrt())
    }
}

/// Threads that come one after the other are one worker, and one thread of [`Usage::threads`].
#[derive(Debug)]
struct Workers {
    /// By thread.
    of_thread: Vec<usize>,
    /// By worker.
    process: Vec<usize>,
    count: usize,
}

impl Workers {
    fn new(tables: &Tables) -> Self {
        let mut numbers: FxHashMap<i32, usize> = FxHashMap::default();
        let mut process = Vec::new();
        let number = |row: &ThreadRow| {
            *numbers.entry(tables.worker(row.thread)).or_insert_with(|| {
                process.push(row.process.max(0) as usize);
                process.len() - 1
            })
        };
        let of_thread: Vec<usize> = tables.threads.iter().map(number).collect();
        Self { of_thread, count: process.len(), process }
    }

    fn of(&self, thread: i32) -> usize {
        self.of_thread.get(thread.max(0) as usize).copied().unwrap_or(0)
    }
}

fn threads(
    analysis: &Analysis<'_>,
    workers: &Workers,
    stalls: &FxHashMap<usize, Stall>,
    phases: &Phases,
) -> Vec<ThreadUse> {
    let Analysis { dataset, counters, .. } = analysis;
    let cpu_nodes = &dataset.meta().cpu_nodes;
    let mut ran_on = vec![FxHashSet::default(); workers.count];
    // The table of threads may be missing.
    for &(thread, cpu) in counters.cpus.keys() {
        if let Some(nodes) = ran_on.get_mut(workers.of(thread)) {
            nodes.insert(cpu_nodes.get(cpu.max(0) as usize).copied().unwrap_or(-1));
        }
    }
    let mut waiting = vec![0_i64; workers.count];
    for (&(thread, ..), &time) in &counters.waiting {
        waiting.get_mut(workers.of(thread)).into_iter().for_each(|sum| *sum += time);
    }
    let meta = dataset.meta();
    let mut lives = vec![(meta.end, meta.start); workers.count];
    for row in &analysis.tables.threads {
        let life = &mut lives[workers.of(row.thread)];
        *life = (life.0.min(row.start_time.max(meta.start)), life.1.max(row.end_time.min(meta.end)));
    }
    let second = |time: i64| (time - meta.start) as f64 / 1e9;
    let one = |worker: usize| {
        let stall = stalls.get(&worker).copied().unwrap_or_default();
        let timed = !counters.exact;
        ThreadUse {
            thread: worker,
            process: workers.process[worker],
            from_s: second(lives[worker].0),
            to_s: second(lives[worker].1),
            busy_s: timed.then(|| phases.busy_s(worker as i32)),
            waiting_s: waiting[worker] as f64 / 1e9,
            stall_s: timed.then_some(stall.seconds),
            stall_error_s: timed.then(|| stall.error()),
            node: match ran_on[worker].iter().collect::<Vec<_>>()[..] {
                [&node] if node >= 0 => Some(node as usize),
                _ => None,
            },
        }
    };
    (0..workers.count).map(one).collect()
}

/// The instances of a group that have pages of their own, and one for all that have not.
fn instances(
    analysis: &Analysis<'_>,
    workers: &Workers,
    group: GroupId,
    pages: &[crate::detail::GroupPage],
    uses: &mut FxHashMap<(GroupId, PageKey), Vec<PageThreadUse>>,
) -> Vec<InstanceUse> {
    let Analysis { tables, groups, .. } = analysis;
    let page_bytes = tables.page_bytes;
    let mut rows: FxHashMap<u32, usize> = FxHashMap::default();
    for object in groups.instances_of(group) {
        rows.insert(groups.instance[object], object);
    }
    let mut instances = Vec::new();
    for chunk in pages.chunk_by(|a, b| (a.key.instance, a.key.space) == (b.key.instance, b.key.space)) {
        let instance = chunk[0].key.instance;
        let is_small = instance == SMALL;
        let Extent { addr, bytes } = match rows.get(&instance) {
            _ if is_small => Extent { addr: 0, bytes: chunk.len() as u64 * page_bytes },
            Some(&object) => groups.extent(tables, object),
            None => continue,
        };
        let page = |(n, of): (usize, &crate::detail::GroupPage)| {
            let mut by_thread = uses.remove(&(group, of.key)).unwrap_or_default();
            by_thread.sort_by_key(|of| (of.thread, of.phase));
            PageUse {
                page: if is_small { n as u64 } else { of.key.page },
                first_touch: of.first_touch.map(|touch| workers.of(touch.thread)),
                node: of.node.filter(|&node| node >= 0).map(|node| node as usize),
                by_thread,
            }
        };
        instances.push(InstanceUse {
            instance: if is_small { 0 } else { u64::from(instance) },
            bytes,
            blocks: if is_small { groups.groups[group as usize].instances } else { 0 },
            page_offset: addr % page_bytes,
            huge_offset: (addr - addr % page_bytes) % HUGE,
            pages: chunk.iter().enumerate().map(page).collect(),
        });
    }
    instances
}

/// Groups that have touched so little that caches hold it.
fn cached(analysis: &Analysis<'_>, pages: &[Vec<crate::detail::GroupPage>]) -> FxHashSet<GroupId> {
    let Analysis { tables, groups, .. } = analysis;
    let small = |of: &[crate::detail::GroupPage]| of.len() as u64 * tables.page_bytes <= CACHED;
    let is = |(number, of): (usize, &Vec<crate::detail::GroupPage>)| {
        let kind = groups.groups[number].kind;
        // A stack's frames, and what is thread-local, are used again and again.
        (small(of) || matches!(kind, ObjectKind::Stack | ObjectKind::Tls)).then_some(number as GroupId)
    };
    pages.iter().enumerate().filter_map(is).collect()
}

/// Time by instruction, for the part of it that is waiting: by process and address.
#[derive(Debug, Default)]
struct Costs {
    /// Of instructions that stalled.
    stalled: FxHashMap<(i32, i64), i64>,
    /// Of the others.
    others: FxHashMap<(i32, i64), i64>,
}

impl Costs {
    fn add(&mut self, process: i32, row: &SampleRow) {
        let by_ip = match row.rule {
            rule if rule == Rule::Before as i32 => &mut self.stalled,
            rule if rule == Rule::Forward as i32 || rule == Rule::None as i32 => &mut self.others,
            _ => return,
        };
        *by_ip.entry((process, row.ip)).or_default() += row.cost;
    }

    /// True if samples show stalls at all: each access has its share of them on a processor that is not emulated.
    fn shows_stalls(&self) -> bool {
        let stalled = self.stalled.values().sum::<i64>() as f64;
        let others = self.others.values().sum::<i64>() as f64;
        stalled > NO_STALLS * (stalled + others)
    }

    /// Part of each stalled instruction's time that is waiting. `function`: of an instruction.
    fn hits<'a>(self, function: impl Fn(i32, i64) -> &'a str) -> Hits {
        let mut others: FxHashMap<(i32, &str), (i64, u32)> = FxHashMap::default();
        for ((process, ip), cost) in self.others {
            let sum = others.entry((process, function(process, ip))).or_default();
            *sum = (sum.0 + cost, sum.1 + 1);
        }
        let parts = self.stalled.into_iter().map(|((process, ip), cost)| {
            let of_function = others.get(&(process, function(process, ip)));
            let hit = of_function.map_or(0.0, |&(cost, count)| cost as f64 / f64::from(count));
            let waiting = |times: f64| (1.0 - times * hit / cost as f64).max(0.0);
            ((process, ip), Waiting { best: waiting(1.0), least: waiting(SLOW_HIT) })
        });
        Hits(parts.collect())
    }
}

/// The part of an instruction's time that is waiting for memory, 0..1.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    best: f64,
    least: f64,
}

/// By process and address.
#[derive(Debug)]
struct Hits(FxHashMap<(i32, i64), Waiting>);

impl Hits {
    fn waiting(&self, process: i32, ip: i64) -> Waiting {
        self.0.get(&(process, ip)).copied().unwrap_or(Waiting { best: 0.5, least: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_instruction_takes_beyond_its_neighbours_is_waiting() {
        let costs = Costs {
            stalled: [((1, 10), 900), ((1, 20), 100)].into_iter().collect(),
            others: [((1, 11), 80), ((1, 12), 100), ((1, 40), 1000)].into_iter().collect(),
        };
        assert!(costs.shows_stalls());
        assert!(!Costs { stalled: FxHashMap::default(), ..Costs::default() }.shows_stalls());
        let hits = costs.hits(|_, ip| if ip < 30 { "sum" } else { "other" });
        let (slow, fast) = (hits.waiting(1, 10), hits.waiting(1, 20));
        assert!((slow.best - 0.9).abs() < 1e-9 && (slow.least - 0.7).abs() < 1e-9, "{slow:?}");
        assert!((fast.best - 0.1).abs() < 1e-9 && fast.least == 0.0, "{fast:?}");
    }

    #[test]
    fn the_error_holds_what_is_not_known_of_hits() {
        let mut stall = Stall::default();
        (0..10_000).for_each(|_| stall.add(0.001, Waiting { best: 0.9, least: 0.7 }));
        assert!((stall.seconds - 9.0).abs() < 1e-6);
        assert!((2.0..2.05).contains(&stall.error()), "{}", stall.error());
    }
}
