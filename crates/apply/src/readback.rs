//! Reads at intervals where the pages of placed objects lie. What the program releases, and what it has when it ends by itself, the
//! library reads; of what is left when it is killed this is the last that is known.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use numamma_plan::{Compiled, lay};
use numamma_process::{HugeMapping, huge_mappings, query};
use numamma_wire::{SharedPlan, plan as wire};
use rustc_hash::FxHashMap;

use crate::achieved::{PageSizes, Pages};

const FIRST: Duration = Duration::from_millis(100);
const SHORTEST: Duration = Duration::from_millis(500);
/// Reading takes at most this part of the time.
const SHARE: u32 = 100;
const PAGE: u64 = 4096;

/// What is known of one object's pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub rule: usize,
    pub pages: Pages,
    pub by_node: BTreeMap<u32, u64>,
}

/// Readings of objects that live or were left, by their place in the list.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub live: FxHashMap<usize, Reading>,
    pub left: Vec<Reading>,
    /// By rule, where it asks for huge pages: when most of it was used.
    pub page_sizes: FxHashMap<usize, PageSizes>,
}

/// Reads while a program runs.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<Readings>>,
}

impl Watch {
    /// Begins to read; `stopped` is called once if a strict plan fails.
    pub(crate) fn begin(shared: Arc<SharedPlan>, compiled: Arc<Compiled>, stopped: impl Fn() + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let ask = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut readings = Readings::default();
            let (mut wait, mut told) = (FIRST, false);
            loop {
                let guard = ask.0.lock().unwrap_or_else(PoisonError::into_inner);
                let tick = if shared.header().strict != 0 { wait.min(FIRST) } else { wait };
                let (guard, _) =
                    ask.1.wait_timeout_while(guard, tick, |stop| !*stop).unwrap_or_else(PoisonError::into_inner);
                let last = *guard;
                drop(guard);
                if !told && shared.header().stopped.load(Acquire) != 0 {
                    told = true;
                    stopped();
                }
                let began = Instant::now();
                read_all(&shared, &compiled, &mut readings);
                wait = SHORTEST.max(began.elapsed() * SHARE);
                if last {
                    return readings;
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// The program has ended.
    pub(crate) fn end(mut self) -> Readings {
        self.halt();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn halt(&self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.halt();
    }
}

fn read_all(shared: &SharedPlan, compiled: &Compiled, readings: &mut Readings) {
    for (n, placed) in shared.used().iter().enumerate() {
        match placed.state.load(Acquire) {
            wire::PLACED_LIVE => {}
            wire::PLACED_LEFT => {
                readings.left.extend(readings.live.remove(&n));
                let _ = placed.state.compare_exchange(wire::PLACED_LEFT, wire::PLACED_FREE, AcqRel, Relaxed);
                continue;
            }
            // As it was read last, until it has its new place.
            wire::PLACED_MOVING => continue,
            // Its pages are in the rule's counters.
            _ => {
                readings.live.remove(&n);
                continue;
            }
        }
        let address = placed.address.load(Relaxed);
        // What lay by another phase's rule was counted when that ended.
        if readings.live.get(&n).is_some_and(|known| known.rule != placed.rule.load(Relaxed) as usize) {
            readings.live.remove(&n);
        }
        if let Some(reading) = read_one(shared, compiled, n) {
            // Another object may have come to its place meanwhile.
            if placed.state.load(Acquire) == wire::PLACED_LIVE && placed.address.load(Relaxed) == address {
                readings.live.insert(n, reading);
            }
        }
    }
    if shared.rules().iter().any(|rule| rule.page_bytes > PAGE as u32) {
        look_at_page_sizes(shared, readings);
    }
}

/// What of the objects that want huge pages has some.
fn look_at_page_sizes(shared: &SharedPlan, readings: &mut Readings) {
    let mut mappings: FxHashMap<i32, Vec<HugeMapping>> = FxHashMap::default();
    let mut seen: FxHashMap<usize, PageSizes> = FxHashMap::default();
    for (&n, reading) in &readings.live {
        if shared.rules().get(reading.rule).is_none_or(|rule| u64::from(rule.page_bytes) <= PAGE) {
            continue;
        }
        let placed = &shared.placed()[n];
        let (low, pid) = (placed.address.load(Relaxed), placed.pid.load(Relaxed));
        let high = low.saturating_add(placed.bytes.load(Relaxed));
        let of = mappings.entry(pid).or_insert_with(|| huge_mappings(pid).unwrap_or_default());
        // A mapping that reaches beyond the object: as much of the object as there can be, and no page for two objects.
        let mut huge = 0;
        for mapping in of {
            let inside = mapping.high.min(high).saturating_sub(mapping.low.max(low)).min(mapping.huge);
            mapping.huge -= inside;
            huge += inside / PAGE;
        }
        let sizes = seen.entry(reading.rule).or_default();
        sizes.used += reading.pages.present();
        sizes.huge += huge.min(reading.pages.present());
    }
    for (rule, sizes) in seen {
        let known = readings.page_sizes.entry(rule).or_default();
        if sizes.used >= known.used {
            *known = sizes;
        }
    }
}

/// What an entry of the list says of an object.
struct Entry<'a> {
    rule: usize,
    /// Pages of 4 KiB, sorted.
    pages: Vec<u64>,
    /// Of the rule, in the order of the policy.
    nodes: &'a [u32],
    /// Where each part ends, and its node; empty where any of the nodes will do.
    borders: Vec<(u64, Option<u32>)>,
    /// All of it belongs there.
    one: Option<u32>,
}

impl Entry<'_> {
    fn node_of(&self, page: u64) -> Option<u32> {
        self.one.or_else(|| self.borders.get(self.borders.partition_point(|(end, _)| *end <= page))?.1)
    }

    /// True if a page may be on that node.
    fn is_right(&self, page: u64, node: u32) -> bool {
        match self.one.is_none() && self.borders.is_empty() {
            true => self.nodes.contains(&node),
            false => self.node_of(page) == Some(node),
        }
    }
}

fn is_label(shared: &SharedPlan, rule: usize) -> bool {
    let base = shared.rules().get(rule).and_then(|rule| shared.rules().get(rule.base as usize));
    base.is_some_and(|base| base.targets & wire::TARGET_LABEL != 0)
}

/// Parts of an object that the program has named and the plan places apart.
fn labels_in(shared: &SharedPlan, pid: i32, low: u64, bytes: u64) -> Vec<(u64, u64)> {
    if shared.header().labels.count == 0 {
        return Vec::new();
    }
    let live = shared.used().iter().filter(|other| {
        matches!(other.state.load(Acquire), wire::PLACED_LIVE | wire::PLACED_MOVING)
            && other.pid.load(Relaxed) == pid
            && is_label(shared, other.rule.load(Relaxed) as usize)
    });
    let range = live.map(|other| {
        let at = other.address.load(Relaxed);
        (at, at.saturating_add(other.bytes.load(Relaxed)))
    });
    range.filter(|(at, end)| *at < low.saturating_add(bytes) && *end > low).collect()
}

fn entry<'a>(shared: &SharedPlan, compiled: &'a Compiled, n: usize) -> Option<Entry<'a>> {
    let placed = &shared.placed()[n];
    let rule = placed.rule.load(Relaxed) as usize;
    let of = shared.rules().get(rule)?;
    let (low, bytes) = (placed.address.load(Relaxed), placed.bytes.load(Relaxed));
    let (base, length) = (placed.base.load(Relaxed), placed.length.load(Relaxed));
    let node = placed.node.load(Relaxed);
    // The program may have written anything. And nobody said where it is to lie if its first user decides.
    let sound = low.is_multiple_of(PAGE) && bytes <= 1 << 46 && base <= low;
    if !sound || of.policy == wire::POLICY_FIRST_TOUCH && node < 0 {
        return None;
    }
    let nodes = compiled.nodes_of(rule);
    let unit = u64::from(of.page_bytes).max(PAGE);
    let mut borders = Vec::new();
    if node < 0 {
        let mut at = base;
        for run in lay(of, compiled.runs_of(rule), length.div_ceil(unit), unit) {
            at += run.pages * unit;
            borders.push((at, nodes.get(run.node as usize).copied()));
        }
    }
    let one = usize::try_from(node).ok().and_then(|node| nodes.get(node).copied());
    let mut pages: Vec<u64> = (0..bytes / PAGE).map(|page| low + page * PAGE).collect();
    if !is_label(shared, rule) {
        let named = labels_in(shared, placed.pid.load(Relaxed), low, bytes);
        pages.retain(|page| !named.iter().any(|(low, high)| (low..high).contains(&page)));
    }
    Some(Entry { rule, pages, nodes, borders, one })
}

