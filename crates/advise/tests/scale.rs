//! Large recordings take time and memory in proportion to the uses of pages that they list.

mod common;

use std::time::Instant;

use common::{amd48, machine, object, usage};
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

/// 10^6 pages, 256 threads, 16 nodes: by hand, `cargo test --release -p numamma-advise --test scale -- --ignored --nocapture`.
#[test]
#[ignore = "takes seconds in a release build and is a matter of the machine"]
fn a_million_pages() {
    seconds(1_000_000, 256, 16);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    assert_eq!(amd48().nodes.len(), 8);
}
