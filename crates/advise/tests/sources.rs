//! Recordings of each kind: times, counts, counts with native times, and what a measured run adds.

mod common;

use common::{machine, object, timed, usage};
use numamma_advise::{Candidate, Layout, Layouts, Options, ThreadPlacement, calibrate, plan, predict};
use numamma_findings::{MemorySource, Predictions, Usage, Verdict};
use numamma_plan::{Pin, Policy};
use numamma_topology::Contention;

/// T0 sets up what 8 threads use in blocks: 3 ms of loads for each, if all are local.
fn serial() -> Usage {
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "field", 512, |_| 0, |page| vec![((page / 64) as usize, 3e-3 / 80e-9 / 64.0)]);
    counts
}

/// A machine on which nothing ever waits in a queue.
fn quiet(nodes: usize) -> numamma_topology::MachineModel {
    let mut machine = machine(nodes);
    let local = machine.latency_ns[0][0];
    machine.contention = [1, 64].map(|cpus| Contention { cpus, latency_ns: local }).to_vec();
    machine
}

#[test]
fn where_contention_is_not_known_it_is_typical_and_said() {
    let mut unknown = machine(2);
    unknown.contention.clear();
    let times = timed(&serial(), 5e-3, 80.0);
    let of = |machine| predict(&times, &machine, &Options::default()).expect("predictions");
    let (typical, none) = (of(unknown), of(quiet(2)));
    let time = |of: &Predictions| of.candidates.iter().find(|of| of.name == "first touch").expect("a candidate").time_s;
    assert!(time(&typical) > 1.05 * time(&none), "all on one node: {} {}", time(&typical), time(&none));
    assert!(typical.assumptions.iter().any(|text| text.contains("contention")), "{:?}", typical.assumptions);
    assert!(!none.assumptions.iter().any(|text| text.contains("contention")), "{:?}", none.assumptions);
}

fn time_s(usage: &Usage, options: &Options, name: &str) -> f64 {
    let predictions = predict(usage, &quiet(2), options).expect("predictions").candidates;
    predictions.iter().find(|of| of.name == name).expect("a candidate").time_s
}

fn is_about(time: f64, expected: f64) -> bool {
    (time / expected - 1.0).abs() < 1e-3
}

#[test]
fn stalls_scale_with_latency() {
    let times = timed(&serial(), 5e-3, 80.0);
    let of = |name: &str| time_s(&times, &Options::default(), name);
    assert!(is_about(of("by owner"), 8e-3), "{}", of("by owner"));
    assert!(is_about(of("first touch"), 11e-3), "{}", of("first touch"));
    assert!(is_about(of("interleave"), 9.5e-3), "{}", of("interleave"));
    // The same stalls on a machine of slower memory are of fewer loads.
    let mut slow = quiet(1);
    slow.latency_ns = vec![vec![160.0]];
    let options = Options { recorded: Some(slow), ..Options::default() };
    assert!(is_about(time_s(&times, &options, "by owner"), 6.5e-3));
    assert!(is_about(time_s(&times, &options, "first touch"), 8e-3));
}

#[test]
fn counts_alone_tell_ratios_and_a_measured_run_tells_the_rest() {
    let counts = serial();
    let predictions = predict(&counts, &quiet(2), &Options::default()).expect("predictions");
    assert!(predictions.memory_only && predictions.assumptions.iter().any(|of| of.contains("native run time")));
    assert!(is_about(time_s(&counts, &Options::default(), "first touch"), 6e-3));
    let run = |name: &str, layout| Candidate {
        name: name.into(),
        threads: ThreadPlacement::Compact,
        layouts: Layouts::All(layout),
    };
    let measured = [(run("first touch", Layout::FirstTouch), 8e-3), (run("by owner", Layout::ByOwner), 6.5e-3)];
    let both = calibrate(&counts, &quiet(2), &Options::default(), &measured).expect("a calibration");
    assert!(is_about(both.compute_s, 5e-3) && is_about(both.overlap, 2.0), "{both:?}");
    let options = Options { calibration: Some(both), ..Options::default() };
    assert!(is_about(time_s(&counts, &options, "interleave"), 5e-3 + 4.5e-3 / 2.0));
    assert!(!predict(&counts, &quiet(2), &options).expect("predictions").memory_only);
    let native = timed(&counts, 1.0, 80.0);
    assert!(calibrate(&native, &quiet(2), &Options::default(), &measured).is_err());
    assert!(calibrate(&counts, &quiet(2), &Options::default(), &[]).is_err());
}

