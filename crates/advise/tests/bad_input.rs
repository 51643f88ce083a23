//! What cannot be predicted or planned is said in one line.

mod common;

use common::{machine, object, timed, usage};
use numamma_advise::{Options, ThreadPlacement, plan, predict};
use numamma_findings::{MemorySource, Usage};
use numamma_topology::MachineModel;

fn serial() -> Usage {
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "field", 512, |_| 0, |page| vec![((page / 64) as usize, 1e3)]);
    counts
}

fn refused(usage: &Usage, machine: &MachineModel, options: &Options) -> String {
    let error = plan(usage, machine, options).expect_err("it cannot be planned").to_string();
    assert!(!error.contains('\n') && error.len() < 160, "{error}");
    error
}

#[test]
fn recordings_without_what_is_needed() {
    let unknown = Usage { memory_source: MemorySource::Unknown, ..serial() };
    assert!(refused(&unknown, &machine(2), &Options::default()).contains("which accesses reach memory"));
    let empty = Usage { objects: Vec::new(), ..serial() };
    assert!(
        refused(&empty, &machine(2), &Options::default()).contains("no sample stands at a load that waited for memory")
    );
    let mut stray = serial();
    stray.objects[0].instances[0].pages[3].by_thread[0].thread = 99;
    assert!(refused(&stray, &machine(2), &Options::default()).contains("no thread 99"));
    stray.objects[0].instances[0].pages[3].by_thread[0].thread = 0;
    stray.objects[0].instances[0].pages[3].by_thread[0].memory = f64::NAN;
    assert!(refused(&stray, &machine(2), &Options::default()).contains("no number"));
}

#[test]
fn machines_without_a_choice_or_with_holes() {
    assert!(refused(&serial(), &machine(1), &Options::default()).contains("one node with memory"));
    let mut holes = machine(2);
    holes.latency_ns[1].pop();
    assert!(refused(&serial(), &holes, &Options::default()).contains("latency_ns of node 1 needs 2 numbers"));
    holes.latency_ns[1].push(-1.0);
    assert!(refused(&serial(), &holes, &Options::default()).contains("latency_ns[1][1] is no positive number"));
    holes.latency_ns.clear();
    assert!(refused(&serial(), &holes, &Options::default()).contains("its latencies are not known: measure them"));
    assert!(refused(&serial(), &MachineModel::default(), &Options::default()).contains("no node with CPUs"));
}

#[test]
fn machines_with_fewer_nodes_than_recorded() {
    let mut wide = serial();
    wide.nodes = 4;
    wide.threads.iter_mut().enumerate().for_each(|(n, thread)| thread.node = Some(n / 2));
    let as_recorded = Options { threads: ThreadPlacement::AsRecorded, ..Options::default() };
    let error = refused(&wide, &machine(2), &as_recorded);
    assert!(error.contains("thread 4 of the recording is on node 2, but machine 2x4 has 2 nodes"), "{error}");
    wide.threads[0].node = None;
    assert!(refused(&wide, &machine(4), &as_recorded).contains("thread 0 moved between nodes"));
    // Placed anew it can be predicted, and planned.
    let predictions = predict(&wide, &machine(2), &Options::default()).expect("predictions");
    assert_eq!(predictions.candidates[0].name, "first touch");
    assert_eq!(plan(&wide, &machine(2), &Options::default()).expect("a plan").plan.objects.len(), 1);
    let another = Options { recorded: Some(machine(3)), ..Options::default() };
    assert!(refused(&timed(&wide, 1.0, 80.0), &machine(2), &another).contains("of a machine with 4 nodes"));
}

/// Latencies need not be the same in both directions.
#[test]
fn asymmetric_machines_are_fine() {
    let mut uneven = machine(2);
    uneven.latency_ns = vec![vec![80.0, 100.0], vec![400.0, 80.0]];
    uneven.contention.clear();
    // T0 to T3 run on node 0, T4 to T7 on node 1, where memory of node 0 is far.
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "table", 512, |_| 0, |_| (0..8).map(|thread| (thread, 1e3)).collect());
    let advice = plan(&counts, &uneven, &Options::default()).expect("a plan");
    assert_eq!(advice.findings.objects[0].policy, "bind to node 1");
    assert!(advice.findings.assumptions.iter().any(|of| of.contains("contention is not known")));
}

/// Objects that nobody should care for are left, each with its reason.
#[test]
fn little_is_left_alone() {
    let mut counts = serial();
    object(&mut counts, "cold", 512, |_| 0, |_| vec![(7, 0.1)]);
    object(&mut counts, "small", 16, |_| 0, |_| vec![(7, 3e3)]);
    object(&mut counts, "stack", 512, |_| 0, |_| vec![(7, 3e3)]);
    counts.objects[3].kind = "stack".into();
    let advice = plan(&counts, &machine(2), &Options::default()).expect("a plan");
    let said: Vec<(&str, String)> =
        advice.findings.objects.iter().map(|of| (of.name.as_str(), format!("{:?}", of.verdict))).collect();
    assert_eq!(
        said,
        [("stack", "Unplaceable"), ("field", "Advised"), ("small", "Small"), ("cold", "Cold")]
            .map(|(name, verdict)| (name, verdict.to_owned()))
    );
    // Few samples of time.
    let few = timed(&serial(), 1.0, 80.0);
    let mut few = Usage { memory_source: MemorySource::Time, ..few };
    few.objects[0].instances[0].pages.truncate(20);
    few.objects[0].instances[0].bytes = 512 * 4096;
    let advice = plan(&few, &machine(2), &Options::default()).expect("a plan");
    assert!(advice.plan.objects.is_empty() && advice.findings.toml.contains("Left: "), "{}", advice.findings.toml);
}
