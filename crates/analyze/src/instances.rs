//! The instances of an object, one by one: patterns, owners and first touches are of an instance, and an object adds them up.

use std::cmp::Reverse;

use numamma_findings::{Instance, InstancePattern, Pattern, ThreadShare};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Analysis;
use crate::counters::{GroupCount, Users};
use crate::detail::{GroupPage, first_touch_lines, is_paged};
use crate::groups::{Group, GroupId};
use crate::pages::SMALL;
use crate::pattern::{self, Sampled, Used, by_worker};
use crate::shared_memory::Extent;
use crate::statistics::{ratio, share_error};
use crate::summary::Tables;

/// Instances that are listed: those with most samples.
const LISTED: usize = 1000;
/// Share of the samples that instances of one pattern must have for the object to have it.
const MOST: f64 = 0.8;

/// The kind of pattern of what the samples do not tell.
const UNKNOWN: &str = "unknown";

/// How the threads share an object: all of it, and by instance if it has several.
pub struct Shared {
    pub whole: Pattern,
    pub instances: Vec<InstancePattern>,
}

/// Judges each instance of a group by its pages; those whose samples do not tell are judged together.
pub fn shared(tables: &Tables, group: &Group, count: &GroupCount, pages: &[GroupPage]) -> Shared {
    let page_bytes = tables.page_bytes;
    let users = &count.instances;
    let main_thread = |users: &Users| main_thread(users, tables);
    let chunks: Vec<&[GroupPage]> = pages.chunk_by(|a, b| a.key.instance == b.key.instance).collect();
    if group.touched <= 1 {
        let nobody = Users::default();
        let sampled = Sampled::new(used(pages, tables), users.values().next().unwrap_or(&nobody), tables);
        let whole = group.bytes.div_ceil(page_bytes);
        return Shared { whole: pattern::judge(&sampled, page_bytes, Some(whole)), instances: Vec::new() };
    }
    let mut judged: Vec<Judged> = Vec::new();
    let mut untold: Vec<Sampled> = Vec::new();
    let mut untold_threads: FxHashSet<i32> = FxHashSet::default();
    for chunk in chunks {
        let instance = chunk[0].key.instance;
        if instance == SMALL {
            continue;
        }
        let used = used(chunk, tables);
        let Some(users) = users.get(&instance).filter(|_| !used.is_empty()) else { continue };
        let sampled = Sampled::new(used, users, tables);
        // From the first page that was seen to the last: how large it is does not matter to the pattern.
        let span = chunk.last().map_or(0, |page| page.key.page + 1);
        let found = pattern::judge(&sampled, page_bytes, Some(span));
        if found.kind == "unknown" {
            untold_threads.extend(main_thread(users));
            untold.push(sampled);
        } else {
            let threads = main_thread(users).into_iter().collect();
            judged.push(Judged { pattern: found, instances: 1, threads, samples: users.samples() });
        }
    }
    // Small instances: pages are several's, but each instance tells who uses it.
    let mut small: Vec<(&u32, &Users)> = users.iter().filter(|(n, _)| !is_judged(pages, **n)).collect();
    small.sort_by_key(|(n, _)| **n);
    for (_, users) in small {
        untold_threads.extend(main_thread(users));
        untold.extend(Used::new(0, users, tables).map(|used| Sampled::new(vec![used], users, tables)));
    }
    // An interrupt that shows several instances is one sample of them together.
    let each = ratio(count.interrupts as f64, users.values().map(Users::samples).sum::<u64>() as f64);
    if !untold.is_empty() {
        let samples = untold.iter().map(Sampled::samples).sum();
        judged.push(Judged {
            pattern: pattern::judge_together(&untold, page_bytes, (each * samples as f64).round() as u64),
            instances: untold.len() as u64,
            threads: untold_threads,
            samples,
        });
    }
    add_up(judged, count.interrupts)
}

/// The pages that were sampled.
fn used(pages: &[GroupPage], tables: &Tables) -> Vec<Used> {
    pages.iter().filter_map(|page| Used::new(page.key.page, &page.users, tables)).collect()
}

/// True if an instance has pages of its own among `pages`, which ascend.
fn is_judged(pages: &[GroupPage], instance: u32) -> bool {
    pages.binary_search_by_key(&instance, |page| page.key.instance).is_ok()
}

fn main_thread(users: &Users, tables: &Tables) -> Option<i32> {
    let workers = by_worker(users, tables);
    workers.iter().max_by_key(|(worker, samples)| (*samples, Reverse(*worker))).map(|(worker, _)| *worker)
}

/// Instances that one verdict was given of.
struct Judged {
    pattern: Pattern,
    instances: u64,
    /// Their main threads.
    threads: FxHashSet<i32>,
    /// Samples of each of them.
    samples: u64,
}

