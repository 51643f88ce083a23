//! How far the counts of two recordings of the same work are apart, object by object and in the parts of each object.
//!
//! The measure is total variation: half the sum of all differences between the shares of all accesses that the parts have. 0: all
//! parts have the same shares; 1: they have nothing in common. Finer parts are never less far apart than coarser ones.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Run;
use crate::comparison::Comparison;

/// An object is divided into no more ranges of pages than this.
pub const RANGES: u64 = 64;

/// Total variation (0..1) between shares of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variation {
    /// By object.
    pub objects: f64,
    /// By object and thread.
    pub threads: f64,
    /// By object and range of pages: of [`RANGES`], or page where it has fewer.
    pub ranges: f64,
}

/// What of a report says who made which accesses where.
#[derive(Debug, Deserialize)]
pub struct Counts {
    objects: Vec<Object>,
    pages: Vec<Page>,
}

#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    accesses: Accesses,
    threads: Vec<Thread>,
}

#[derive(Debug, Deserialize)]
struct Accesses {
    #[serde(deserialize_with = "crate::report::number_if_stated")]
    share: f64,
}

#[derive(Debug, Deserialize)]
struct Thread {
    thread: u64,
    #[serde(deserialize_with = "crate::report::number_if_stated")]
    access_share: f64,
}

#[derive(Debug, Deserialize)]
struct Page {
    object: usize,
    page: u64,
    page_basis: String,
    by_thread: BTreeMap<String, f64>,
}

/// Shares by part of one object.
type Parts = BTreeMap<u64, f64>;

impl Counts {
    /// Those of a recording.
    #[track_caller]
    pub fn of(dataset: &Path) -> Counts {
        let run = Run::report(dataset).args(["--by", "page", "--top", "0", "--format", "json"]).run().success();
        serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("the JSON report: {e}\n{run}"))
    }

    fn by_thread(&self, id: usize) -> Parts {
        let object = &self.objects[id];
        object.threads.iter().map(|of| (of.thread, object.accesses.share * of.access_share)).collect()
    }

    /// By page; `None` where pages cannot be found in another recording: of many small objects, and of stacks and thread-local
    /// memory, which begin elsewhere in each run.
    fn by_page(&self, id: usize) -> Option<Parts> {
        let object = &self.objects[id];
        let mut pages = self.pages.iter().filter(|page| page.object == id).peekable();
        if pages.peek()?.page_basis != "offset" || matches!(object.kind.as_str(), "stack" | "tls") {
            return None;
        }
        let pages: Parts = pages.map(|page| (page.page, page.by_thread.values().sum())).collect();
        let all: f64 = pages.values().sum();
        (all > 0.0).then(|| pages.into_iter().map(|(page, n)| (page, object.accesses.share * n / all)).collect())
    }
}

/// How far two recordings are apart. Threads have the same numbers in both: those of one process, in the order of their creation.
pub fn variation(a: &Counts, b: &Counts, comparison: &Comparison) -> Variation {
    let mut sum = Variation::default();
    for object in &comparison.objects {
        let (in_a, in_b) = (object.matched.a, object.matched.b);
        let (share_a, share_b) = (a.objects[in_a].accesses.share, b.objects[in_b].accesses.share);
        sum.objects += (share_b - share_a).abs();
        sum.threads += apart(&a.by_thread(in_a), &b.by_thread(in_b));
        sum.ranges += match a.by_page(in_a).zip(b.by_page(in_b)) {
            Some((a, b)) => {
                let pages = a.keys().chain(b.keys()).max().map_or(0, |last| last + 1);
                apart(&in_ranges(&a, pages), &in_ranges(&b, pages))
            }
            None => (share_b - share_a).abs(),
        };
    }
    let alone: f64 = comparison.only_a.iter().chain(&comparison.only_b).map(|object| object.accesses.share).sum();
    Variation {
        objects: (sum.objects + alone) / 2.0,
        threads: (sum.threads + alone) / 2.0,
        ranges: (sum.ranges + alone) / 2.0,
    }
}

/// The sum of the differences.
fn apart(a: &Parts, b: &Parts) -> f64 {
    let of_a = a.iter().map(|(part, share)| (b.get(part).unwrap_or(&0.0) - share).abs());
    let of_b = b.iter().filter(|(part, _)| !a.contains_key(part)).map(|(_, share)| *share);
    of_a.chain(of_b).sum()
}

