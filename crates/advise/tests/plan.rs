//! Plans for runs whose best placement is plain.

mod common;

use std::path::Path;

use common::{PAGE, machine, object, timed, usage};
use numamma_advise::{Options, ThreadPlacement, plan, predict};
use numamma_findings::{MemorySource, Verdict};
use numamma_plan::{Gather, Nodes, Pin, Plan, Policy, Target};

/// What the text says, without lines.
fn read_back(toml: &str) -> Plan {
    let mut plan = Plan::parse(toml, Path::new("")).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    plan.objects.iter_mut().for_each(|object| object.line = 0);
    plan.pin_line = 0;
    plan
}

/// T0 sets up two objects: one that 16 threads use in blocks, one that all use.
#[test]
fn blocks_and_what_is_shared() {
    let mut counts = usage(16, MemorySource::CacheModel);
    object(&mut counts, "field", 1024, |_| 0, |page| vec![((page / 64) as usize, 1000.0)]);
    object(&mut counts, "table", 512, |_| 0, |_| (0..16).map(|thread| (thread, 40.0)).collect());
    let advice = plan(&counts, &machine(4), &Options::default()).expect("a plan");
    println!("{}", advice.findings.toml);
    let policies: Vec<&Policy> = advice.plan.objects.iter().map(|object| &object.policy).collect();
    assert_eq!(policies, [&Policy::Block(Nodes::All), &Policy::Interleave(Nodes::All)]);
    assert!(
        matches!(&advice.plan.objects[0].target, Target::Heap(Some(site)) if site.to_string() == "make_field solver.c:10")
    );
    assert_eq!(read_back(&advice.findings.toml), advice.plan);
    let field = &advice.findings.objects[0];
    assert_eq!((field.verdict, field.local_now, field.local_by_owner), (Verdict::Advised, 0.25, 1.0));
    assert!(
        field
            .diagnosis
            .contains("field is set up by T0 in init() at solver.c:31 and used by 16 threads in blocks of 1 MiB")
    );
    assert!(field.diagnosis.contains("of which 75 % would be remote on 4 nodes"), "{}", field.diagnosis);

    // Under the plan, the prediction is the plan's own.
    let options = Options { plan: Some(advice.plan.clone()), ..Options::default() };
    let predicted = predict(&counts, &machine(4), &options).expect("predictions").candidates;
    let of = |name: &str| predicted.iter().find(|of| of.name == name).expect("a candidate").time_s;
    assert!((of("plan") / advice.findings.planned.time_s - 1.0).abs() < 1e-9);
    assert!(of("plan") <= of("block") && of("block") < of("first touch") && of("plan") < of("interleave"));
}

/// Nodes of a tree that all threads search, and its index, are allocated on one line: the nodes are gathered, which the size tells apart.
#[test]
fn small_blocks_are_gathered() {
    let mut counts = usage(16, MemorySource::CacheModel);
    let all = |accesses: f64| move |_| (0..16).map(|thread| (thread, accesses)).collect();
    object(&mut counts, "nodes", 1024, |_| 0, all(60.0));
    object(&mut counts, "index", 1024, |_| 0, all(30.0));
    object(&mut counts, "others", 1024, |_| 0, all(60.0));
    for (object, blocks) in counts.objects.iter_mut().zip([100_000, 0, 50_000]) {
        object.site.as_mut().expect("a site").function = "make".into();
        object.site.as_mut().expect("a site").line = 10;
        object.instances[0].blocks = blocks;
    }
    let advice = plan(&counts, &machine(4), &Options::default()).expect("a plan");
    let rules: Vec<_> = advice.plan.objects.iter().map(|rule| (&rule.policy, rule.gather)).collect();
    let gathered = (&Policy::Block(Nodes::All), Some(Gather::ByInstance(150_000)));
    assert_eq!(rules, [gathered, (&Policy::Interleave(Nodes::All), None)], "{}", advice.findings.toml);
    let options = Options { plan: Some(advice.plan.clone()), ..Options::default() };
    let predicted = predict(&counts, &machine(4), &options).expect("predictions").candidates;
    let of = |name: &str| predicted.iter().find(|of| of.name == name).expect("a candidate");
    assert!((of("plan").time_s / advice.findings.planned.time_s - 1.0).abs() < 1e-9);
    // One policy for all objects leaves small blocks where they are touched first.
    assert!(of("plan").time_s < of("interleave").time_s && of("interleave").time_s < of("first touch").time_s);
}

#[test]
fn what_lies_well_is_left() {
    let mut counts = usage(16, MemorySource::CacheModel);
    object(&mut counts, "field", 1024, |page| (page / 64) as usize, |page| vec![((page / 64) as usize, 1000.0)]);
    let advice = plan(&counts, &machine(4), &Options::default()).expect("a plan");
    assert!(advice.plan.objects.is_empty(), "{}", advice.findings.toml);
    assert_eq!(advice.findings.objects[0].verdict, Verdict::Right);
}