/// Adds patterns of instances up: by kind, and what most of those are whose samples tell, if these have most samples. `interrupts`: that
/// show any of them.
fn add_up(judged: Vec<Judged>, interrupts: u64) -> Shared {
    let samples: u64 = judged.iter().map(|of| of.samples).sum();
    let mut kinds: Vec<(String, Vec<&Judged>)> = Vec::new();
    for of in &judged {
        match kinds.iter_mut().find(|(kind, _)| *kind == of.pattern.kind) {
            Some((_, all)) => all.push(of),
            None => kinds.push((of.pattern.kind.clone(), vec![of])),
        }
    }
    let of_kind = |all: &[&Judged]| all.iter().map(|of| of.samples).sum::<u64>();
    kinds.sort_by_key(|(kind, all)| (kind == UNKNOWN, Reverse(of_kind(all))));
    let instances: Vec<InstancePattern> = kinds
        .iter()
        .map(|(kind, all)| InstancePattern {
            kind: kind.clone(),
            instances: all.iter().map(|of| of.instances).sum(),
            threads: all.iter().flat_map(|of| &of.threads).collect::<FxHashSet<_>>().len() as u64,
            block_bytes: block_of(all),
            share: ratio(of_kind(all) as f64, samples as f64),
        })
        .collect();
    let told: u64 = kinds.iter().filter(|(kind, _)| kind != UNKNOWN).map(|(_, all)| of_kind(all)).sum();
    let samples_needed = judged.iter().filter_map(|of| of.pattern.samples_needed).max();
    let Some((kind, all)) = kinds.first().filter(|_| 2 * told >= samples.max(1)) else {
        return Shared { whole: Pattern { samples: interrupts, samples_needed, ..pattern::unknown() }, instances };
    };
    let mean = |value: &dyn Fn(&Pattern) -> f64| {
        let sum: f64 = all.iter().map(|of| of.samples as f64 * value(&of.pattern)).sum();
        ratio(sum, of_kind(all) as f64)
    };
    let share = ratio(of_kind(all) as f64, told as f64);
    let whole = Pattern {
        kind: if share >= MOST { kind.clone() } else { "mixed".into() },
        block_bytes: if share >= MOST { instances[0].block_bytes } else { 0 },
        period_bytes: 0,
        confidence: mean(&|of| of.confidence) * share,
        samples: interrupts,
        main_share: if share >= MOST { mean(&|of| of.main_share) } else { 0.0 },
        samples_needed: None,
    };
    Shared { whole, instances }
}

/// The block size that all have but for a tenth; 0 if there is none.
fn block_of(all: &[&Judged]) -> u64 {
    let sizes = all.iter().map(|of| of.pattern.block_bytes);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    if most as f64 <= 1.1 * least as f64 { most } else { 0 }
}

/// Pages from the first to the last of an object.
pub fn pages_of(object: Extent, page_bytes: u64) -> u64 {
    (object.addr % page_bytes + object.bytes.max(1)).div_ceil(page_bytes)
}

/// The instances of a group, oldest first. `first`: the number of each one's first page.
pub fn list(analysis: &Analysis<'_>, id: GroupId, pages: &[GroupPage], first: &FxHashMap<u32, u64>) -> Vec<Instance> {
    let Analysis { tables, groups, counters, .. } = analysis;
    let group = &groups.groups[id as usize];
    let users = &counters.groups[id as usize].instances;
    let start = analysis.dataset.meta().start;
    let seconds = |time: i64| (time - start) as f64 / 1e9;
    let mut objects: Vec<usize> = groups.instances_of(id).collect();
    let samples = |object: usize| users.get(&groups.instance[object]).map_or(0, Users::samples);
    objects.sort_by_key(|&object| (Reverse(samples(object)), groups.instance[object]));
    objects.truncate(LISTED);
    objects.sort_by_key(|&object| groups.instance[object]);
    let nobody = Users::default();
    let instance = |object: usize| {
        let number = groups.instance[object];
        let row = &tables.objects[object];
        let users = users.get(&number).unwrap_or(&nobody);
        let low = pages.partition_point(|page| page.key.instance < number);
        let high = pages.partition_point(|page| page.key.instance <= number);
        let own = &pages[low..high];
        let extent = groups.extent(tables, object);
        let span = pages_of(extent, tables.page_bytes);
        let end_time = groups.shared.instance(object).map_or(row.end_time, |of| of.end_time);
        Instance {
            instance: number.into(),
            pid: tables.processes.iter().find(|of| of.process == row.process).map_or(-1, |of| of.pid),
            bytes: extent.bytes,
            first_page: first.get(&number).copied(),
            pages: span,
            start_s: seconds(row.start_time).max(0.0),
            end_s: (end_time != i64::MAX).then(|| seconds(end_time)),
            samples: users.samples(),
            cost_s: users.threads.iter().map(|of| of.cost).sum::<i64>() as f64 / 1e9,
            threads: thread_shares(users, counters.exact),
            first_touch: first_touch_lines(tables, own.iter()),
            pattern: match is_paged(group, extent, tables.page_bytes) {
                true => pattern::judge(&Sampled::new(used(own, tables), users, tables), tables.page_bytes, Some(span)),
                false => {
                    let used = Used::new(0, users, tables).into_iter().collect();
                    pattern::judge(&Sampled::new(used, users, tables), tables.page_bytes, None)
                }
            },
        }
    };
    objects.into_iter().map(instance).collect()
}

fn thread_shares(users: &Users, exact: bool) -> Vec<ThreadShare> {
    let cost: i64 = users.threads.iter().map(|of| of.cost).sum();
    let accesses: f64 = users.threads.iter().map(|of| of.accesses).sum();
    let samples = users.samples();
    let mut shares: Vec<ThreadShare> = users
        .threads
        .iter()
        .map(|of| ThreadShare {
            thread: of.thread.max(0) as usize,
            cost_share: ratio(of.cost as f64, cost as f64),
            access_share: exact.then(|| ratio(of.accesses, accesses)),
            error: share_error(of.samples, samples).filter(|_| !exact),
        })
        .collect();
    let weight = |share: &ThreadShare| share.access_share.filter(|_| cost == 0).unwrap_or(share.cost_share);
    shares.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.thread.cmp(&b.thread)));
    shares
}