fn in_ranges(by_page: &Parts, pages: u64) -> Parts {
    let mut ranges = Parts::new();
    for (page, share) in by_page {
        let range = if pages > RANGES { page * RANGES / pages } else { *page };
        *ranges.entry(range).or_default() += share;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(share: f64, threads: [f64; 2]) -> Value {
        let threads = [0, 1].map(|thread| json!({"thread": thread, "access_share": threads[thread]}));
        json!({"kind": "heap", "accesses": {"share": share}, "threads": threads})
    }

    fn page(page: u64, accesses: f64, basis: &str) -> Value {
        json!({"object": 0, "page": page, "page_basis": basis, "by_thread": {"0": accesses}})
    }

    fn counts(object: Value, pages: Vec<Value>) -> Counts {
        serde_json::from_value(json!({"objects": [object], "pages": pages})).expect("as in a report")
    }

    /// The two have one object in common and `alone` of the accesses in one that the other has not.
    fn between(a: &Counts, b: &Counts, alone: f64) -> Variation {
        let zero = json!({"a": 0.0, "b": 0.0});
        let recording = json!({"complete": true, "threads": 2, "data_samples": 1, "matched_cost": 1.0});
        let comparison = json!({
            "version": 1, "a": recording, "b": recording, "more_a": [], "more_b": [], "notes": [], "total": {"cost": zero, "wall": zero, "wall_time": zero},
            "comparable": {"cost": false, "accesses": true, "counts": false, "remote": false, "pages": true},
            "objects": [{
                "name": "x", "kind": "heap", "matched": {"by": "address", "a": 0, "b": 0},
                "cost": {"seconds": zero, "share": zero}, "accesses": {"share": zero, "basis": {}},
            }],
            "only_a": [],
            "only_b": [{
                "name": "y", "cost": {"seconds": 0.0, "share": 0.0},
                "accesses": {"reads": 1.0, "writes": 0.0, "share": alone},
            }],
        });
        variation(a, b, &serde_json::from_value(comparison).expect("as `numamma compare` writes it"))
    }

    #[test]
    fn parts_that_differ_in_opposite_ways_show_only_by_part() {
        let a = counts(object(1.0, [0.5, 0.5]), vec![page(0, 3.0, "offset"), page(9, 1.0, "offset")]);
        let b = counts(object(1.0, [0.7, 0.3]), vec![page(0, 1.0, "offset"), page(9, 1.0, "offset")]);
        let of = between(&a, &b, 0.0);
        let expected = Variation { objects: 0.0, threads: 0.2, ranges: 0.25 };
        for (of, expected) in
            [(of.objects, expected.objects), (of.threads, expected.threads), (of.ranges, expected.ranges)]
        {
            assert!((of - expected).abs() < 1e-12, "{of} {expected}");
        }
        assert_eq!(between(&a, &a, 0.0), Variation::default());
    }

    #[test]
    fn what_only_one_has_counts_in_all_ways() {
        let a = counts(object(1.0, [0.5, 0.5]), vec![page(0, 1.0, "offset")]);
        let b = counts(object(0.6, [0.5, 0.5]), vec![page(0, 7.0, "offset")]);
        let of = between(&a, &b, 0.4);
        for part in [of.objects, of.threads, of.ranges] {
            assert!((part - 0.4).abs() < 1e-12, "{of:?}");
        }
    }

    #[test]
    fn neighbouring_pages_of_a_large_object_are_one_range() {
        let a = counts(object(1.0, [1.0, 0.0]), vec![page(0, 1.0, "offset"), page(6399, 1.0, "offset")]);
        let b = counts(object(1.0, [1.0, 0.0]), vec![page(99, 1.0, "offset"), page(6399, 1.0, "offset")]);
        assert_eq!(between(&a, &b, 0.0).ranges, 0.0);
        let c = counts(object(1.0, [1.0, 0.0]), vec![page(100, 1.0, "offset"), page(6399, 1.0, "offset")]);
        assert_eq!(between(&a, &c, 0.0).ranges, 0.5);
    }

    #[test]
    fn pages_of_small_objects_are_not_compared() {
        let a = counts(object(1.0, [1.0, 0.0]), vec![page(0, 1.0, "address")]);
        let b = counts(object(1.0, [1.0, 0.0]), vec![page(1, 1.0, "address")]);
        assert_eq!(between(&a, &b, 0.0).ranges, 0.0);
    }
}