/// A prediction of the run as it was is the run as it was.
#[test]
fn the_recorded_run_is_predicted_as_it_was() {
    let mut counts = usage(4, MemorySource::CacheModel);
    object(&mut counts, "field", 512, |_| 0, |page| vec![((page / 128) as usize, 1e6)]);
    let times = timed(&counts, 5.0, 80.0);
    let one = machine(1);
    let options = Options { recorded: Some(one.clone()), ..Options::default() };
    let predicted = predict(&times, &one, &options).expect("predictions");
    let first = &predicted.candidates[0];
    assert_eq!(first.name, "as recorded");
    assert!((first.time_s / times.wall_s - 1.0).abs() < 1e-4, "{} of {}", first.time_s, times.wall_s);
    assert_eq!(PAGE, times.page_bytes);
}

/// Two arrays of one line have one name in a plan: one rule if both are to lie alike, else none.
#[test]
fn arrays_of_one_line_are_placed_together() {
    let both = |second: fn(u64) -> usize| {
        let mut counts = usage(4, MemorySource::CacheModel);
        object(&mut counts, "a", 1024, |_| 0, |page| vec![((page / 256) as usize, 1e5)]);
        object(&mut counts, "b", 1024, |_| 0, move |page| vec![(second(page), 9e4)]);
        let site = counts.objects[0].site.clone();
        counts.objects[1].site = site;
        plan(&counts, &machine(4), &Options::default()).expect("a plan")
    };
    let alike = both(|page| (page / 256) as usize);
    let [rule] = &alike.plan.objects[..] else { panic!("{:#?}", alike.plan.objects) };
    assert_eq!(rule.name.as_deref(), Some("a, b"));
    assert!(alike.findings.planned.remote_share < 0.01, "{:?}", alike.findings.planned);
    assert_eq!(read_back(&alike.findings.toml), alike.plan);
    let apart = both(|page| 3 - (page / 256) as usize);
    assert!(apart.plan.objects.is_empty(), "{:#?}", apart.plan.objects);
    // What is not placed brings nothing.
    assert!(apart.findings.planned.remote_share > 0.7, "{:?}", apart.findings.planned);
    assert!(apart.findings.objects.iter().all(|object| object.verdict == Verdict::Unplaceable));
}

/// Every page that is used is in one bin, where the layouts put it.
#[test]
fn the_map_counts_each_page() {
    let mut counts = usage(16, MemorySource::CacheModel);
    object(&mut counts, "field", 1024, |_| 0, |page| vec![((page / 64) as usize, 1000.0)]);
    object(&mut counts, "rare", 16, |_| 0, |_| vec![(0, 1.0)]);
    let map = plan(&counts, &machine(4), &Options::default()).expect("a plan").map;
    assert_eq!(map.threads.len(), 16);
    assert!(map.threads.iter().all(|thread| thread.planned == thread.thread / 4));
    let [field] = &map.objects[..] else { panic!("an object that hardly matters is drawn: {map:?}") };
    assert_eq!((field.pages, field.bin_pages, field.now.len()), (1024, 4, 256));
    assert!(field.now.iter().all(|bin| *bin == [(0, 4)]));
    assert!((0..256).all(|bin| field.planned[bin] == [(bin / 64, 4)]));
}

/// Processes that ran at once are predicted together, one after the other are not; nobody pins threads of several.
#[test]
fn processes_that_ran_at_once_are_one_run() {
    let mut counts = usage(5, MemorySource::CacheModel);
    object(&mut counts, "table", 1024, |_| 0, |_| (1..5).map(|thread| (thread, 100.0)).collect());
    for (n, thread) in counts.threads.iter_mut().enumerate() {
        (thread.process, thread.from_s, thread.to_s) = (n, if n == 0 { 0.0 } else { 1.0 }, 10.0);
    }
    let options = Options { threads: ThreadPlacement::Scatter, ..Options::default() };
    let at_once = plan(&counts, &machine(4), &options).expect("a plan");
    assert_eq!(at_once.plan.objects[0].policy, Policy::Interleave(Nodes::All));
    assert_eq!((at_once.plan.pin.clone(), at_once.findings.now.remote_share), (Pin::Free, 0.75));
    assert!(at_once.findings.notes.is_empty(), "{:?}", at_once.findings.notes);
    let says = |assumption: &String| assumption.contains("4 processes ran at once");
    assert!(at_once.findings.assumptions.iter().any(says), "{:?}", at_once.findings.assumptions);
    assert_eq!(predict(&counts, &machine(4), &Options::default()).expect("predictions").threads, 4);

    // Threads may run on any node, so that nothing can be bound to the node of its users.
    let mut owned = usage(4, MemorySource::CacheModel);
    object(&mut owned, "blocks", 1024, |_| 0, |page| vec![((page / 256) as usize, 100.0)]);
    for (n, thread) in owned.threads.iter_mut().enumerate() {
        (thread.process, thread.to_s) = (n, 10.0);
    }
    let policy = |threads| {
        let options = Options { threads, ..Options::default() };
        plan(&owned, &machine(4), &options).expect("a plan").plan.objects[0].policy.clone()
    };
    assert_eq!(policy(ThreadPlacement::Best), Policy::Interleave(Nodes::All));
    assert_eq!(policy(ThreadPlacement::Scatter), Policy::Block(Nodes::All));

    for (n, thread) in counts.threads.iter_mut().enumerate() {
        (thread.from_s, thread.to_s) = (n as f64, n as f64 + 1.0);
    }
    let in_turn = plan(&counts, &machine(4), &options).expect("a plan");
    let expected = "The only thread has room on node 0, which has 4 CPUs: there, all memory is local.";
    assert_eq!(in_turn.findings.notes, [expected]);
}
