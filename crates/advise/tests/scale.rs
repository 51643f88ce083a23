//! Large recordings take time and memory in proportion to the uses of pages that they list.

mod common;

use std::time::Instant;

use common::{machine, object, usage};
use numamma_advise::{Options, plan, predict};
use numamma_findings::{MemorySource, Usage};

/// Two objects of half the pages each: blocks, and one that all share, of which each page was seen with four threads.
fn large(pages: u64, threads: usize) -> Usage {
    let mut counts = usage(threads, MemorySource::Hardware);
    let half = pages / 2;
    object(&mut counts, "field", half, |_| 0, |page| vec![((page * threads as u64 / half) as usize, 50.0)]);
    let user = |page: u64, n: u64| ((page * 2_654_435_761 + n * 40_503) % threads as u64) as usize;
    object(&mut counts, "table", half, |_| 0, |page| (0..4).map(|n| (user(page, n), 12.0)).collect());
    counts
}

fn seconds(pages: u64, threads: usize, nodes: usize) -> f64 {
    let counts = large(pages, threads);
    let start = Instant::now();
    let advice = plan(&counts, &machine(nodes), &Options::default()).expect("a plan");
    let planned = start.elapsed().as_secs_f64();
    assert_eq!(advice.plan.objects.len(), 2);
    predict(&counts, &machine(nodes), &Options::default()).expect("predictions");
    println!(
        "{pages} pages, {threads} threads, {nodes} nodes: plan {planned:.2} s, predict {:.2} s",
        start.elapsed().as_secs_f64() - planned
    );
    start.elapsed().as_secs_f64()
}

/// Four times the pages take no more than seven times as long: linear with room for noise, and far from sixteen.
#[test]
fn time_grows_with_pages() {
    let fastest = |pages| (0..3).map(|_| seconds(pages, 64, 8)).fold(f64::INFINITY, f64::min);
    let (quarter, whole) = (fastest(1 << 14), fastest(1 << 16));
    assert!(whole < 7.0 * quarter.max(0.05), "{whole} s after {quarter} s");
}

/// The form of the bench `planning`, which takes a million pages: 256 threads, 16 nodes.
#[test]
fn many_threads_and_nodes() {
    let counts = large(1 << 15, 256);
    let advice = plan(&counts, &machine(16), &Options::default()).expect("a plan");
    let of = |name: &str| advice.findings.objects.iter().find(|object| object.name == name).expect("the object");
    // Threads go round the nodes, and each has 64 pages of the one; every node has a part of the other.
    assert_eq!((of("field").policy.as_str(), of("table").policy.as_str()), ("block-cyclic, 256 KiB", "interleave"));
    assert!(of("field").local_by_owner > 0.99, "{:?}", of("field"));
    // The first of a page's four users runs on the node that interleaving gives the page.
    assert_eq!(of("table").local_interleaved, 0.25, "{:?}", of("table"));
    let (now, planned) = (advice.findings.now.time_s, advice.findings.planned.time_s);
    assert!(planned < now, "{planned} s instead of {now} s");
    let predictions = predict(&counts, &machine(16), &Options::default()).expect("predictions");
    assert!(predictions.candidates.iter().all(|of| of.time_s.is_finite() && of.time_s > 0.0), "{predictions:?}");
}
