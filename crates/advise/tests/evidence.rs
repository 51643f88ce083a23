//! What few samples tell of blocks, and what they must not tell of owners drawn at random.

mod common;

use common::random::{Random, sampled};
use common::{PAGE, machine, object, timed, usage};
use numamma_advise::{Options, ThreadPlacement, plan};
use numamma_findings::{InstanceUse, MemorySource, PageThreadUse, Usage};
use numamma_plan::Policy;

/// A recording of one object; `uses` as in [`object`].
fn recording(
    threads: usize,
    pages: u64,
    samples: f64,
    random: &mut Random,
    uses: impl Fn(u64) -> Vec<(usize, f64)>,
) -> Usage {
    let mut counts = usage(threads, MemorySource::CacheModel);
    object(&mut counts, "field", pages, |_| 0, uses);
    sampled(&timed(&counts, 1e-3, 80.0), samples, random)
}

#[test]
fn twenty_samples_a_block_tell_its_size() {
    let cases = 400;
    let mut right = 0;
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(7);
        let threads = 4 * nodes;
        let (block, rounds, noise) = (1 + random.below(32) as u64, 2 + random.below(7) as u64, 0.1 * random.share());
        let pages = (4 * block * nodes as u64 * rounds).max(64);
        let uses = |page: u64| -> Vec<(usize, f64)> {
            let owner = (page / block) as usize % threads;
            let of = |thread| 1000.0 * (noise / threads as f64 + if thread == owner { 1.0 - noise } else { 0.0 });
            (0..threads).map(|thread| (thread, of(thread))).collect()
        };
        // A block of a node is those of its four threads.
        let blocks = pages as f64 / (4 * block) as f64;
        let seen = recording(threads, pages, 20.0 * blocks, &mut random, uses);
        let compact = Options { threads: ThreadPlacement::Compact, ..Options::default() };
        let planned = plan(&seen, &machine(nodes), &compact).expect("a plan");
        let found = planned.plan.objects.first().map(|object| object.policy.clone());
        let is_right = matches!(&found, Some(Policy::BlockCyclic { bytes, .. }) if *bytes == 4 * block * PAGE);
        right += u32::from(is_right);
        if !is_right {
            println!(
                "{seed}: {nodes} nodes, blocks of {} pages, {pages} pages, noise {noise:.2}: {found:?}",
                4 * block
            );
        }
    }
    println!("{right} of {cases} sizes of blocks are right");
    assert!(f64::from(right) >= 0.95 * cases as f64);
}

#[test]
fn random_owners_are_no_pattern() {
    let cases = 600;
    let mut wrong = 0;
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(7);
        let threads = 4 * nodes;
        let pages = 64 + random.below(1000) as u64;
        // A page has an owner, or a run of pages has, or none has.
        let (run, kind) = (1 + random.below(8), seed % 3);
        let owners: Vec<usize> = (0..pages as usize).map(|_| random.below(threads)).collect();
        let uses = |page: u64| -> Vec<(usize, f64)> {
            match kind {
                0 => vec![(owners[page as usize], 1000.0)],
                1 => vec![(owners[page as usize / run], 1000.0)],
                _ => (0..threads).map(|thread| (thread, 1000.0 / threads as f64)).collect(),
            }
        };
        let samples = pages as f64 * 0.3 * 100_f64.powf(random.share());
        let seen = recording(threads, pages, samples, &mut random, uses);
        let planned = plan(&seen, &machine(nodes), &Options::default()).expect("a plan");
        let policy = planned.plan.objects.first().map(|object| &object.policy);
        if !matches!(policy, None | Some(Policy::Interleave(_) | Policy::FirstTouch)) {
            wrong += 1;
            println!(
                "{seed}: {nodes} nodes, {pages} pages, kind {kind}, runs of {run}, {samples:.0} samples: {policy:?}"
            );
        }
    }
    println!("{wrong} of {cases} plans see a pattern");
    assert!(f64::from(wrong) <= 0.02 * cases as f64);
}

/// One instance for each element of `samples`: its thread, and the samples there.
fn instances(threads: usize, samples: &[(usize, u64)]) -> Usage {
    let mut counts = usage(threads, MemorySource::CacheModel);
    object(&mut counts, "message", 64, |_| 0, |_| vec![(0, 1.0)]);
    let mut seen = timed(&counts, 1e-3, 80.0);
    let template = seen.objects[0].instances[0].clone();
    let of = |(n, &(thread, samples)): (usize, &(usize, u64))| {
        let mut instance = InstanceUse { instance: n as u64, ..template.clone() };
        for page in &mut instance.pages {
            page.by_thread.clear();
        }
        let memory = 1e-4 * samples as f64;
        instance.pages[3].by_thread = vec![PageThreadUse { thread, phase: 0, samples, memory, writes: 0.0 }];
        instance
    };
    seen.objects[0].instances = samples.iter().enumerate().map(of).collect();
    for (n, thread) in seen.threads.iter_mut().enumerate() {
        let own = samples.iter().filter(|(of, _)| *of == n).map(|(_, samples)| 1e-4 * *samples as f64).sum::<f64>();
        (thread.busy_s, thread.stall_s) = (Some(own + 1e-3), Some(own));
    }
    seen.phases[0].busy_s = seen.threads.iter().map(|thread| thread.busy_s.unwrap_or(0.0)).collect();
    seen.wall_s = seen.phases[0].busy_s.iter().copied().fold(0.0, f64::max);
    seen.phases[0].wall_s = seen.wall_s;
    seen
}

/// Which thread takes the next message is chance, also if each takes several before another one does.
#[test]
fn messages_have_no_owners() {
    let scatter = Options { threads: ThreadPlacement::Scatter, ..Options::default() };
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (mut taker, consumers) = (0, 2 + random.below(3));
        let messages: Vec<(usize, u64)> = (0..500)
            .map(|_| {
                taker = if random.share() < 0.4 { random.below(consumers) } else { taker };
                (taker, 1)
            })
            .collect();
        let planned = plan(&instances(4, &messages), &machine(4), &scatter).expect("a plan");
        assert!(planned.plan.objects.len() <= 1, "{seed}: {} rules", planned.plan.objects.len());
    }
    // Of buffers of threads it is none.
    let buffers: Vec<(usize, u64)> = (0..8).map(|n| (n / 2, 100)).collect();
    let planned = plan(&instances(4, &buffers), &machine(4), &scatter).expect("a plan");
    let rules: Vec<_> = planned.plan.objects.iter().map(|of| (of.instances.clone(), of.policy.clone())).collect();
    assert!(rules.len() >= 3 && rules.iter().all(|(_, policy)| matches!(policy, Policy::Bind(_))), "{rules:?}");
}
