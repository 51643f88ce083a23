//! The tables that fit in memory, and the findings made of them and of the counters.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use numamma_findings::{
    Accesses, CallSite, Controls, Cost, Findings, Lifetime, Loss, MemoryAccesses, MissingTable, Object, Overhead,
    Process, Remote, Run, Sampler, Samples, Site, Thread, ThreadShare, Trace, TraceWindows, VERSION, WITHOUT_ACCESS,
};
use numamma_symbols::origin::is_library_source;
use numamma_trace::{CodeRow, Dataset, FrameRow, LossKind, ObjectRow, ProcessRow, SiteRow, ThreadRow, TraceError};
use rustc_hash::FxHashMap;

use crate::advice::advice;
use crate::cache_lines;
use crate::counters::{Count, Counters, reason};
use crate::detail;
use crate::first_touch::Touches;
use crate::groups::{GroupId, Groups, distinct_names, frame_name, short_function};
use crate::instances::{Shared, shared};
use crate::lines;
use crate::pages::{PageAddress, PageNodes};
use crate::pattern;
use crate::statistics::{ratio, share_error};
use crate::waiting;
use crate::workers;

/// Kind, module, and address in it, of a call that allocates.
type Place = (String, String, i64, String);

/// Tables whose size is bounded by what was sampled.
#[derive(Debug)]
pub struct Tables {
    pub objects: Vec<ObjectRow>,
    pub threads: Vec<ThreadRow>,
    pub processes: Vec<ProcessRow>,
    /// By thread: the first thread that is the same worker, see [`workers`].
    first_threads: Vec<i32>,
    pub page_bytes: u64,
    sites: FxHashMap<i32, SiteRow>,
    /// Calls of each site's stack, innermost first.
    frames: FxHashMap<i32, Vec<i64>>,
    /// Functions at each code address, innermost first.
    code: FxHashMap<(i32, i64), Vec<CodeRow>>,
    /// Allocations by place.
    made: FxHashMap<Place, i64>,
    /// Lowest mapping of each module in each process: what variables are counted from.
    module_start: FxHashMap<(i32, String), i64>,
}

impl Tables {
    /// Reads them.
    pub fn read(dataset: &Dataset) -> Result<Self, TraceError> {
        let mut threads: Vec<ThreadRow> = dataset.read()?;
        threads.sort_by_key(|row| row.thread);
        let mut frames: FxHashMap<i32, Vec<i64>> = FxHashMap::default();
        dataset.visit(|rows: &mut Vec<FrameRow>| {
            for row in rows.iter() {
                frames.entry(row.site).or_default().push(row.ip);
            }
        })?;
        let mut code: FxHashMap<(i32, i64), Vec<CodeRow>> = FxHashMap::default();
        for row in dataset.read::<CodeRow>()? {
            code.entry((row.process, row.ip)).or_default().push(row);
        }
        let mut module_start: FxHashMap<(i32, String), i64> = FxHashMap::default();
        for row in dataset.read::<numamma_trace::ModuleRow>()? {
            let start = module_start.entry((row.process, row.path)).or_insert(row.start_addr);
            *start = row.start_addr.min(*start);
        }
        let mut tables = Self {
            made: FxHashMap::default(),
            objects: objects(dataset)?,
            first_threads: workers::first_threads(&threads),
            threads,
            processes: dataset.read()?,
            page_bytes: dataset.meta().page_bytes.max(1),
            sites: dataset.read::<SiteRow>()?.into_iter().map(|row| (row.site, row)).collect(),
            frames,
            code,
            module_start,
        };
        let mut made: FxHashMap<Place, i64> = FxHashMap::default();
        for row in tables.sites.values() {
            *made.entry(tables.place(row)).or_default() += row.count;
        }
        tables.made = made;
        Ok(tables)
    }