/// Compute time leaves the queue of a node shorter than it is where memory is all that takes time.
#[test]
fn the_run_that_calibrates_is_predicted_as_it_was_measured() {
    let counts = serial();
    let first_touch = Candidate {
        name: "first touch".into(),
        threads: ThreadPlacement::Compact,
        layouts: Layouts::All(Layout::FirstTouch),
    };
    for measured_s in [4e-3, 12e-3, 20e-3, 100e-3] {
        let runs = [(first_touch.clone(), measured_s)];
        let calibration = calibrate(&counts, &machine(2), &Options::default(), &runs).expect("a calibration");
        let options = Options { calibration: Some(calibration), ..Options::default() };
        let predictions = predict(&counts, &machine(2), &options).expect("predictions").candidates;
        let first = predictions.iter().find(|of| of.name == "first touch").expect("a candidate");
        assert!(is_about(first.time_s, measured_s), "{measured_s}: {} {calibration:?}", first.time_s);
    }
}

/// One run does not tell whether its loads waited one after the other; two do.
#[test]
fn the_interval_holds_that_loads_may_overlap_where_one_run_calibrates() {
    let counts = serial();
    let run = |name: &str, layout| Candidate {
        name: name.into(),
        threads: ThreadPlacement::Compact,
        layouts: Layouts::All(layout),
    };
    let runs = [(run("first touch", Layout::FirstTouch), 11e-3), (run("by owner", Layout::ByOwner), 10.7e-3)];
    let low_s = |runs: &[(Candidate, f64)]| {
        let calibration = calibrate(&counts, &quiet(2), &Options::default(), runs).expect("a calibration");
        let options = Options { calibration: Some(calibration), ..Options::default() };
        let predictions = predict(&counts, &quiet(2), &options).expect("predictions").candidates;
        let worst = predictions.iter().find(|of| of.name == "interleave").expect("a candidate");
        (worst.time_s, worst.low_s, worst.high_s)
    };
    // Of 11 ms memory takes 6; ten loads at once would leave 0.6, of which interleaving saves a quarter.
    let (time, _, high) = low_s(&runs[..1]);
    assert!(is_about(time, 9.5e-3) && high > 10.8e-3, "{time} {high}");
    let (time, _, high) = low_s(&runs);
    assert!(is_about(time, 10.85e-3) && high < 10.95e-3, "{time} {high}");
}

/// `apply --policy` leaves what is smaller than 64 KiB, and places whole pages only.
#[test]
fn policies_leave_what_apply_leaves() {
    let with = |pages: u64, page_offset: u64| {
        let mut counts = usage(8, MemorySource::CacheModel);
        object(&mut counts, "private", pages, |_| 0, |_| vec![(0, 1e3)]);
        let instance = &mut counts.objects[0].instances[0];
        (instance.page_offset, instance.bytes) = (page_offset, pages * 4096 - 2 * page_offset);
        let predictions = predict(&counts, &quiet(2), &Options::default()).expect("predictions").candidates;
        predictions.iter().find(|of| of.name == "interleave").expect("a candidate").remote_share
    };
    assert!(with(15, 0) < 1e-9, "{}", with(15, 0));
    assert!(is_about(with(16, 0), 0.5), "{}", with(16, 0));
    // The first and the last page are shared with other objects.
    assert!(is_about(with(18, 16), 8.0 / 18.0), "{}", with(18, 16));
}

/// Eight threads that are at each of two nodes half of their time: each finds three and a half others there.
#[test]
fn a_thread_waits_for_the_others_and_not_for_itself() {
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "shared", 512, |_| 0, |_| (0..8).map(|thread| (thread, 1e3)).collect());
    let mut machine = machine(2);
    machine.latency_ns = vec![vec![80.0; 2]; 2];
    machine.contention = [(1, 80.0), (9, 160.0)].map(|(cpus, latency_ns)| Contention { cpus, latency_ns }).to_vec();
    let predictions = predict(&counts, &machine, &Options::default()).expect("predictions").candidates;
    let time = |name: &str| predictions.iter().find(|of| of.name == name).expect("a candidate").time_s;
    assert!(is_about(time("interleave"), 512e3 * (80.0 + 35.0) * 1e-9), "{}", time("interleave"));
    // All on one node: seven others.
    assert!(is_about(time("first touch"), 512e3 * (80.0 + 70.0) * 1e-9), "{}", time("first touch"));
}

