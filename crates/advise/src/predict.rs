//! Predictions of placements.

use numamma_findings::{LinkLoad, NodeLoad, ObjectUse, PLACEMENT_VERSION, Prediction, Predictions, Usage};
use numamma_topology::MachineModel;

use crate::error::AdviseError;
use crate::extrapolate::extrapolate;
use crate::interval::{corrected, interval};
use crate::layout::Layout;
use crate::locality::imbalance;
use crate::model::Model;
use crate::options::{Options, ThreadPlacement};
use crate::planned;
use crate::time::{LINE, Otherwise};
use crate::traffic::Traffic;
use crate::weights::{is_even, weights};

/// A placement to predict.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What to call it.
    pub name: String,
    /// Where the threads run.
    pub threads: ThreadPlacement,
    /// Where each object lies.
    pub layouts: Layouts,
}

/// Layouts of all objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Layouts {
    /// The same for all.
    All(Layout),
    /// One for each, in the order of [`Usage::objects`].
    Each(Vec<Layout>),
}

impl Layouts {
    /// That of the object with this index.
    pub fn of(&self, object: usize) -> &Layout {
        match self {
            Self::All(layout) => layout,
            Self::Each(layouts) => &layouts[object],
        }
    }
}

/// Predicts the usual placements.
///
/// # Errors
/// What is missing or wrong, in one line.
pub fn predict(usage: &Usage, machine: &MachineModel, options: &Options) -> Result<Predictions, AdviseError> {
    let (usage, notes) = extrapolate(usage, options.thread_count)?;
    let usage = usage.as_ref();
    let model = Model::new(usage, machine, options)?;
    let mut candidates = usual(&model)?;
    let is_recorded = notes.is_empty();
    let mut assumptions = [notes, model.demand.assumptions.clone(), by_samples(&model).into_iter().collect()].concat();
    if let Some(plan) = &options.plan {
        let threads = candidates.last().map_or(ThreadPlacement::Compact, |last| last.threads.clone());
        candidates.push(planned::candidate(&model, plan, &threads, &mut assumptions));
    }
    let predictions = candidates.iter().map(|candidate| of_candidate(&model, candidate));
    let candidates = predictions.collect::<Result<_, _>>()?;
    let is_measured = usage.threads.iter().all(|thread| thread.busy_s.is_some()) && usage.wall_s > 0.0 && is_recorded;
    Ok(Predictions {
        version: PLACEMENT_VERSION,
        machine: machine.name.clone(),
        threads: model.demand.included.iter().filter(|&&is| is).count(),
        memory_only: model.demand.memory_only,
        measured_s: is_measured.then_some(usage.wall_s),
        candidates,
        assumptions,
    })
}

/// The limit of a placement of each page by its owner.
pub fn by_samples(model: &Model<'_>) -> Option<String> {
    let sentence = "By owner places each page by its own samples: where they are few, it looks better than it is.";
    (!model.demand.is_exact()).then(|| sentence.to_owned())
}

/// As recorded where the machine has the nodes, then the policies for all objects alike.
pub fn usual(model: &Model<'_>) -> Result<Vec<Candidate>, AdviseError> {
    let threads = match &model.options.threads {
        ThreadPlacement::Best if model.demand.processes > 1 => ThreadPlacement::Scatter,
        ThreadPlacement::Best => ThreadPlacement::Compact,
        placement => placement.clone(),
    };
    let thread_nodes = model.thread_nodes(&threads)?;
    let all =
        |name: &str, layout| Candidate { name: name.into(), threads: threads.clone(), layouts: Layouts::All(layout) };
    let memory = model.latencies.memory_nodes.clone();
    let mut candidates = Vec::new();
    if model.holds_recorded().is_ok() {
        candidates.push(Candidate { threads: ThreadPlacement::AsRecorded, ..all("as recorded", Layout::AsRecorded) });
    }
    candidates.push(all("first touch", Layout::FirstTouch));
    candidates.push(all("interleave", Layout::Interleave(memory.clone())));
    let workers = workers(model, &thread_nodes);
    if let Some(weights) = weights(&model.latencies, &workers).filter(|weights| !is_even(weights)) {
        candidates.push(all("weighted interleave", Layout::Weighted(weights)));
    }
    candidates.push(all("block", Layout::Block(memory)));
    candidates.push(all("by owner", Layout::ByOwner));
    candidates.push(all("worst", worst(model, &thread_nodes)));
    Ok(candidates)
}

/// Nodes with threads.
pub fn workers(model: &Model<'_>, thread_nodes: &[usize]) -> Vec<usize> {
    let included = thread_nodes.iter().zip(&model.demand.included).filter(|(_, is)| **is);
    let mut workers: Vec<usize> = included.map(|(node, _)| *node).collect();
    workers.sort_unstable();
    workers.dedup();
    workers
}