    /// The thread that stands for all that are the same worker.
    pub fn worker(&self, thread: i32) -> i32 {
        self.first_threads.get(thread as usize).copied().unwrap_or(thread)
    }

    /// Process of a thread; -1 if the thread is not in the table (a recording that was cut short).
    pub fn process_of(&self, thread: i32) -> i32 {
        self.threads.get(thread as usize).map_or(-1, |row| row.process)
    }

    /// A process.
    pub fn process(&self, process: i32) -> Option<&ProcessRow> {
        self.processes.iter().find(|row| row.process == process)
    }

    /// Whether a thread is the first of its process.
    pub fn is_main(&self, thread: i32) -> bool {
        self.threads.get(thread as usize).is_some_and(|row| row.pid == row.tid)
    }

    /// The function that stands for a site.
    pub fn site_frame(&self, site: i32) -> Option<&CodeRow> {
        let row = self.sites.get(&site)?;
        let functions = self.code.get(&(row.process, row.ip))?;
        let is_it = |f: &&CodeRow| (&f.function, &f.file, f.line) == (&row.function, &row.file, row.line);
        functions.iter().find(is_it).or_else(|| functions.first())
    }

    /// Allocations over the whole run of all sites whose stacks share the frame of `site`.
    pub fn allocations(&self, site: i32) -> i64 {
        self.sites.get(&site).and_then(|row| self.made.get(&self.place(row))).copied().unwrap_or_default()
    }

    /// What makes call stacks one site: kind, the call in its module, and the variable that holds the pointer.
    fn place(&self, row: &SiteRow) -> Place {
        match self.site_frame(row.site).filter(|frame| !frame.module.is_empty()) {
            Some(frame) => (row.kind.clone(), frame.module.clone(), frame.module_offset, row.name.clone()),
            None => (row.kind.clone(), String::new(), i64::from(row.site), String::new()),
        }
    }

    /// A static object's address relative to its module, which is the same in every process.
    pub fn module_offset(&self, object: &ObjectRow) -> i64 {
        let start = self.module_start.get(&(object.process, object.module.clone()));
        object.addr - start.copied().unwrap_or_default()
    }

    /// Innermost function at a code address.
    pub fn code(&self, process: i32, ip: i64) -> Option<&CodeRow> {
        self.code.get(&(process, ip))?.first()
    }

    /// The function of an address that the user wrote: the innermost one, unless that is the C++ or the Rust library's, inlined there.
    pub fn own_code(&self, process: i32, ip: i64) -> Option<&CodeRow> {
        let functions = self.code.get(&(process, ip))?;
        functions.iter().find(|row| !is_library_source(&row.file)).or(functions.first())
    }

    /// The variable that a site's pointers were stored in, if known.
    pub fn variable(&self, site: i32) -> Option<&str> {
        self.sites.get(&site).map(|row| row.name.as_str()).filter(|name| !name.is_empty())
    }

    /// A site as reports show it.
    pub fn call_site(&self, site: i32) -> CallSite {
        let row = self.sites.get(&site);
        let process = row.map_or(-1, |row| row.process);
        let via = row.map_or(String::new(), |row| short_function(&row.via).to_owned());
        let calls = self.frames.get(&site).map_or(&[][..], Vec::as_slice);
        let functions = calls.iter().filter_map(|&ip| self.code.get(&(process, ip))).flatten();
        let stack = functions.map(frame_name).collect();
        match self.site_frame(site) {
            Some(frame) => CallSite {
                // What has no name is told by its place.
                function: match (frame.function.as_str(), frame.line) {
                    ("", 0) => frame_name(frame),
                    (function, _) => short_function(function).to_owned(),
                },
                file: frame.file.clone(),
                line: frame.line.max(0) as u32,
                via,
                stack,
            },
            None => CallSite { via, stack, ..CallSite::default() },
        }
    }
}

