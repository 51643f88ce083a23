//! Stability of a choice under resampling of the run's samples.

use std::collections::BTreeMap;

use crate::choose::{Assignment, SIMPLER};
use crate::model::Model;
use crate::random::Random;
use crate::traffic::{Share, Traffic};

/// Resamplings: a share of 0.9 has an error of 13 points (95 %), which tells 0.9 from 0.7.
const RESAMPLES: usize = 20;
/// Uses of pages that are drawn anew for one object: beyond, fewer resamplings do, since many samples hardly vary.
const DRAWS: usize = 20_000_000;

/// How often each proposal for an object would be chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stability {
    /// Share of resamplings in which the chosen one costs no more than 1 % more than the best.
    pub confidence: f64,
    /// Proposals that were best instead, most often first.
    pub others: Vec<usize>,
}

/// Draws the number of samples of each use of a page anew (Poisson) and compares the proposals for object `n` again.
pub fn stability(model: &Model<'_>, assignment: &Assignment<'_>, n: usize) -> Stability {
    let choice = &assignment.choices[n];
    if model.demand.is_exact() || choice.proposals.len() < 2 {
        return Stability { confidence: 1.0, others: Vec::new() };
    }
    let object = &model.usage.objects[choice.object];
    let uses: usize = object.instances.iter().flat_map(|of| &of.pages).map(|page| page.by_thread.len()).sum();
    let resamples = (DRAWS / uses.max(1) / choice.proposals.len()).clamp(RESAMPLES / 4, RESAMPLES);
    let others = assignment.others(n);
    let mut own: Vec<Vec<Traffic>> = vec![vec![model.no_traffic(); choice.proposals.len()]; resamples];
    let mut random = Random::new(choice.object as u64);
    for instance in &object.instances {
        let nodes: Vec<Vec<usize>> = choice
            .proposals
            .iter()
            .map(|proposal| assignment.setting.nodes(&proposal.layout, object, instance))
            .collect();
        for (at, page) in instance.pages.iter().enumerate() {
            for of in page.by_thread.iter().filter(|of| model.demand.included[of.thread]) {
                let share = model.demand.share(page, of);
                let samples = of.samples.max(1) as f64;
                for of_resample in &mut own {
                    let factor = random.poisson(samples) / samples;
                    if factor == 0.0 {
                        continue;
                    }
                    let drawn =
                        Share { misses: factor * share.misses, recorded_s: factor * share.recorded_s, variance: 0.0 };
                    for (traffic, nodes) in of_resample.iter_mut().zip(&nodes) {
                        traffic.add(of.phase, of.thread, nodes[at], drawn);
                    }
                }
            }
        }
    }
    let mut better = BTreeMap::<usize, usize>::new();
    let mut same = 0;
    for of_resample in own {
        let goal = |mut own: Traffic| {
            own.add_all(&others, 1.0);
            assignment.goal(&own)
        };
        let goals: Vec<f64> = of_resample.into_iter().map(goal).collect();
        let best = (0..goals.len()).min_by(|&a, &b| goals[a].total_cmp(&goals[b])).unwrap_or(0);
        // Simplicity may have cost as much for all objects together, so the same is allowed once more.
        if goals[choice.chosen] <= goals[best] * (1.0 + 2.0 * SIMPLER) {
            same += 1;
        } else {
            *better.entry(best).or_default() += 1;
        }
    }
    let mut others: Vec<(usize, usize)> = better.into_iter().collect();
    others.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    Stability {
        confidence: f64::from(same) / resamples as f64,
        others: others.into_iter().map(|(proposal, _)| proposal).collect(),
    }
}
