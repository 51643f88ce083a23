//! Threads, of the whole run or of one object.

use std::collections::HashMap;

use numamma_findings::{Object, Thread};

use super::{Cut, Selection, finite};
use crate::options::Sort;

/// One thread.
pub struct ThreadRow<'a> {
    /// Number.
    pub number: usize,
    /// Facts about it; an object may name threads that the list of threads lacks.
    pub thread: Option<&'a Thread>,
    /// Samples; not split by object.
    pub samples: Option<u64>,
    /// Cost in seconds.
    pub cost_s: f64,
    /// Share of the cost of the run, or of the object.
    pub cost_share: f64,
    /// Half-width of the 95 % interval of `cost_share`.
    pub cost_error: Option<f64>,
    /// Reads and writes, if they were counted; those of one object are not told apart.
    pub accesses: ThreadAccesses,
    /// Accesses that reach memory, if known; not split by object.
    pub memory: Option<f64>,
    /// The object that costs it most and the share of its cost.
    pub hottest: Option<(&'a Object, f64)>,
}

/// Accesses of a thread.
pub enum ThreadAccesses {
    /// Reads and writes.
    Split(f64, f64),
    /// Both together.
    Total(f64),
    /// Not counted.
    Unknown,
}

impl ThreadAccesses {
    /// Reads and writes together.
    pub fn total(&self) -> f64 {
        match self {
            Self::Split(reads, writes) => reads + writes,
            Self::Total(total) => *total,
            Self::Unknown => 0.0,
        }
    }
}

impl<'a> Selection<'a> {
    /// Threads: of the run, or the part that each has of the object.
    pub fn threads(&self) -> Cut<ThreadRow<'a>> {
        let rows = match self.object {
            Some(object) => self.threads_of(object),
            None => self.threads_of_run(),
        };
        self.order(rows, |row| match (self.options.sort, &row.accesses) {
            (Sort::Cost, _) => row.cost_s,
            (Sort::Memory, _) => row.memory.unwrap_or_default(),
            (_, ThreadAccesses::Split(reads, writes)) => self.count(*reads, *writes),
            (_, ThreadAccesses::Total(total)) => *total,
            (_, ThreadAccesses::Unknown) => row.cost_s,
        })
    }

    fn threads_of_run(&self) -> Vec<ThreadRow<'a>> {
        let total: f64 = self.findings.threads.iter().map(|thread| finite(thread.cost_s)).sum();
        let mut hottest = HashMap::<usize, (&Object, f64)>::new();
        for object in &self.findings.objects {
            for share in &object.threads {
                let cost = finite(object.cost.seconds) * finite(share.cost_share);
                let best = hottest.entry(share.thread).or_insert((object, cost));
                if cost > best.1 {
                    *best = (object, cost);
                }
            }
        }
        let rows = self.findings.threads.iter().filter(|thread| match thread.reads.zip(thread.writes) {
            Some((reads, writes)) => self.wanted(reads, writes),
            None => true,
        });
        rows.map(|thread| ThreadRow {
            number: thread.thread,
            thread: Some(thread),
            samples: Some(thread.samples),
            cost_s: finite(thread.cost_s),
            cost_share: ratio(thread.cost_s, total),
            cost_error: thread.cost_error,
            accesses: match thread.reads.zip(thread.writes) {
                Some((reads, writes)) => ThreadAccesses::Split(finite(reads), finite(writes)),
                None => ThreadAccesses::Unknown,
            },
            memory: thread.memory.map(finite),
            hottest: hottest.get(&thread.thread).map(|(object, cost)| (*object, ratio(*cost, thread.cost_s).min(1.0))),
        })
        .collect()
    }

    fn threads_of(&self, object: &'a Object) -> Vec<ThreadRow<'a>> {
        let known: HashMap<usize, &Thread> =
            self.findings.threads.iter().map(|thread| (thread.thread, thread)).collect();
        let accesses = self.count(object.accesses.reads, object.accesses.writes);
        let rows = object.threads.iter().map(|share| ThreadRow {
            number: share.thread,
            thread: known.get(&share.thread).copied(),
            samples: None,
            cost_s: finite(object.cost.seconds) * finite(share.cost_share),
            cost_share: finite(share.cost_share),
            cost_error: share.error,
            accesses: share
                .access_share
                .map_or(ThreadAccesses::Unknown, |share| ThreadAccesses::Total(accesses * finite(share))),
            memory: None,
            hottest: None,
        });
        rows.collect()
    }
}

/// `part` of `whole`, 0 where there is nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if finite(whole) > 0.0 { finite(part) / whole } else { 0.0 }
}