/// The objects. An unfinished recording may have one twice: as it was at the last checkpoint, and as it ended.
fn objects(dataset: &Dataset) -> Result<Vec<ObjectRow>, TraceError> {
    let mut rows: Vec<ObjectRow> = dataset.read()?;
    if !dataset.meta().complete {
        let identity = |row: &ObjectRow| (row.process, row.kind.clone(), row.addr, row.start_time, row.bytes);
        rows.sort_by_cached_key(|row| (identity(row), row.end_time));
        rows.dedup_by(|later, first| identity(later) == identity(first));
    }
    Ok(rows)
}

/// Puts everything together. Objects come by cost, then accesses, then name, so that their ids are the same each time.
pub fn findings(
    dataset: &Dataset,
    tables: &Tables,
    groups: &Groups,
    counters: &Counters,
    touches: &Touches,
    nodes: &PageNodes,
) -> Findings {
    let pages = detail::pages_by_group(tables, groups, counters, touches, nodes);
    let order = order(groups, counters, &pages);
    let ids: FxHashMap<GroupId, usize> = order.iter().enumerate().map(|(id, &group)| (group, id)).collect();
    let names = distinct_names(order.iter().map(|&group| &groups.groups[group as usize]));
    let objects: Vec<Object> = order
        .iter()
        .zip(names)
        .enumerate()
        .map(|(id, (&group, name))| object(id, name, group, tables, groups, counters, &pages[group as usize]))
        .collect();
    Findings {
        version: VERSION,
        run: run(dataset, tables),
        sampler: sampler(dataset, counters),
        samples: samples(counters),
        losses: losses(dataset),
        threads: threads(dataset, tables, counters),
        lines: lines::lines(tables, counters, &ids),
        sites: sites(tables, groups, &ids, &objects),
        objects,
        processes: processes(tables),
        missing: missing(dataset),
        waiting: waiting::waiting(tables, counters),
    }
}

/// Groups in the order of the report.
pub fn order(groups: &Groups, counters: &Counters, pages: &[Vec<detail::GroupPage>]) -> Vec<GroupId> {
    let named = |&id: &GroupId| {
        // What was touched once and never sampled is a finding only if the program allocated it.
        let (group, count) = (&groups.groups[id as usize], &counters.groups[id as usize].all);
        count.samples > 0 || count.accesses() > 0.0 || (group.site.is_some() && !pages[id as usize].is_empty())
    };
    let mut order: Vec<GroupId> = (0..groups.groups.len() as GroupId).filter(named).collect();
    order.sort_by(|&a, &b| {
        let (ca, cb) = (&counters.groups[a as usize].all, &counters.groups[b as usize].all);
        let (ga, gb) = (&groups.groups[a as usize], &groups.groups[b as usize]);
        cb.cost
            .cmp(&ca.cost)
            .then(cb.accesses().total_cmp(&ca.accesses()))
            .then(gb.bytes.cmp(&ga.bytes))
            .then_with(|| ga.name.cmp(&gb.name))
    });
    order
}

