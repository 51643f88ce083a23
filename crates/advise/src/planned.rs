//! The layouts that a plan gives the objects of a recording.

use std::ops::RangeInclusive;

use numamma_findings::{InstanceUse, ObjectUse};
use numamma_plan::{Gather, Nodes, Object, Pin, Plan, Policy, Site, Target};

use crate::layout::Layout;
use crate::model::Model;
use crate::options::ThreadPlacement;
use crate::predict::{Candidate, Layouts, workers};
use crate::target::{Named, file_name, named};
use crate::weights::weights;

/// The plan as a candidate; what it means otherwise than predicted is added to `remarks`.
pub fn candidate(model: &Model<'_>, plan: &Plan, threads: &ThreadPlacement, remarks: &mut Vec<String>) -> Candidate {
    let threads = match &plan.pin {
        Pin::Compact => ThreadPlacement::Compact,
        Pin::Scatter => ThreadPlacement::Scatter,
        Pin::Free => threads.clone(),
        Pin::Places(_) | Pin::List(_) => {
            remarks
                .push("The plan pins threads to CPUs: their nodes are taken as asked for, not from the plan.".into());
            threads.clone()
        }
    };
    if plan.objects.iter().any(|object| !object.phases.is_empty()) {
        remarks.push("Policies that the plan has for phases are not predicted.".into());
    }
    let thread_nodes = model.thread_nodes(&threads).unwrap_or_default();
    let layouts = model.usage.objects.iter().map(|object| of_object(model, plan, object, &thread_nodes)).collect();
    Candidate { name: "plan".into(), threads, layouts: Layouts::Each(layouts) }
}

/// Each instance has the first policy that means it.
fn of_object(model: &Model<'_>, plan: &Plan, object: &ObjectUse, thread_nodes: &[usize]) -> Layout {
    let named = named(object, &model.usage.objects);
    let mut ranges: Vec<(RangeInclusive<u64>, Layout)> = Vec::new();
    for instance in &object.instances {
        let rule = plan.objects.iter().find(|rule| is_meant(rule, object, named.as_ref(), instance));
        let layout =
            rule.map_or(Layout::FirstTouch, |rule| match (layout(model, &rule.policy, thread_nodes), &rule.gather) {
                (Layout::Block(nodes), Some(Gather::ByInstance(_))) => Layout::Gather(nodes),
                // On the node of the thread that allocates.
                (_, Some(Gather::ByThread)) => Layout::FirstTouch,
                (layout, _) => layout,
            });
        match ranges.last_mut() {
            Some((range, last)) if *last == layout => *range = *range.start()..=instance.instance,
            _ => ranges.push((instance.instance..=instance.instance, layout)),
        }
    }
    match ranges.len() {
        0 => Layout::FirstTouch,
        1 => ranges.swap_remove(0).1,
        _ => Layout::Instances(ranges),
    }
}

fn is_meant(rule: &Object, object: &ObjectUse, named: Option<&Named>, instance: &InstanceUse) -> bool {
    let number = u32::try_from(instance.instance).unwrap_or(u32::MAX);
    let is_kind = |kind: &str| object.kind == kind;
    let is_place = |rule: &Option<Site>| match (rule, named.map(|named| &named.target)) {
        (None, _) => true,
        (Some(rule), Some(Target::Heap(Some(own)) | Target::Map(Some(own)))) => is_site(rule, own),
        (Some(_), _) => false,
    };
    let has_callers = named.is_some_and(|named| rule.callers.is_empty() || rule.callers == named.callers);
    let target = match &rule.target {
        Target::Static(name) => is_kind("static") && object.name == *name && is_module(rule, object),
        Target::Heap(site) => is_kind("heap") && is_place(site) && (site.is_none() || has_callers),
        Target::Map(site) => is_kind("mmap") && is_place(site) && (site.is_none() || has_callers),
        Target::Label(name) => is_kind("annotated") && object.name == *name,
        Target::Any => ["static", "heap", "mmap"].contains(&object.kind.as_str()),
    };
    // Small blocks alone are gathered, and nothing else is done about them.
    if instance.blocks > 0 || rule.gather.is_some() {
        return target && instance.blocks > 0 && rule.gather.is_some();
    }
    target && rule.bytes.contains(&instance.bytes) && rule.instances.contains(&number)
}

fn is_module(rule: &Object, object: &ObjectUse) -> bool {
    rule.module.is_none() || rule.module.as_deref().map(file_name) == object.module.as_deref().map(file_name)
}

/// True if a place that a plan names is this one; what it leaves out may be anything.
fn is_site(rule: &Site, own: &Site) -> bool {
    match (rule, own) {
        (Site::Source { function, line }, Site::Source { function: own_function, line: own_line }) => {
            let is_line = |line: &(String, u32)| {
                own_line.as_ref().is_some_and(|own| own.1 == line.1 && file_name(&own.0) == file_name(&line.0))
            };
            (function.is_none() || function == own_function) && line.as_ref().is_none_or(is_line)
        }
        (rule, own) => rule == own,
    }
}

fn layout(model: &Model<'_>, policy: &Policy, thread_nodes: &[usize]) -> Layout {
    let memory = &model.latencies.memory_nodes;
    let list = |nodes: &Nodes| -> Vec<usize> {
        let nodes: Vec<usize> = match nodes {
            Nodes::All => memory.clone(),
            Nodes::WithCpus => memory.iter().copied().filter(|&node| model.latencies.cpus[node] > 0).collect(),
            Nodes::MemoryOnly => memory.iter().copied().filter(|&node| model.latencies.cpus[node] == 0).collect(),
            Nodes::List(list) => list.iter().map(|&node| node as usize).filter(|node| memory.contains(node)).collect(),
        };
        if nodes.is_empty() { memory.clone() } else { nodes }
    };
    match policy {
        Policy::FirstTouch => Layout::FirstTouch,
        Policy::Bind(nodes) | Policy::Preferred(nodes) => match list(nodes)[..] {
            [node] => Layout::Bind(node),
            ref several => Layout::Interleave(several.to_vec()),
        },
        Policy::Interleave(nodes) => Layout::Interleave(list(nodes)),
        Policy::Weighted(nodes) => match weights(&model.latencies, &workers(model, thread_nodes)) {
            Some(weights) => Layout::Weighted(weights),
            None => Layout::Interleave(list(nodes)),
        },
        Policy::Block(nodes) => Layout::Block(list(nodes)),
        Policy::BlockCyclic { nodes, bytes } => Layout::BlockCyclic { nodes: list(nodes), bytes: *bytes },
        Policy::Map { runs, repeat } => {
            let node = |node: u32| if memory.contains(&(node as usize)) { node as usize } else { memory[0] };
            Layout::Map { runs: runs.iter().map(|&(n, pages)| (node(n), pages)).collect(), repeat: *repeat }
        }
        Policy::FollowThread(thread) => Layout::Bind(thread_nodes.get(*thread as usize).copied().unwrap_or(memory[0])),
    }
}
