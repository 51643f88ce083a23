//! Gaël Thomas's course: latencies of a loaded machine, and what they cost an instruction.

mod common;

use common::{amd48, machine, object, usage};
use numamma_advise::{Options, predict};
use numamma_findings::{MemorySource, Predictions};

/// All 48 cores load as fast as they can, each its own part of an object that T0 has set up.
fn predictions() -> Predictions {
    let mut counts = usage(48, MemorySource::CacheModel);
    object(&mut counts, "field", 4800, |_| 0, |page| vec![((page / 100) as usize, 1e6)]);
    predict(&counts, &amd48(), &Options::default()).expect("predictions")
}

/// Cycles of a load in the mean.
fn cycles(predictions: &Predictions, name: &str) -> f64 {
    let candidate = predictions.candidates.iter().find(|of| of.name == name).expect("a candidate");
    let waiting: f64 = candidate.nodes.iter().map(|node| node.waiting_cpus).sum();
    candidate.time_s * waiting * 2.2e9 / (4800.0 * 1e6)
}

#[test]
fn a_loaded_node_takes_870_cycles() {
    let predictions = predictions();
    let (local, loaded) = (cycles(&predictions, "by owner"), cycles(&predictions, "first touch"));
    // Six cores load each node, which the course's two points have as hardly any queue.
    assert!((155.0..240.0).contains(&local), "{local}");
    // A load of the node's own cores takes 870 cycles then, one from afar the way more. Near cores are done first, so in the mean all
    // wait a little less than that.
    let way = (4.0 * (275.0 - 155.0) + 3.0 * (380.0 - 155.0)) / 8.0;
    assert!((0.9..1.0).contains(&(loaded / (870.0 + way))), "{loaded}");
    let owner = predictions.candidates.iter().find(|of| of.name == "by owner").expect("by owner");
    assert!((owner.remote_share, owner.imbalance) == (0.0, 0.0));
    let first = predictions.candidates.iter().find(|of| of.name == "first touch").expect("first touch");
    assert_eq!((100.0 * first.imbalance).round(), 283.0);
    assert!((first.remote_share - 0.875).abs() < 1e-9 && first.links.len() == 7);
}

/// 50 % of the instructions access memory; each of three levels of caches of 5, 16 and 32 cycles hits in `h` of its accesses.
fn cycles_per_instruction(h: f64, memory: f64) -> f64 {
    let miss = 1.0 - h;
    0.5 + 0.5 * (h * 5.0 + miss * h * 16.0 + miss * miss * h * 32.0 + miss.powi(3) * memory)
}

#[test]
fn instructions_cost_what_the_course_says() {
    for (h, local, loaded) in [(0.3, 32.0, 156.0), (0.7, 7.0, 17.0)] {
        let error = |of: f64, published: f64| (of / published - 1.0).abs();
        let (here, there) = (cycles_per_instruction(h, 155.0), cycles_per_instruction(h, 870.0));
        assert!(error(here, local) < 0.015, "{here}");
        assert!(error(there, loaded) < 0.02, "{there}");
        println!("h {h}: {here:.2} and {there:.2}, published {local} and {loaded}");
    }
    assert_eq!(
        format!("{:.1} {:.1}", cycles_per_instruction(0.3, 155.0), cycles_per_instruction(0.3, 870.0)),
        "31.9 154.5"
    );
    assert_eq!(
        format!("{:.2} {:.2}", cycles_per_instruction(0.7, 155.0), cycles_per_instruction(0.7, 870.0)),
        "7.03 16.68"
    );
}

/// BWAP: a node's share of pages is that of the slowest link to a worker.
#[test]
fn pages_are_weighted_by_bandwidth() {
    let mut counts = usage(8, MemorySource::CacheModel);
    object(&mut counts, "table", 640, |_| 0, |_| (0..8).map(|thread| (thread, 1e4)).collect());
    let mut uneven = machine(2);
    // A third node of memory only.
    uneven.nodes.push(numamma_topology::ModelNode::default());
    uneven.latency_ns = vec![vec![80.0, 160.0, 300.0], vec![160.0, 80.0, 300.0], vec![]];
    uneven.bandwidth_gbs = vec![vec![40.0, 20.0, 10.0], vec![20.0, 40.0, 10.0], vec![1.0, 1.0, 1.0]];
    let predictions = predict(&counts, &uneven, &Options::default()).expect("predictions");
    let weighted = predictions.candidates.iter().find(|of| of.name == "weighted interleave").expect("it is uneven");
    let shares: Vec<f64> = weighted.nodes.iter().map(|node| (100.0 * node.share).round()).collect();
    assert_eq!(shares, [40.0, 40.0, 20.0]);
    let even = predictions.candidates.iter().find(|of| of.name == "interleave").expect("interleave");
    assert!(weighted.time_s < even.time_s);
}

/// 64 bytes for each miss need the time that a node's bandwidth gives them.
#[test]
fn bandwidth_is_a_floor() {
    let mut counts = usage(4, MemorySource::CacheModel);
    object(&mut counts, "table", 100, |_| 0, |_| vec![(0, 1e5)]);
    let mut slow = machine(1);
    slow.nodes[0].bandwidth_gbs = Some(0.1);
    let first = &predict(&counts, &slow, &Options::default()).expect("predictions").candidates[0];
    assert!((first.time_s - 1e7 * 64.0 / 0.1e9).abs() < 1e-6, "{}", first.time_s);
    assert!((first.nodes[0].gb_s - 0.1).abs() < 1e-9);
}