fn object(
    id: usize,
    name: String,
    number: GroupId,
    tables: &Tables,
    groups: &Groups,
    counters: &Counters,
    pages: &[detail::GroupPage],
) -> Object {
    let group = &groups.groups[number as usize];
    let count = &counters.groups[number as usize];
    let mut threads: Vec<ThreadShare> = count
        .threads
        .iter()
        .map(|(&thread, of)| ThreadShare {
            thread: thread as usize,
            cost_share: ratio(of.cost as f64, count.all.cost as f64),
            access_share: counters.exact.then(|| ratio(of.accesses(), count.all.accesses())),
            error: share_error(of.samples, count.all.samples).filter(|_| !counters.exact),
        })
        .collect();
    threads.sort_by(|a, b| {
        let by_cost = b.cost_share.total_cmp(&a.cost_share);
        // Where there is no cost.
        let accesses = |of: &ThreadShare| count.threads.get(&(of.thread as i32)).map_or(0.0, Count::accesses);
        let by_count = || if count.all.cost == 0 { accesses(b).total_cmp(&accesses(a)) } else { Ordering::Equal };
        by_cost.then_with(by_count).then(a.thread.cmp(&b.thread))
    });
    // A page of memory is on one node, however many instances have lain in it.
    let homes: FxHashMap<PageAddress, i32> = pages.iter().filter_map(|page| Some((page.address, page.node?))).collect();
    let mut on_nodes: BTreeMap<i32, u64> = BTreeMap::new();
    for &node in homes.values() {
        *on_nodes.entry(node).or_default() += 1;
    }
    let shared = match group.is_unknown_objects() {
        true => Shared { whole: pattern::unknown(), instances: Vec::new() },
        false => shared(tables, group, count, pages),
    };
    let accesses = accesses(number, counters);
    // On a machine with one node nothing is remote, whatever is known of the numbers.
    let is_counted = accesses.counted().is_some() || count.located == 0.0;
    let remote_share = ratio(count.remote_reads + count.remote_writes, count.located);
    Object {
        id,
        name,
        kind: group.kind_name().into(),
        module: group.module.clone(),
        site: group.site.map(|site| tables.call_site(site)),
        instances: group.instances,
        bytes: group.bytes,
        pages: detail::distinct(pages),
        samples: count.all.samples,
        cost: cost(&count.all, counters),
        accesses,
        memory: counters.memory_known.then(|| memory(&count.all, counters)),
        remote: Remote {
            reads: is_counted.then_some(count.remote_reads),
            writes: is_counted.then_some(count.remote_writes),
            share: remote_share,
            error: match counters.exact {
                true => (count.located_samples > 0).then_some(0.0),
                false => {
                    share_error((remote_share * count.located_samples as f64).round() as u64, count.located_samples)
                }
            },
        },
        advice: advice(tables, group, count.interrupts, pages, &shared),
        line_sharing: cache_lines::sharing(&count.lines, counters.data.cost),
        pattern: shared.whole,
        instance_patterns: shared.instances,
        threads,
        first_touch: detail::first_touch_lines(tables, pages.iter()),
        nodes: on_nodes,
        detail: None,
    }
}

fn cost(count: &Count, counters: &Counters) -> Cost {
    Cost {
        seconds: count.cost as f64 / 1e9,
        share: ratio(count.cost as f64, counters.data.cost as f64),
        error: share_error(count.samples, counters.data.samples).filter(|_| !counters.exact),
    }
}

fn accesses(number: GroupId, counters: &Counters) -> Accesses {
    let accuracy = counters.accuracy.as_ref();
    let count = &counters.groups[number as usize].all;
    Accesses {
        reads: count.reads,
        writes: count.writes,
        share: ratio(count.accesses(), counters.data.accesses()),
        error: match counters.exact {
            true => Some(0.0),
            false => accuracy.and_then(|accuracy| accuracy.error(number, counters)),
        },
        basis: accuracy.map(|accuracy| accuracy.stated_basis(number, counters)),
    }
}

fn memory(count: &Count, counters: &Counters) -> MemoryAccesses {
    let total = count.memory();
    let share = ratio(total, counters.data.memory());
    MemoryAccesses { reads: count.memory_reads, writes: count.memory_writes, total, share }
}

fn run(dataset: &Dataset, tables: &Tables) -> Run {
    let meta = dataset.meta();
    Run {
        command: meta.command.clone(),
        wall_s: (meta.end - meta.start).max(0) as f64 / 1e9,
        threads: tables.threads.len(),
        exit: meta.exit,
        nodes: meta.nodes as usize,
        cpus: meta.cpus as usize,
        host: meta.host.clone(),
        started_unix_s: meta.started_unix as f64 / 1e9,
        page_bytes: meta.page_bytes,
        heap_tracked: meta.heap_tracked.unwrap_or(true),
    }
}

