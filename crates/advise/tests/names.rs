//! Plans call objects by names that survive a build anew, and place them within what nodes and pages allow.

mod common;

use std::path::Path;

use common::{PAGE, machine, object, usage};
use numamma_advise::{Affinity, Options, Pages, ThreadPlacement, plan, predict};
use numamma_findings::{CallSite, MemorySource, Usage, Verdict};
use numamma_plan::{Plan, Policy, Site, Target};

/// Objects that 8 threads use in blocks and T0 has set up.
fn blocks(names: &[&str]) -> Usage {
    let mut counts = usage(8, MemorySource::CacheModel);
    for name in names {
        object(&mut counts, name, 512, |_| 0, |page| vec![((page / 64) as usize, 1e3)]);
    }
    counts
}

/// The plan of a run on two nodes, and what its text reads back as.
fn planned(counts: &Usage) -> (numamma_advise::PlanAdvice, Plan) {
    let advice = plan(counts, &machine(2), &Options::default()).expect("a plan");
    let text = &advice.findings.toml;
    let mut again = Plan::parse(text, Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    again.objects.iter_mut().for_each(|object| object.line = 0);
    again.pin_line = 0;
    assert_eq!(again, advice.plan);
    (advice, again)
}

#[test]
fn variables_have_their_module() {
    let mut counts = blocks(&["grid", "grid", "part"]);
    for (object, module) in counts.objects.iter_mut().zip(["libleft.so", "libright.so", "solver"]) {
        (object.kind, object.site, object.module) = ("static".into(), None, Some(module.into()));
    }
    counts.objects[2].name = "/cvar/ part".into();
    let (_, plan) = planned(&counts);
    assert_eq!(plan.objects[0].target, Target::Static("grid".into()));
    let modules: Vec<&str> = plan.objects.iter().filter_map(|object| object.module.as_deref()).collect();
    assert_eq!(modules, ["libleft.so", "libright.so", "solver"]);
    // Two of one name in one module cannot be told apart, so neither is placed.
    counts.objects[1].module = Some("libleft.so".into());
    let (advice, plan) = planned(&counts);
    assert_eq!(plan.objects.len(), 1);
    assert_eq!(advice.findings.objects[0].verdict, Verdict::Unplaceable);
    assert!(
        advice.findings.objects[0]
            .diagnosis
            .contains("no plan can place it: it has no name that tells it from other objects"),
        "{}",
        advice.findings.objects[0].diagnosis
    );
}

#[test]
fn places_have_callers_where_they_need_them() {
    let mut counts = blocks(&["left", "right", "plain"]);
    for (object, caller) in counts.objects.iter_mut().zip(["build_left tree.c:5", "build_right tree.c:9"]) {
        let site = CallSite {
            function: "make".into(),
            file: "/home/user/tree.c".into(),
            line: 3,
            via: "pool_alloc".into(),
            stack: vec!["pool_alloc pool.c:7".into(), "make tree.c:3".into(), caller.into(), "main tree.c:20".into()],
        };
        object.site = Some(site);
    }
    counts.objects[2].site = Some(CallSite { stack: vec!["libplain.so+0x1f".into()], ..CallSite::default() });
    let (_, plan) = planned(&counts);
    let place = Site::Source { function: Some("make".into()), line: Some(("tree.c".into(), 3)) };
    assert_eq!(plan.objects[0].target, Target::Heap(Some(place)));
    let callers: Vec<String> =
        plan.objects.iter().flat_map(|object| &object.callers).map(ToString::to_string).collect();
    assert_eq!(callers, ["build_left tree.c:5", "build_right tree.c:9"]);
    assert_eq!(plan.objects[2].target, Target::Heap(Some(Site::Address("libplain.so".into(), 0x1f))));
    assert_eq!(plan.wrappers, ["pool_alloc"]);
}

/// What users write into names ends no comment.
#[test]
fn hostile_names_stay_in_their_lines() {
    let mut counts = blocks(&["x\npolicy = \"bind\"\n[[object]]"]);
    counts.objects[0].site = Some(CallSite { function: "f\"g".into(), ..CallSite::default() });
    counts.objects[0].first_touch[0].function = "a\n]]\nb".into();
    let advice = plan(&counts, &machine(2), &Options::default()).expect("a plan");
    // Names of plans are of one line.
    let parsed = Plan::parse(&advice.findings.toml, Path::new(""))
        .unwrap_or_else(|error| panic!("{error}\n{}", advice.findings.toml));
    assert_eq!(parsed.objects.len(), 1);
}

#[test]
fn nodes_hold_what_is_placed_on_them() {
    let mut counts = usage(8, MemorySource::CacheModel);
    // Threads of node 1 alone use it.
    object(&mut counts, "table", 512, |_| 0, |page| vec![(4 + (page / 128) as usize, 1e3)]);
    let mut small = machine(2);
    small.contention.clear();
    let policy = |machine: &_| {
        plan(&counts, machine, &Options { threads: ThreadPlacement::Compact, ..Options::default() })
            .expect("a plan")
            .findings
            .objects[0]
            .policy
            .clone()
    };
    assert_eq!(policy(&small), "bind to node 1");
    small.nodes[1].memory_bytes = Some(300 * PAGE);
    assert_eq!(policy(&small), "interleave");
}

/// A huge page of blocks of many threads lies with one of them.
#[test]
fn huge_pages_are_placed_whole() {
    let counts = blocks(&["field"]);
    let local = |pages| {
        let options = Options { pages, ..Options::default() };
        let predicted = predict(&counts, &machine(2), &options).expect("predictions").candidates;
        1.0 - predicted.iter().find(|of| of.name == "by owner").expect("by owner").remote_share
    };
    // 512 pages are one huge page: four of the eight threads are local.
    assert_eq!((local(Pages::Small), local(Pages::Huge)), (1.0, 0.5));
    // One that begins in the middle of a huge page is in two.
    let mut shifted = counts.clone();
    shifted.objects[0].instances[0].huge_offset = 1 << 20;
    let options = Options { pages: Pages::Huge, ..Options::default() };
    let predicted = predict(&shifted, &machine(2), &options).expect("predictions").candidates;
    assert_eq!(predicted.iter().find(|of| of.name == "by owner").expect("by owner").remote_share, 0.0);
}

/// In a line of nodes the middle one is cheapest for both ends.
#[test]
fn homes_are_by_accesses_or_by_cost() {
    let mut line = machine(3);
    line.latency_ns = vec![vec![100.0, 150.0, 300.0], vec![150.0, 100.0, 150.0], vec![300.0, 150.0, 100.0]];
    line.contention.clear();
    let mut counts = usage(12, MemorySource::CacheModel);
    object(&mut counts, "ends", 128, |_| 0, |_| vec![(0, 50.0), (11, 49.0)]);
    let remote = |affinity| {
        let options = Options { affinity, ..Options::default() };
        let predicted = predict(&counts, &line, &options).expect("predictions").candidates;
        let owner = predicted.iter().find(|of| of.name == "by owner").expect("by owner");
        owner.nodes.iter().find(|node| node.share > 0.0).map(|node| node.node)
    };
    assert_eq!((remote(Affinity::MostAccesses), remote(Affinity::LeastCost)), (Some(0), Some(1)));
    assert!(matches!(
        plan(&counts, &line, &Options::default()).expect("a plan").plan.objects[0].policy,
        Policy::Bind(_)
    ));
}
