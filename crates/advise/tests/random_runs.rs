//! Random runs whose best placement is known: the plan made from samples is compared with it on the run itself.

mod common;

use common::random::{Random, sampled};
use common::{PAGE, machine, object, timed, usage};
use numamma_advise::{Options, plan, predict};
use numamma_findings::{MemorySource, Usage};
use numamma_plan::{Nodes, Plan, Policy, Site, Target};

/// How threads use an object.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Each thread one block.
    Block,
    /// Blocks of so many pages go round the threads.
    Cyclic(u64),
    /// All threads everywhere.
    Shared,
    /// Each thread one block, set up by itself.
    Right,
}

/// Placements that do not depend on the samples.
const PLAIN: [&str; 3] = ["first touch", "interleave", "block"];

/// A run, and the plan that fits its patterns.
struct Case {
    truth: Usage,
    best: Plan,
    text: String,
}

fn case(random: &mut Random, nodes: usize) -> Case {
    let threads = 4 * nodes;
    let mut counts = usage(threads, MemorySource::CacheModel);
    let (mut best, mut text) = (Plan { pin: numamma_plan::Pin::Compact, ..Plan::default() }, format!("{nodes} nodes"));
    for n in 0..1 + random.below(3) {
        let units = random.pick(&[1_u64, 2, 3, 4, 8]);
        let pages = (threads as u64 * 4 * units).max(64) + random.below(2) as u64 * random.below(40) as u64;
        let pattern = match random.below(4) {
            0 => Pattern::Block,
            1 => Pattern::Cyclic(random.pick(&[1, 2, 4])),
            2 => Pattern::Shared,
            _ => Pattern::Right,
        };
        let (noise, accesses) = (0.2 * random.share(), 200.0 * 10_f64.powf(random.share()));
        let owner = |page: u64| match pattern {
            Pattern::Cyclic(block) => (page / block) as usize % threads,
            _ => (page * threads as u64 / pages) as usize,
        };
        let uses = |page: u64| -> Vec<(usize, f64)> {
            let noise = if matches!(pattern, Pattern::Shared) { 1.0 } else { noise };
            let of =
                |thread| accesses * (noise / threads as f64 + if thread == owner(page) { 1.0 - noise } else { 0.0 });
            (0..threads).map(|thread| (thread, of(thread))).filter(|(_, accesses)| *accesses > 0.0).collect()
        };
        let name = format!("o{n}");
        object(&mut counts, &name, pages, |page| if matches!(pattern, Pattern::Right) { owner(page) } else { 0 }, uses);
        let policy = match pattern {
            Pattern::Block => Policy::Block(Nodes::All),
            Pattern::Cyclic(block) => Policy::BlockCyclic { nodes: Nodes::All, bytes: 4 * block * PAGE },
            Pattern::Shared => Policy::Interleave(Nodes::All),
            Pattern::Right => Policy::FirstTouch,
        };
        best.objects.push(numamma_plan::Object {
            target: Target::Heap(Some(Site::Source { function: Some(format!("make_{name}")), line: None })),
            policy,
            ..Plan::whole("interleave", 0).expect("a plan").objects.remove(0)
        });
        text += &format!(", {pattern:?} {pages} pages noise {noise:.2}");
    }
    let memory_s = 80e-9
        * counts
            .objects
            .iter()
            .flat_map(|of| &of.instances[0].pages)
            .flat_map(|page| &page.by_thread)
            .map(|of| of.memory)
            .sum::<f64>();
    let truth = timed(&counts, memory_s / threads as f64 * 2.0 * random.share(), 80.0);
    Case { truth, best, text }
}

/// Seconds of the run under a plan.
fn time_s(case: &Case, nodes: usize, plan: &Plan) -> f64 {
    let options = Options { plan: Some(plan.clone()), ..Options::default() };
    let predicted = predict(&case.truth, &machine(nodes), &options).expect("predictions");
    predicted.candidates.iter().find(|of| of.name == "plan").expect("the plan").time_s
}

#[test]
fn plans_are_within_two_percent_of_the_best() {
    let cases = 1000;
    let (mut good, mut within, mut predicted) = (0, 0, 0);
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(7);
        let case = case(&mut random, nodes);
        let samples = 20.0
            * 10_f64.powf(random.share())
            * case.truth.objects.iter().map(|of| of.instances[0].pages.len()).sum::<usize>() as f64
            / 4.0;
        let seen = sampled(&case.truth, samples, &mut random);
        let planned = plan(&seen, &machine(nodes), &Options::default()).expect("a plan");
        let (best, time) = (time_s(&case, nodes, &case.best), time_s(&case, nodes, &planned.plan));
        if seed % 3 == 0 {
            // The true times lie in the intervals that the samples give.
            let seen = predict(&seen, &machine(nodes), &Options::default()).expect("predictions").candidates;
            let truth = predict(&case.truth, &machine(nodes), &Options::default()).expect("predictions").candidates;
            let both = seen.iter().zip(&truth).filter(|(seen, _)| PLAIN.contains(&seen.name.as_str()));
            for (seen, truth) in both {
                within += u32::from((seen.low_s..=seen.high_s).contains(&truth.time_s));
                predicted += 1;
            }
        }
        let is_good = time <= 1.02 * best;
        good += u32::from(is_good);
        if !is_good {
            let policies: Vec<String> = planned
                .findings
                .objects
                .iter()
                .map(|of| format!("{}={:?} {}", of.name, of.verdict, of.policy))
                .collect();
            println!(
                "{seed}: {time:.6} s, best {best:.6} s ({:.1} %), {samples:.0} samples: {} -> {policies:?}",
                100.0 * (time / best - 1.0),
                case.text
            );
        }
    }
    println!("{good} of {cases} plans are within 2 % of the best");
    println!("{within} of {predicted} times lie in their intervals");
    // 95 %, less two standard errors of so many.
    assert!(f64::from(within) >= 0.936 * f64::from(predicted));
    assert!(f64::from(good) >= 0.95 * cases as f64);
}