/// Hardware counts 3 ms of loads where threads waited for 1 ms: three are under way at once.
#[test]
fn counts_with_stalls_tell_the_overlap() {
    let times = timed(&serial(), 5e-3, 80.0);
    let mut hardware = Usage { memory_source: MemorySource::Hardware, objects: serial().objects, ..times };
    for page in hardware.objects.iter_mut().flat_map(|of| &mut of.instances).flat_map(|of| &mut of.pages) {
        page.by_thread.iter_mut().for_each(|of| of.samples = 1 << 30);
    }
    hardware.wall_s = 6e-3;
    hardware.phases[0].wall_s = 6e-3;
    for thread in &mut hardware.threads {
        (thread.busy_s, thread.stall_s) = (Some(6e-3), Some(1e-3));
    }
    hardware.phases[0].busy_s = vec![6e-3; 8];
    assert!(is_about(time_s(&hardware, &Options::default(), "by owner"), 6e-3));
    assert!(is_about(time_s(&hardware, &Options::default(), "first touch"), 7e-3));
}

/// Waiting in spin loops is no work: it ends with what is waited for.
#[test]
fn spinning_is_no_work() {
    let mut times = timed(&serial(), 5e-3, 80.0);
    times.threads[3].waiting_s = 12e-3;
    assert!(is_about(time_s(&times, &Options::default(), "by owner"), 8e-3));
}

/// Sixteen threads on eight CPUs take turns.
#[test]
fn threads_without_a_cpu_of_their_own_take_turns() {
    let mut counts = usage(16, MemorySource::CacheModel);
    object(&mut counts, "field", 512, |_| 0, |page| vec![((page / 32) as usize, 3e-3 / 80e-9 / 32.0)]);
    let times = timed(&counts, 5e-3, 80.0);
    assert!(is_about(time_s(&times, &Options::default(), "by owner"), 16e-3));
}

/// The first half is used in blocks, the second by all: a map has both.
#[test]
fn objects_may_be_used_in_two_ways() {
    let mut counts = usage(8, MemorySource::CacheModel);
    let uses = |page: u64| match page < 512 {
        true => vec![((page / 64) as usize, 1e3)],
        false => (0..8).map(|thread| (thread, 125.0)).collect(),
    };
    object(&mut counts, "mixed", 1024, |_| 0, uses);
    let advice = plan(&counts, &machine(2), &Options::default()).expect("a plan");
    let Policy::Map { runs, .. } = &advice.plan.objects[0].policy else { panic!("{}", advice.findings.toml) };
    assert_eq!(runs[..2], [(0, 256), (1, 256)]);
    let shared: u64 = runs[2..].iter().filter(|run| run.0 == 0).map(|run| run.1).sum();
    assert!((240..=272).contains(&shared), "{runs:?}");
}

/// A run that is well as it is gets an empty plan.
#[test]
fn nothing_is_planned_where_nothing_is_wrong() {
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "field", 512, |page| (page / 64) as usize, |page| vec![((page / 64) as usize, 1e3)]);
    counts.nodes = 2;
    counts.threads.iter_mut().enumerate().for_each(|(n, thread)| thread.node = Some(n / 4));
    for page in &mut counts.objects[0].instances[0].pages {
        page.node = Some((page.page / 256) as usize);
    }
    let advice = plan(&counts, &machine(2), &Options::default()).expect("a plan");
    assert_eq!((advice.plan.objects.len(), &advice.plan.pin), (0, &Pin::Free));
    assert_eq!(advice.findings.objects[0].verdict, Verdict::Right);
}

/// Eight threads on two CPUs waited for these, at barriers most of all; eight CPUs make no one wait.
#[test]
fn waiting_for_a_cpu_is_not_predicted() {
    let mut times = timed(&serial(), 5e-3, 80.0);
    times.wall_s += 0.5;
    times.phases[0].wall_s += 0.5;
    let idle = time_s(&times, &Options::default(), "by owner");
    assert!(idle > 0.5, "with CPUs for all, who waits waits for something else: {idle}");
    times.cpus = 2;
    let predictions = predict(&times, &quiet(2), &Options::default()).expect("predictions");
    let of = predictions.candidates.iter().find(|of| of.name == "by owner").expect("a candidate");
    assert!(of.time_s < 0.02 && of.high_s > 0.4, "{of:?}");
    assert!(predictions.assumptions.iter().any(|of| of.starts_with("The program had more threads than CPUs")));
    // Time in spin loops is known to have kept CPUs busy.
    times.threads.iter_mut().for_each(|thread| thread.waiting_s = 0.12);
    let predictions = predict(&times, &quiet(2), &Options::default()).expect("predictions");
    let of = predictions.candidates.iter().find(|of| of.name == "by owner").expect("a candidate");
    assert!(of.high_s < 0.1, "{of:?}");
    times.threads.iter_mut().for_each(|thread| thread.waiting_s = 0.0);
    times.cpus = 8;
    let predictions = predict(&times, &quiet(2), &Options::default()).expect("predictions");
    let of = predictions.candidates.iter().find(|of| of.name == "by owner").expect("a candidate");
    assert!(of.time_s > 0.5 && of.low_s < 0.02, "{of:?}");
}
