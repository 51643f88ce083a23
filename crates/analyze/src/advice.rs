//! Advice about objects whose pages one thread touched first and other threads use.
//!
//! The measure is taken page by page: samples of other threads than the one that touched the page first, as a share of the
//! samples at pages whose first touch is known. So four buffers that four threads allocate at one line, touch and use
//! are no finding, although each thread uses only a quarter of them together.

use numamma_findings::{Advice, Pattern};
use numamma_trace::ObjectKind;
use rustc_hash::FxHashMap;

use crate::detail::{GroupPage, TouchPlace, distinct, touch_place};
use crate::groups::Group;
use crate::instances::Shared;
use crate::statistics::{interval, ratio};
use crate::summary::Tables;

/// Share of the samples that must be at pages which another thread touched first, as its interval's lower end.
const FOREIGN: f64 = 0.25;
/// An object with fewer bytes of pages fits into a second-level cache (256 KiB on Intel's server cores before Skylake), so
/// that the place of its pages hardly matters.
const CACHED_BYTES: u64 = 256 << 10;
/// Where the pages of smaller instances lie is up to the allocator, which hands them out again and again.
const PLACED_BYTES: u64 = 64 << 10;
/// Share of an object's pages on one node, from which on they are not spread.
const ONE_NODE: f64 = 0.75;
/// The main thread's share of a page from which on it is worth while to let that thread place it.
const MAIN: f64 = 0.65;

/// Pages and samples of a toucher that others use.
#[derive(Default)]
struct Foreign {
    samples: u64,
    /// Samples by the place of the touch.
    places: FxHashMap<TouchPlace, u64>,
}

/// The advice for a group, if there is any. `interrupts`: that show an access to it.
pub fn advice(tables: &Tables, group: &Group, interrupts: u64, pages: &[GroupPage], shared: &Shared) -> Option<Advice> {
    if group.kind == ObjectKind::Stack || group.is_unknown_objects() || is_spread(pages) {
        return None;
    }
    if distinct(pages) * tables.page_bytes < CACHED_BYTES || (group.touched > 1 && group.bytes < PLACED_BYTES) {
        return None;
    }
    let (mut foreign, mut known, mut recycled) = (0, 0, 0);
    let mut touchers: FxHashMap<i32, Foreign> = FxHashMap::default();
    for page in pages {
        let (Some(touch), samples) = (page.first_touch, page.users.samples()) else { continue };
        // The worker that touched it, in whichever of its threads.
        let toucher = tables.worker(touch.thread);
        let own: u64 =
            page.users.threads.iter().filter(|of| tables.worker(of.thread) == toucher).map(|of| of.samples).sum();
        let others = samples - own;
        known += samples;
        foreign += others;
        recycled += if page.recycled { others } else { 0 };
        if others > 0 {
            let toucher = touchers.entry(touch.thread).or_default();
            toucher.samples += others;
            *toucher.places.entry(touch_place(tables, &touch)).or_default() += others;
        }
    }
    // Pages of one interrupt are one trial.
    let all: u64 = pages.iter().map(|page| page.users.samples()).sum();
    let each = ratio(interrupts as f64, all as f64);
    if interval(foreign as f64 * each, known as f64 * each).0 < FOREIGN {
        return None;
    }
    let (&thread, toucher) = touchers.iter().max_by_key(|(thread, of)| (of.samples, std::cmp::Reverse(**thread)))?;
    let by_place = |a: &(&TouchPlace, &u64), b: &(&TouchPlace, &u64)| a.1.cmp(b.1).then(b.0.cmp(a.0));
    let (place, _) = toucher.places.iter().max_by(by_place)?;
    let share = ratio(foreign as f64, known as f64);
    let is_recycled = 2 * recycled > foreign;
    if group.kind == ObjectKind::Tls {
        return Some(Advice {
            kind: "allocate-in-user".into(),
            text: format!(
                "the C library zeroes thread-local memory in the thread that creates the others: T{thread} touches its pages first, but other threads use them: \
                 let each thread allocate a buffer of this size itself"
            ),
            thread: thread.max(0) as usize,
            function: String::new(),
            file: String::new(),
            line: 0,
            share,
        });
    }
    let (kind, remedy) = remedy(&shared.whole, group.touched > 1, is_recycled)?;
    let at = match (place, is_recycled) {
        ((function, ..), _) if function.is_empty() => String::new(),
        ((function, _, 0, _), false) => format!(" (in {})", crate::groups::short_function(function)),
        ((function, file, line, _), false) => {
            format!(" ({} {}:{line})", crate::groups::short_function(function), crate::groups::file_name(file))
        }
        (_, true) => " (as memory of earlier objects)".to_owned(),
    };
    let several =
        if touchers.len() > 1 && (toucher.samples as f64) < 0.9 * foreign as f64 { " and others" } else { "" };
    let verb = if several.is_empty() { "touches" } else { "touch" };
    Some(Advice {
        kind: kind.into(),
        text: format!("T{thread}{several} {verb} its pages first{at}, but other threads use them: {remedy}"),
        thread: thread.max(0) as usize,
        function: place.0.clone(),
        file: place.1.clone(),
        line: place.2.max(0) as u32,
        share,
    })
}

/// The remedy for a pattern: its kind, and a clause that says it.
fn remedy(pattern: &Pattern, several: bool, recycled: bool) -> Option<(&'static str, &'static str)> {
    if recycled && pattern.kind != "unknown" {
        return Some((
            "plan",
            "the memory is recycled, so the place is decided before this object exists; place it by a plan",
        ));
    }
    match pattern.kind.as_str() {
        "private" if several => {
            Some(("initialise-in-user", "let the thread that uses an instance allocate and initialise it"))
        }
        "private" => Some(("initialise-in-user", "let the thread that uses it initialise it")),
        "block" | "block-cyclic" => Some(("initialise-in-parallel", "let each thread initialise the part it uses")),
        "mixed" if pattern.main_share >= MAIN => {
            Some(("initialise-in-parallel", "let the main user of each page initialise it, or interleave"))
        }
        // Some instances have one thread, others are shared: no one remedy fits.
        "mixed" if several && pattern.main_share == 0.0 => None,
        "shared" | "mixed" => Some(("interleave", "all threads use all of it; interleave its pages")),
        _ => None,
    }
}

/// Whether its pages lie on several nodes already.
fn is_spread(pages: &[GroupPage]) -> bool {
    let mut nodes: FxHashMap<i32, u64> = FxHashMap::default();
    for node in pages.iter().filter_map(|page| page.node) {
        *nodes.entry(node).or_default() += 1;
    }
    let all: u64 = nodes.values().sum();
    all > 0 && (nodes.values().max().copied().unwrap_or(0) as f64) < ONE_NODE * all as f64
}