fn sampler(dataset: &Dataset, counters: &Counters) -> Sampler {
    let sampler = &dataset.meta().sampler;
    let overhead = overhead(dataset, counters);
    let measured = overhead.filter(|of| of.thread_s > 0.0);
    let measured = measured.map(|of| ((of.ticks_s + of.held_s + of.hooks_s) / of.thread_s).min(1.0));
    Sampler {
        kind: sampler.kind.clone(),
        rate_hz: sampler.rate_hz,
        period: sampler.period,
        overhead_estimate: measured.unwrap_or(sampler.overhead),
        overhead,
        only: sampler.only.clone(),
        hooks: sampler.hooks,
        controls: controls(&sampler.controls),
        trace_windows: sampler.trace_windows.map(|of| TraceWindows {
            taken: of.taken,
            instructions: of.instructions,
            stopped_s: of.stopped as f64 / 1e9,
            assumed: of.assumed,
            factor: of.error.map(|error| (crate::accuracy::Z * error).exp()),
        }),
        trace: sampler.trace.map(|of| Trace {
            most: of.most,
            accesses: of.accesses,
            used_up: of.used_up,
            after_s: of.after as f64 / 1e9,
            for_s: of.lasting.map(|time| time as f64 / 1e9),
        }),
        caches: sampler.caches.clone(),
    }
}

fn overhead(dataset: &Dataset, counters: &Counters) -> Option<Overhead> {
    let sampler = &dataset.meta().sampler;
    let cost = sampler.cost?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let samples = counters.unattributed.get(reason::RECORDER).copied().unwrap_or(0) * sampler.controls.thinned;
    Some(Overhead {
        thread_s: seconds(cost.thread_time),
        ticks_s: seconds(cost.ticks),
        held_s: seconds(cost.held),
        hooks_s: seconds(samples * sampler.period),
        recorder_s: seconds(cost.recorder),
    })
}

fn controls(of: &numamma_trace::Controls) -> Controls {
    Controls {
        after_s: of.after as f64 / 1e9,
        marked: of.marked,
        for_s: of.lasting.map(|time| time as f64 / 1e9),
        functions: of.functions.clone(),
        objects: of.objects.clone(),
        ranges: of.ranges.clone(),
        left_out: of.left_out,
        thinned: of.thinned,
    }
}

fn samples(counters: &Counters) -> Samples {
    Samples {
        recorded: counters.recorded,
        attributed: counters.attributed,
        unattributed: counters.unattributed.iter().map(|(reason, &n)| ((*reason).to_owned(), n)).collect(),
        without_access: WITHOUT_ACCESS.iter().filter_map(|reason| counters.unattributed.get(reason)).sum(),
    }
}

fn losses(dataset: &Dataset) -> Vec<Loss> {
    let mut losses = dataset.meta().losses.clone();
    losses.add(LossKind::UnreadFile, dataset.unread().len() as u64);
    losses.iter().map(|(kind, count, remedy)| Loss { kind: kind.into(), count, remedy: remedy.into() }).collect()
}

fn missing(dataset: &Dataset) -> Vec<MissingTable> {
    let table = |file: numamma_trace::Unread| MissingTable {
        table: file.path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        unknown: file.unknown.to_owned(),
    };
    dataset.unread().into_iter().map(table).collect()
}

