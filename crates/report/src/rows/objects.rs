//! Objects, in the order that is asked for.

use numamma_findings::{FirstTouch, Object, ThreadShare};

use super::{Cut, Selection, finite};
use crate::options::Sort;

impl<'a> Selection<'a> {
    /// Objects with accesses of the kind that is asked for; one that is asked for by name is there in any case.
    pub fn objects(&self) -> Cut<&'a Object> {
        let rows = self.scope();
        let rows =
            rows.filter(|object| self.object.is_some() || self.wanted(object.accesses.reads, object.accesses.writes));
        self.order(rows.collect(), |object| self.weight(object))
    }

    /// Key by which objects are ordered. Cost is not split into reads and writes.
    pub fn weight(&self, object: &Object) -> f64 {
        match self.options.sort {
            Sort::Cost => object.cost.seconds,
            Sort::Accesses => self.count(object.accesses.reads, object.accesses.writes),
            Sort::Remote => match object.remote.reads.zip(object.remote.writes) {
                Some((reads, writes)) => self.count(reads, writes),
                None => finite(object.remote.share) * finite(object.cost.seconds),
            },
            Sort::Memory => object.memory.map_or(0.0, |memory| self.count(memory.reads, memory.writes)),
        }
    }

    /// The threads of an object or instance with their shares, largest first: of cost, or of accesses where those are asked for or
    /// where no cost is known.
    pub fn thread_shares(&self, threads: &[ThreadShare]) -> Vec<(usize, f64)> {
        let costless = threads.iter().all(|share| finite(share.cost_share) == 0.0);
        let by_access = self.options.sort != Sort::Cost || costless;
        let share = |of: &ThreadShare| of.access_share.filter(|_| by_access).unwrap_or(of.cost_share);
        let mut shares: Vec<_> = threads.iter().map(|thread| (thread.thread, finite(share(thread)))).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// Share of first touches by thread, largest first.
pub fn first_touch_shares(touches: &[FirstTouch]) -> Vec<(usize, f64)> {
    let mut pages = std::collections::BTreeMap::<usize, u64>::new();
    for touch in touches {
        *pages.entry(touch.thread).or_default() += touch.pages;
    }
    let total: u64 = pages.values().sum();
    let mut shares: Vec<_> = pages.into_iter().map(|(thread, n)| (thread, n as f64 / total.max(1) as f64)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}
