//! A plan for a run on a machine.

use numamma_findings::{
    ObjectAdvice, ObjectUse, PLACEMENT_VERSION, PlacementMap, PlanFindings, PolicyCost, Usage, Verdict,
};
use numamma_plan::{Gather, Object, Pin, Plan, Predicted};
use numamma_topology::MachineModel;

use crate::choose::{Assignment, SIMPLER, Standing, Weight, weigh};
use crate::diagnose::{Case, LIES_WELL, line, sentence};
use crate::error::AdviseError;
use crate::extrapolate::extrapolate;
use crate::layout::Layout;
use crate::model::Model;
use crate::options::{Options, ThreadPlacement};
use crate::page_map::{Placing, page_map};
use crate::policy::{objects, words};
use crate::predict::{Layouts, by_samples, prediction, total, workers};
use crate::stability::{Stability, stability};
use crate::target::named;
use crate::text::text;

/// Fewer resamplings with the same choice, and the advice is weak.
const STABLE: f64 = 0.9;

/// A plan, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanAdvice {
    /// The plan.
    pub plan: Plan,
    /// Findings for reports; their text holds the same plan.
    pub findings: PlanFindings,
    /// Where threads and pages are, without the plan and under it.
    pub map: PlacementMap,
}

/// One object as the plan has it.
#[derive(Debug)]
pub struct Planned {
    /// Advice about the object.
    pub advice: ObjectAdvice,
    /// Rules of the plan; empty if it stays where it is touched first.
    pub objects: Vec<Object>,
    /// A wrapper that the plan must know.
    pub wrapper: Option<String>,
}

