//! The node of each thread.

use numamma_findings::Usage;

use crate::error::AdviseError;
use crate::latencies::Latencies;
use crate::options::ThreadPlacement;

/// The node of each thread, by thread number. Threads of processes that are not predicted take no CPU; what they touch first lies on the node
/// of the next one that is.
pub fn thread_nodes(
    usage: &Usage,
    included: &[bool],
    machine: &str,
    latencies: &Latencies,
    placement: &ThreadPlacement,
) -> Result<Vec<usize>, AdviseError> {
    let check = |what: String, node: usize| {
        let name = || machine.to_owned();
        let is_there = latencies.cpus.get(node).is_some_and(|&cpus| cpus > 0);
        let missing = || AdviseError::NoSuchNode { what, node, machine: name(), nodes: latencies.nodes };
        is_there.then_some(node).ok_or_else(missing)
    };
    let slots: Vec<usize> = match placement {
        ThreadPlacement::AsRecorded => {
            let node = |(n, thread): (usize, &numamma_findings::ThreadUse)| match thread.node {
                _ if !included[n] => Ok(thread.node.filter(|&node| node < latencies.nodes).unwrap_or(0)),
                Some(node) => check(format!("thread {n}"), node),
                None => Err(AdviseError::Moved(n)),
            };
            return usage.threads.iter().enumerate().map(node).collect();
        }
        ThreadPlacement::Nodes(nodes) if nodes.is_empty() => {
            return Err(AdviseError::Option("an empty list of nodes for the threads".into()));
        }
        ThreadPlacement::Nodes(nodes) => {
            nodes.iter().map(|&node| check("a thread in the list".into(), node)).collect::<Result<_, _>>()?
        }
        ThreadPlacement::Compact | ThreadPlacement::Best => compact(latencies),
        ThreadPlacement::Scatter => scatter(latencies),
    };
    let number = |thread: usize| included[..thread].iter().filter(|&&is| is).count();
    Ok((0..usage.threads.len()).map(|thread| slots[number(thread) % slots.len()]).collect())
}

/// Node by node.
fn compact(latencies: &Latencies) -> Vec<usize> {
    latencies.cpu_nodes().flat_map(|node| (0..latencies.cpus[node]).map(move |_| node)).collect()
}

/// The first CPU of each node, then the second.
fn scatter(latencies: &Latencies) -> Vec<usize> {
    let most = latencies.cpus.iter().copied().max().unwrap_or(0);
    (0..most).flat_map(|rank| latencies.cpu_nodes().filter(move |&node| rank < latencies.cpus[node])).collect()
}
