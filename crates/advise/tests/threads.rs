//! Predictions for another number of threads, and placements of threads.

mod common;

use common::{machine, object, timed, usage};
use numamma_advise::{Options, ThreadPlacement, plan, predict};
use numamma_findings::{MemorySource, Usage};
use numamma_plan::{Nodes, Policy};

/// Blocks, something shared and something of each thread, on `threads` threads; the work is the same for any number.
fn run(threads: usize) -> Usage {
    let mut counts = usage(threads, MemorySource::CacheModel);
    object(&mut counts, "field", 1024, |_| 0, |page| vec![((page as usize * threads / 1024), 1e3)]);
    object(&mut counts, "table", 512, |_| 0, |_| (0..threads).map(|thread| (thread, 600.0 / threads as f64)).collect());
    let mut timed = timed(&counts, 0.2 / threads as f64, 80.0);
    timed.threads[0].busy_s = timed.threads[0].busy_s.map(|busy| busy + 0.005);
    timed.phases[0].busy_s[0] += 0.005;
    timed.wall_s += 0.005;
    timed.phases[0].wall_s += 0.005;
    timed
}

fn time_s(usage: &Usage, options: &Options, name: &str) -> f64 {
    let predictions = predict(usage, &machine(4), options).expect("predictions");
    predictions.candidates.iter().find(|of| of.name == name).expect("a candidate").time_s
}

#[test]
fn other_numbers_of_threads_are_predicted_as_if_recorded() {
    for (recorded, count) in [(4, 16), (16, 4), (8, 12)] {
        let options = Options { thread_count: Some(count), ..Options::default() };
        for name in ["first touch", "interleave", "block", "by owner"] {
            let (guess, truth) =
                (time_s(&run(recorded), &options, name), time_s(&run(count), &Options::default(), name));
            assert!((guess / truth - 1.0).abs() < 0.05, "{recorded} -> {count}, {name}: {guess} of {truth}");
        }
        let advice = plan(&run(recorded), &machine(4), &options).expect("a plan");
        assert!(advice.findings.assumptions[0].contains(&format!("with {count} threads, recorded with {recorded}")));
    }
    let policies = |usage: &Usage, count| {
        let options = Options { thread_count: count, threads: ThreadPlacement::Compact, ..Options::default() };
        let plan = plan(usage, &machine(4), &options).expect("a plan").plan;
        plan.objects.into_iter().map(|object| object.policy).collect::<Vec<_>>()
    };
    assert_eq!(policies(&run(4), Some(16)), [Policy::Block(Nodes::All), Policy::Interleave(Nodes::All)]);
    assert!(predict(&run(4), &machine(4), &Options { thread_count: Some(0), ..Options::default() }).is_err());
}

#[test]
fn private_memory_does_not_extrapolate() {
    let mut counts = run(4);
    let field = counts.objects[0].instances.remove(0);
    for (thread, pages) in field.pages.chunks(256).enumerate() {
        let mut instance = field.clone();
        instance.instance = thread as u64;
        instance.bytes = 256 * 4096;
        instance.pages =
            pages.iter().zip(0..).map(|(page, n)| numamma_findings::PageUse { page: n, ..page.clone() }).collect();
        counts.objects[0].instances.push(instance);
    }
    let options = Options { thread_count: Some(8), ..Options::default() };
    let predictions = predict(&counts, &machine(4), &options).expect("predictions");
    assert!(
        predictions.assumptions.iter().any(|of| of.starts_with("field is private to its threads")),
        "{:?}",
        predictions.assumptions
    );
    // With as many threads as recorded, each node binds its threads' instances.
    let scatter = Options { threads: ThreadPlacement::Scatter, ..Options::default() };
    let advice = plan(&counts, &machine(4), &scatter).expect("a plan");
    let bound: Vec<_> = advice.plan.objects.iter().filter(|object| object.name.as_deref() == Some("field")).collect();
    assert_eq!(bound.len(), 4, "{}", advice.findings.toml);
    assert_eq!((bound[2].instances.clone(), &bound[2].policy), (2..=2, &Policy::Bind(Nodes::List(vec![2]))));
    let again = numamma_plan::Plan::parse(&advice.findings.toml, std::path::Path::new("")).expect("it reads back");
    assert_eq!(again.objects.len(), advice.plan.objects.len());
}

#[test]
fn threads_are_placed_node_by_node_or_in_turn() {
    // Four threads and one object each pair shares: near each other they share a node.
    let mut counts = usage(4, MemorySource::CacheModel);
    object(&mut counts, "left", 256, |_| 0, |_| vec![(0, 1e3), (2, 1e3)]);
    object(&mut counts, "right", 256, |_| 1, |_| vec![(1, 1e3), (3, 1e3)]);
    let mut pairs = machine(2);
    pairs.nodes.iter_mut().for_each(|node| node.cpus = 2);
    pairs.contention.clear();
    let advice = plan(&counts, &pairs, &Options::default()).expect("a plan");
    assert_eq!(advice.plan.pin, numamma_plan::Pin::Scatter, "{}", advice.findings.toml);
    assert_eq!(advice.findings.planned.remote_share, 0.0);
}

/// A table that two threads read at random, with a sample or none on most pages: it has no owners, and no node is its home.
#[test]
fn an_object_that_all_threads_share_is_shared_by_more_threads() {
    let bits = |page: u64| {
        let mixed = page.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
    };
    let mut counts = usage(2, MemorySource::Time);
    let uses = |page| match bits(page) % 8 {
        0..4 => vec![],
        n => vec![((n % 2) as usize, 1e4)],
    };
    object(&mut counts, "table", 4096, |_| 0, uses);
    let timed = timed(&counts, 1.0, 80.0);
    let options = Options { thread_count: Some(32), threads: ThreadPlacement::Scatter, ..Options::default() };
    let advice = plan(&timed, &machine(8), &options).expect("a plan");
    let policies: Vec<_> = advice.plan.objects.iter().map(|object| object.policy.clone()).collect();
    assert_eq!(policies, [Policy::Interleave(Nodes::All)], "{}", advice.findings.toml);
}

/// The main thread creates four others, which do the work in blocks.
#[test]
fn a_thread_that_waits_for_the_others_stays_one() {
    let mut counts = usage(5, MemorySource::CacheModel);
    object(&mut counts, "field", 1024, |_| 0, |page| vec![(1 + page as usize / 256, 1e3)]);
    let mut run = timed(&counts, 0.2, 80.0);
    run.threads[0].busy_s = Some(0.001);
    run.phases[0].busy_s[0] = 0.001;
    run.phases.push(numamma_findings::PhaseUse { name: "serial".into(), wall_s: 0.1, busy_s: vec![0.1] });
    let options = Options { thread_count: Some(17), threads: ThreadPlacement::Compact, ..Options::default() };
    let advice = plan(&run, &machine(4), &options).expect("a plan");
    assert!(advice.findings.objects[0].diagnosis.contains("used by 16 threads"), "{}", advice.findings.toml);
}