fn threads(dataset: &Dataset, tables: &Tables, counters: &Counters) -> Vec<Thread> {
    let start = dataset.meta().start;
    let seconds = |time: i64| (time - start) as f64 / 1e9;
    let mut cpus: FxHashMap<i32, BTreeMap<i32, u64>> = FxHashMap::default();
    for (&(thread, cpu), &samples) in &counters.cpus {
        cpus.entry(thread).or_default().insert(cpu, samples);
    }
    tables
        .threads
        .iter()
        .map(|row| {
            let count = counters.threads.get(&row.thread).copied().unwrap_or_default();
            Thread {
                thread: row.thread as usize,
                tid: row.tid,
                pid: row.pid,
                name: row.name.clone(),
                start_s: seconds(row.start_time),
                end_s: (row.end_time != i64::MAX).then(|| seconds(row.end_time)),
                samples: row.samples as u64,
                cost_s: count.cost as f64 / 1e9,
                cost_error: share_error(count.samples, counters.attributed).filter(|_| !counters.exact),
                reads: counters.exact.then_some(count.reads),
                writes: counters.exact.then_some(count.writes),
                memory: counters.memory_known.then(|| count.memory()),
                cpus: cpus.remove(&row.thread).unwrap_or_default(),
            }
        })
        .collect()
}

fn sites(tables: &Tables, groups: &Groups, ids: &FxHashMap<GroupId, usize>, objects: &[Object]) -> Vec<Site> {
    let mut object_of: FxHashMap<i32, usize> = FxHashMap::default();
    for (number, group) in groups.groups.iter().enumerate() {
        for &site in &group.sites {
            if let Some(&id) = ids.get(&(number as GroupId)) {
                object_of.insert(site, id);
            }
        }
    }
    // Stacks that share the frame of the site are one site.
    let mut merged: FxHashMap<(String, String, i64, String), Site> = FxHashMap::default();
    let mut rows: Vec<&SiteRow> = tables.sites.values().collect();
    rows.sort_by_key(|row| row.site);
    for row in rows {
        let place = tables
            .site_frame(row.site)
            .map_or((String::new(), i64::from(row.site)), |f| (f.module.clone(), f.module_offset));
        let key = (row.kind.clone(), place.0, place.1, row.function.clone());
        let site = merged.entry(key).or_insert_with(|| Site {
            kind: row.kind.clone(),
            site: tables.call_site(row.site),
            ..Site::default()
        });
        site.lifetime = lifetime(site.lifetime, site.freed, row);
        site.variable = site.variable.take().or_else(|| tables.variable(row.site).map(str::to_owned));
        site.count += row.count as u64;
        site.bytes += row.bytes as u64;
        site.freed += row.freed as u64;
        // Peaks of different stacks need not have come at once: their sum is the bound that is known.
        site.peak_bytes += row.peak_bytes as u64;
        site.object = site.object.or(object_of.get(&row.site).copied());
    }
    let mut sites: Vec<Site> = merged.into_values().collect();
    for site in &mut sites {
        site.nodes = site.object.map_or_else(BTreeMap::new, |id| objects[id].nodes.clone());
    }
    sites.sort_by(|a, b| {
        b.bytes.cmp(&a.bytes).then_with(|| {
            (&a.site.function, a.site.line, &a.site.stack).cmp(&(&b.site.function, b.site.line, &b.site.stack))
        })
    });
    sites
}

/// The lifetimes of `freed` objects, and those of `row`.
fn lifetime(of: Option<Lifetime>, freed: u64, row: &SiteRow) -> Option<Lifetime> {
    if row.freed <= 0 {
        return of;
    }
    let seconds = |nanoseconds: i64| nanoseconds as f64 / 1e9;
    let (min_s, max_s, total_s) = (seconds(row.lifetime_min), seconds(row.lifetime_max), seconds(row.lifetime_total));
    let before = of.unwrap_or(Lifetime { min_s, mean_s: 0.0, max_s });
    Some(Lifetime {
        min_s: before.min_s.min(min_s),
        mean_s: ratio(before.mean_s * freed as f64 + total_s, freed as f64 + row.freed as f64),
        max_s: before.max_s.max(max_s),
    })
}

fn processes(tables: &Tables) -> Vec<Process> {
    let process = |row: &ProcessRow| Process {
        pid: row.pid,
        parent: row.parent,
        command: row.command.clone(),
        tracked: row.tracked != 0,
        samples: row.samples as u64,
    };
    tables.processes.iter().map(process).collect()
}