/// Where the pages of an object lie; `None` if there is nobody to ask, or nothing to be right or wrong about.
pub(crate) fn read_one(shared: &SharedPlan, compiled: &Compiled, n: usize) -> Option<Reading> {
    let entry = entry(shared, compiled, n)?;
    let mut reading = Reading { rule: entry.rule, ..Reading::default() };
    query(shared.placed()[n].pid.load(Relaxed), &entry.pages, |page, is| {
        let is = is as u32;
        *(if entry.is_right(page, is) { &mut reading.pages.right } else { &mut reading.pages.elsewhere }) += 1;
        *reading.by_node.entry(is).or_default() += 1;
    })
    .ok()?;
    reading.pages.unused = entry.pages.len() as u64 - reading.pages.present();
    Some(reading)
}

/// What it takes to bring an object's pages where they should be.
pub(crate) struct Moves {
    /// Pages, and their nodes.
    pub pages: Vec<(u64, i32)>,
    /// Pages in the midst of which a huge page would have to be on two nodes.
    pub borders: Vec<u64>,
}

/// Pages of an object that lie where they should not.
pub(crate) fn misplaced(shared: &SharedPlan, compiled: &Compiled, n: usize) -> Option<Moves> {
    const HUGE: u64 = 2 << 20;
    let entry = entry(shared, compiled, n)?;
    let turns = matches!(shared.rules()[entry.rule].policy, wire::POLICY_INTERLEAVE | wire::POLICY_WEIGHTED);
    let mut moves = Vec::new();
    query(shared.placed()[n].pid.load(Relaxed), &entry.pages, |page, is| {
        let number = (page / PAGE) as usize;
        let wanted = match (entry.one.is_some() || !entry.borders.is_empty(), entry.nodes) {
            (true, _) => entry.node_of(page),
            (false, []) => None,
            // In turns, as a fresh mapping would have it.
            (false, nodes) if turns => Some(nodes[number % nodes.len()]),
            (false, nodes) if nodes.contains(&(is as u32)) => None,
            (false, nodes) => Some(nodes[number % nodes.len()]),
        };
        moves.extend(wanted.filter(|&wanted| wanted != is as u32).map(|wanted| (page, wanted as i32)));
    })
    .ok()?;
    let (first, last) = (*entry.pages.first()?, *entry.pages.last()?);
    let borders = match turns {
        true => (first / HUGE..=last / HUGE).map(|huge| (huge * HUGE).max(first)).collect(),
        false => {
            let ends = entry.borders.iter().map(|(end, _)| *end);
            ends.filter(|end| (first..=last).contains(end) && !end.is_multiple_of(HUGE)).collect()
        }
    };
    Some(Moves { pages: moves, borders })
}
