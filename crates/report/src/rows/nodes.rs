//! NUMA nodes and what lies on them.

use std::collections::{BTreeMap, BTreeSet};

use numamma_findings::Object;

use super::{Cut, Selection};

/// One NUMA node.
pub struct NodeRow<'a> {
    /// Number; `None`: pages whose node was not seen.
    pub node: Option<i32>,
    /// Pages of objects on it.
    pub pages: u64,
    /// Share of the pages of all objects.
    pub page_share: f64,
    /// Bytes of these pages.
    pub bytes: u64,
    /// Objects with pages on it.
    pub objects: usize,
    /// Samples in these pages, where pages were asked for.
    pub samples: Option<u64>,
    /// Threads that accessed these pages, where pages were asked for.
    pub threads: Option<usize>,
    /// Object with most pages on it, and how many.
    pub largest: Option<(&'a Object, u64)>,
}

#[derive(Default)]
struct Tally<'a> {
    pages: u64,
    objects: usize,
    samples: u64,
    threads: BTreeSet<usize>,
    largest: Option<(&'a Object, u64)>,
}

impl<'a> Selection<'a> {
    /// Nodes; most samples first where they are known, else most pages.
    pub fn nodes(&self) -> Cut<NodeRow<'a>> {
        let mut tallies = BTreeMap::<Option<i32>, Tally>::new();
        let mut detailed = false;
        for object in self.scope() {
            let known: u64 = object.nodes.values().sum();
            let unknown = (object.pages > known).then(|| (None, object.pages - known));
            for (node, pages) in object.nodes.iter().map(|(node, pages)| (Some(*node), *pages)).chain(unknown) {
                let tally = tallies.entry(node).or_default();
                tally.pages += pages;
                tally.objects += 1;
                if tally.largest.is_none_or(|(_, most)| pages > most) {
                    tally.largest = Some((object, pages));
                }
            }
            for page in object.detail.iter().flat_map(|detail| &detail.pages) {
                detailed = true;
                let tally = tallies.entry(page.node).or_default();
                tally.samples += page.samples;
                tally.threads.extend(page.by_thread.keys());
            }
        }
        let total: u64 = tallies.values().map(|tally| tally.pages).sum();
        let rows = tallies.into_iter().map(|(node, tally)| NodeRow {
            node,
            pages: tally.pages,
            page_share: tally.pages as f64 / total.max(1) as f64,
            bytes: tally.pages * self.findings.run.page_bytes,
            objects: tally.objects,
            samples: detailed.then_some(tally.samples),
            threads: detailed.then_some(tally.threads.len()),
            largest: tally.largest,
        });
        self.order(rows.collect(), |row| row.samples.unwrap_or(row.pages) as f64)
    }
}