/// Everything on the node where that costs most.
fn worst(model: &Model<'_>, thread_nodes: &[usize]) -> Layout {
    let time = |node: usize| {
        let traffic = total(model, thread_nodes, &Layouts::All(Layout::Bind(node)));
        model.cost(thread_nodes, &traffic, Otherwise::default()).time_s
    };
    let worst = model.latencies.memory_nodes.iter().copied().max_by(|&a, &b| time(a).total_cmp(&time(b)));
    Layout::Bind(worst.unwrap_or(0))
}

/// The accesses of all objects.
pub fn total(model: &Model<'_>, thread_nodes: &[usize], layouts: &Layouts) -> Traffic {
    let setting = model.setting(thread_nodes);
    let mut traffic = model.no_traffic();
    for (n, object) in model.usage.objects.iter().enumerate() {
        let layout = own_layout(object, layouts.of(n));
        let least_bytes = if matches!(layouts, Layouts::All(_)) { least_bytes(layout) } else { 0 };
        model.add_traffic(&mut traffic, &setting, object, layout, least_bytes);
    }
    traffic
}

/// Instances with fewer bytes are left where they are touched first, as `numamma apply --policy` leaves them.
fn least_bytes(layout: &Layout) -> u64 {
    match layout {
        Layout::Interleave(_) | Layout::Weighted(_) | Layout::Block(_) | Layout::BlockCyclic { .. } => {
            numamma_plan::WHOLE_LEAST_BYTES
        }
        _ => 0,
    }
}

/// Stacks and thread-local memory lie with their threads, whatever the policy.
pub fn own_layout<'a>(object: &ObjectUse, layout: &'a Layout) -> &'a Layout {
    match layout {
        Layout::AsRecorded => layout,
        _ if is_placeable(object) => layout,
        _ => &Layout::FirstTouch,
    }
}

/// True if a plan can place it.
pub fn is_placeable(object: &ObjectUse) -> bool {
    !matches!(object.kind.as_str(), "stack" | "tls")
}

/// Predicts one placement.
///
/// # Errors
/// If the machine does not have the threads' nodes.
pub fn of_candidate(model: &Model<'_>, candidate: &Candidate) -> Result<Prediction, AdviseError> {
    let thread_nodes = model.thread_nodes(&candidate.threads)?;
    let traffic = total(model, &thread_nodes, &candidate.layouts);
    Ok(prediction(model, &candidate.name, &candidate.threads, &thread_nodes, &traffic))
}

/// The numbers of a placement.
pub fn prediction(
    model: &Model<'_>,
    name: &str,
    threads: &ThreadPlacement,
    thread_nodes: &[usize],
    traffic: &Traffic,
) -> Prediction {
    let cost = model.cost(thread_nodes, traffic, Otherwise::default());
    let (time_s, uncertainty) = corrected(model, thread_nodes, traffic, cost.time_s);
    let (low_s, high_s) = interval(time_s, &uncertainty);
    let links = traffic.by_link(thread_nodes);
    let nodes = model.latencies.nodes;
    let all: f64 = links.iter().sum();
    let share = |misses: f64| if all > 0.0 { misses / all } else { 0.0 };
    let gb_s = |misses: f64| match cost.time_s > 0.0 {
        true => misses * model.demand.overlap * LINE / cost.time_s / 1e9,
        false => 0.0,
    };
    let by_node = |to: usize| links.iter().skip(to).step_by(nodes).sum::<f64>();
    let memory = &model.latencies.memory_nodes;
    let node_load = |&node: &usize| NodeLoad {
        node,
        share: share(by_node(node)),
        waiting_cpus: if cost.time_s > 0.0 { cost.node_waiting_s[node] / cost.time_s } else { 0.0 },
        gb_s: gb_s(by_node(node)),
    };
    let is_link = |at: &usize| at / nodes != at % nodes && links[*at] > 0.0;
    let mut link_loads: Vec<LinkLoad> = (0..links.len())
        .filter(is_link)
        .map(|at| LinkLoad { from: at / nodes, to: at % nodes, share: share(links[at]), gb_s: gb_s(links[at]) })
        .collect();
    link_loads.sort_by(|a, b| b.share.total_cmp(&a.share));
    Prediction {
        name: name.to_owned(),
        threads: threads.name().to_owned(),
        time_s,
        low_s,
        high_s,
        remote_share: 1.0 - traffic.local_share(thread_nodes),
        imbalance: imbalance(&memory.iter().map(|&node| by_node(node)).collect::<Vec<_>>()),
        nodes: memory.iter().map(node_load).collect(),
        links: link_loads,
        uncertainty,
    }
}