/// Plans.
///
/// # Errors
/// The missing or wrong input, in one line.
pub fn plan(usage: &Usage, machine: &MachineModel, options: &Options) -> Result<PlanAdvice, AdviseError> {
    let (usage, notes) = extrapolate(usage, options.thread_count)?;
    let usage = usage.as_ref();
    let model = Model::new(usage, machine, options)?;
    if model.latencies.memory_nodes.len() < 2 {
        return Err(AdviseError::OneNode(machine.name.clone()));
    }
    let weights = weigh(&model);
    let placements = match &options.threads {
        // Nobody pins threads of several processes: each would begin at the first CPU.
        ThreadPlacement::Best if model.demand.processes > 1 => vec![ThreadPlacement::Scatter],
        ThreadPlacement::Best => vec![ThreadPlacement::Compact, ThreadPlacement::Scatter],
        placement => vec![placement.clone()],
    };
    let thread_nodes =
        placements.iter().map(|placement| model.thread_nodes(placement)).collect::<Result<Vec<_>, _>>()?;
    let mut best: Option<(f64, usize, Assignment<'_>)> = None;
    for (n, nodes) in thread_nodes.iter().enumerate() {
        let mut assignment = Assignment::new(&model, model.setting(nodes), &weights);
        assignment.choose();
        let goal = assignment.goal(&assignment.traffic);
        // The first is the simplest.
        if best.as_ref().is_none_or(|best| goal * (1.0 + SIMPLER) < best.0) {
            best = Some((goal, n, assignment));
        }
    }
    let Some((_, n, assignment)) = best else { return Err(AdviseError::OneNode(machine.name.clone())) };
    let (threads, nodes) = (&placements[n], &thread_nodes[n]);

    let now = match model.holds_recorded() {
        Ok(()) => ThreadPlacement::AsRecorded,
        Err(_) => threads.clone(),
    };
    let now_nodes = model.thread_nodes(&now)?;
    let now_layout = if now == ThreadPlacement::AsRecorded { Layout::AsRecorded } else { Layout::FirstTouch };
    let now_layouts = Layouts::All(now_layout);
    let now_traffic = total(&model, &now_nodes, &now_layouts);
    let layouts = can_be_had(&model, &assignment, &weights);
    let mut planned = planned(&model, &assignment, &weights, &layouts);
    without_twins(&mut planned);
    let layouts = Layouts::Each(layouts);
    let planned_traffic = total(&model, nodes, &layouts);
    let findings = PlanFindings {
        version: PLACEMENT_VERSION,
        machine: machine.name.clone(),
        toml: String::new(),
        now: prediction(&model, "now", &now, &now_nodes, &now_traffic),
        planned: prediction(&model, "plan", threads, nodes, &planned_traffic),
        objects: planned.iter().map(|planned| planned.advice.clone()).collect(),
        memory_only: model.demand.memory_only,
        waiting_share: model.demand.waiting_share(),
        notes: room(&model, nodes).into_iter().collect(),
        assumptions: [notes, model.demand.assumptions.clone(), by_samples(&model).into_iter().collect()].concat(),
    };
    // Threads that run well as they are need no pins.
    let is_as_good = now == ThreadPlacement::AsRecorded
        && findings.objects.iter().all(|object| object.policy.is_empty())
        && findings.now.time_s <= findings.planned.time_s * (1.0 + SIMPLER);
    let plan = Plan {
        wrappers: wrappers(&planned),
        pin: if is_as_good || model.demand.processes > 1 { Pin::Free } else { pin(threads) },
        objects: planned.iter().flat_map(|planned| planned.objects.clone()).collect(),
        predicted: Some(predicted(&findings)),
        ..Plan::default()
    };
    let toml = text(&plan, &planned, &findings);
    let now = Placing { thread_nodes: &now_nodes, layouts: &now_layouts };
    let map = page_map(&model, &findings.objects, now, Placing { thread_nodes: nodes, layouts: &layouts });
    Ok(PlanAdvice { plan, findings: PlanFindings { toml, ..findings }, map })
}

/// That one node has room for all threads, so that there is nothing to place; and what else can be asked for.
fn room(model: &Model<'_>, thread_nodes: &[usize]) -> Option<String> {
    let workers = workers(model, thread_nodes);
    let [node] = workers[..] else { return None };
    let threads = match model.demand.included.iter().filter(|&&is| is).count() {
        1 => "The only thread has".to_owned(),
        threads => format!("All {threads} threads have"),
    };
    let cpus = model.latencies.cpus[node];
    let first = model.usage.threads.first().map(|thread| thread.process);
    let is_one_process = model.usage.threads.iter().all(|thread| Some(thread.process) == first);
    let more = (is_one_process && model.options.thread_count.is_none())
        .then_some("as many threads as the program will have on this machine (--threads)");
    let several = model.demand.included.iter().filter(|&&is| is).count() > 1;
    let scatter = (several && model.options.threads != ThreadPlacement::Scatter).then_some("--pin scatter");
    let ask = match (more, scatter) {
        (Some(more), Some(scatter)) => format!(" Ask for {more}, or for {scatter}."),
        (Some(one), None) | (None, Some(one)) => format!(" Ask for {one}."),
        (None, None) => String::new(),
    };
    (model.latencies.cpu_nodes().count() > 1)
        .then(|| format!("{threads} room on node {node}, which has {cpus} CPUs: there, all memory is local.{ask}"))
}

/// Prediction that `numamma compare --plan` checks.
fn predicted(findings: &PlanFindings) -> Predicted {
    // Seconds of accesses to memory alone are no run time.
    let time = |seconds: f64| (!findings.memory_only).then_some((seconds * 1e6).round() / 1e6);
    let share = |share: f64| (share * 1e4).round() / 1e4;
    Predicted {
        machine: findings.machine.clone(),
        now_s: time(findings.now.time_s),
        now_low_s: time(findings.now.low_s),
        now_high_s: time(findings.now.high_s),
        planned_s: time(findings.planned.time_s),
        low_s: time(findings.planned.low_s),
        high_s: time(findings.planned.high_s),
        remote_now: share(findings.now.remote_share),
        remote_planned: share(findings.planned.remote_share),
    }
}

fn pin(threads: &ThreadPlacement) -> Pin {
    match threads {
        ThreadPlacement::Best | ThreadPlacement::Compact => Pin::Compact,
        ThreadPlacement::Scatter => Pin::Scatter,
        ThreadPlacement::AsRecorded | ThreadPlacement::Nodes(_) => Pin::Free,
    }
}

fn wrappers(planned: &[Planned]) -> Vec<String> {
    let mut wrappers: Vec<String> = planned.iter().filter_map(|planned| planned.wrapper.clone()).collect();
    wrappers.sort();
    wrappers.dedup();
    wrappers
}

/// The layout that was chosen for each object, where a plan can name the object: alone, or together with others that are to lie alike.
fn can_be_had(model: &Model<'_>, assignment: &Assignment<'_>, weights: &[Weight]) -> Vec<Layout> {
    let objects = &model.usage.objects;
    let mut chosen = vec![Layout::FirstTouch; objects.len()];
    for choice in &assignment.choices {
        chosen[choice.object] = choice.proposals[choice.chosen].layout.clone();
    }
    let is_had = |n: usize| {
        // Objects with few accesses may lie on any node.
        let lies_alike = |id: &usize| {
            objects.iter().position(|of| of.id == *id).is_some_and(|at| {
                chosen[at] == chosen[n]
                    || are_told_by_size([&objects[at], &objects[n]])
                    || matches!(weights[at].standing, Standing::Cold | Standing::Small)
            })
        };
        named(&objects[n], objects).is_some_and(|named| named.twins.iter().all(lies_alike))
    };
    (0..objects.len()).map(|n| if is_had(n) { chosen[n].clone() } else { Layout::FirstTouch }).collect()
}

/// True for objects of one place, one of them small blocks, the other large ones: rules that gather mean the former alone.
fn are_told_by_size(objects: [&ObjectUse; 2]) -> bool {
    let has =
        |object: &ObjectUse| [true, false].map(|small| object.instances.iter().any(|of| (of.blocks > 0) == small));
    let [[a_small, a_large], [b_small, b_large]] = objects.map(has);
    !((a_small && b_small) || (a_large && b_large))
}

/// One rule for objects that have one name, which calls all of them.
fn without_twins(planned: &mut [Planned]) {
    for n in 1..planned.len() {
        let (before, after) = planned.split_at_mut(n);
        let [twin] = &after[0].objects[..] else { continue };
        let what = |of: &Object| (of.target.clone(), of.callers.clone(), of.module.clone(), of.instances.clone());
        let is_same = |of: &&mut Object| {
            what(of) == what(twin) && of.policy == twin.policy && of.gather.is_some() == twin.gather.is_some()
        };
        if let Some(rule) = before.iter_mut().flat_map(|planned| &mut planned.objects).find(is_same) {
            rule.name = Some(format!("{}, {}", rule.title(), twin.title()));
            if let (Some(Gather::ByInstance(count)), Some(Gather::ByInstance(more))) = (&mut rule.gather, &twin.gather)
            {
                *count = count.saturating_add(*more);
            }
            after[0].objects.clear();
        }
    }
}

/// All objects, those with most accesses to memory first.
fn planned(model: &Model<'_>, assignment: &Assignment<'_>, weights: &[Weight], layouts: &[Layout]) -> Vec<Planned> {
    let mut order: Vec<usize> = (0..weights.len()).filter(|&n| weights[n].share > 0.0).collect();
    order.sort_by(|&a, &b| weights[b].share.total_cmp(&weights[a].share));
    order.into_iter().map(|n| of_object(model, assignment, n, weights[n], &layouts[n])).collect()
}

fn of_object(model: &Model<'_>, assignment: &Assignment<'_>, n: usize, weight: Weight, had: &Layout) -> Planned {
    let object = &model.usage.objects[n];
    let choice = assignment.choices.iter().position(|choice| choice.object == n);
    let layout = choice.map_or(&Layout::FirstTouch, |at| {
        let choice = &assignment.choices[at];
        &choice.proposals[choice.chosen].layout
    });
    let setting = &assignment.setting;
    let local = |layout: &Layout| {
        let mut traffic = model.no_traffic();
        model.add_traffic(&mut traffic, setting, object, layout, 0);
        traffic.local_share(setting.thread_nodes)
    };
    let interleave = Layout::Interleave(model.latencies.memory_nodes.clone());
    let local = [&Layout::FirstTouch, &Layout::ByOwner, &interleave].map(local);
    let named = named(object, &model.usage.objects);
    let twins: Vec<String> = named.iter().flat_map(|named| &named.twins).filter_map(|id| name_of(model, *id)).collect();
    let named = named.filter(|_| had == layout);
    let case = Case {
        object,
        weight,
        layout,
        nodes: model.latencies.memory_nodes.len(),
        is_named: named.is_some(),
        twins: &twins,
        users: users(object),
        local,
    };
    let stable =
        choice.map_or(Stability { confidence: 1.0, others: Vec::new() }, |at| stability(model, assignment, at));
    let is_advised = *layout != Layout::FirstTouch && named.is_some();
    let map_pages = setting.unit_bytes() / 4096;
    let objects = match &named {
        Some(named) if is_advised => objects(object, named, layout, &model.latencies, map_pages),
        _ => Vec::new(),
    };
    let verdict = match weight.standing {
        Standing::Unplaceable => Verdict::Unplaceable,
        Standing::Cold => Verdict::Cold,
        Standing::Small => Verdict::Small,
        Standing::FewSamples => Verdict::Unknown,
        Standing::Open if *layout == Layout::FirstTouch && local[0] < LIES_WELL => Verdict::NoGain,
        Standing::Open if *layout == Layout::FirstTouch => Verdict::Right,
        Standing::Open if named.is_none() => Verdict::Unplaceable,
        Standing::Open if stable.confidence < STABLE => Verdict::Weak,
        Standing::Open => Verdict::Advised,
    };
    let proposed = |at: usize| choice.map(|n| &assignment.choices[n].proposals[at].layout);
    Planned {
        advice: ObjectAdvice {
            id: object.id,
            name: object.name.clone(),
            verdict,
            diagnosis: sentence(&case),
            policy: if is_advised { words(layout) } else { String::new() },
            memory_share: weight.share,
            memory_error: weight.error,
            samples: weight.samples,
            local_now: local[0],
            local_by_owner: local[1],
            local_interleaved: local[2],
            confidence: stable.confidence,
            alternatives: stable.others.iter().filter_map(|&at| proposed(at)).map(words).collect(),
            candidates: choice.map_or(Vec::new(), |at| candidates(assignment, at)),
            line: line(&case).filter(|_| is_advised),
        },
        objects,
        wrapper: named.and_then(|named| named.wrapper).filter(|_| is_advised),
    }
}

fn name_of(model: &Model<'_>, id: usize) -> Option<String> {
    model.usage.objects.iter().find(|of| of.id == id).map(|of| of.name.clone())
}

/// Threads that use an object.
fn users(object: &numamma_findings::ObjectUse) -> usize {
    let uses = object.instances.iter().flat_map(|instance| &instance.pages).flat_map(|page| &page.by_thread);
    let mut threads: Vec<usize> = uses.map(|of| of.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    threads.len()
}

/// The proposals for one object, best first.
fn candidates(assignment: &Assignment<'_>, n: usize) -> Vec<PolicyCost> {
    let choice = &assignment.choices[n];
    let others = assignment.others(n);
    let cost = |(proposal, own): (&crate::proposals::Proposal, &crate::traffic::Traffic)| {
        let mut all = others.clone();
        all.add_all(own, 1.0);
        PolicyCost {
            policy: words(&proposal.layout),
            time_s: assignment.time_s(&all),
            local_share: own.local_share(assignment.setting.thread_nodes),
        }
    };
    let mut costs: Vec<PolicyCost> = choice.proposals.iter().zip(&choice.traffic).map(cost).collect();
    costs.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    costs
}
