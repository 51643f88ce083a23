//! Several recordings of one program: what they have in common, and how much they differ without reason.

use numamma_findings::Comparable;

use crate::{Input, comparable, matching};

/// The recordings of one side. The first stands for all where one must: pages, threads, names.
#[derive(Debug)]
pub struct Runs<'a> {
    all: &'a [Input<'a>],
    /// By further recording: which of its objects each object of the first is.
    partners: Vec<Vec<Option<usize>>>,
}

impl<'a> Runs<'a> {
    /// Finds the objects of the first recording in the others.
    pub fn new(all: &'a [Input<'a>]) -> Self {
        let partners = all[1..].iter().map(|other| {
            let mut partners = vec![None; all[0].basis.objects.len()];
            for pair in matching::pairs(&all[0].basis.objects, &other.basis.objects) {
                partners[pair.a] = Some(pair.b);
            }
            partners
        });
        Self { all, partners: partners.collect() }
    }

    /// The first recording.
    pub fn first(&self) -> &Input<'a> {
        &self.all[0]
    }

    /// The others.
    pub fn others(&self) -> &'a [Input<'a>] {
        &self.all[1..]
    }

    /// A number of each run.
    pub fn each<T>(&self, number: impl Fn(&Input<'a>) -> T) -> Vec<T> {
        self.all.iter().map(number).collect()
    }

    /// A number of an object of the first recording in each run; `None` is asked for where a run lacks the object.
    pub fn each_of<T>(&self, object: usize, number: impl Fn(&Input<'a>, Option<usize>) -> T) -> Vec<T> {
        let first = number(&self.all[0], Some(object));
        let others = self.others().iter().zip(&self.partners).map(|(run, partners)| number(run, partners[object]));
        std::iter::once(first).chain(others).collect()
    }
}

/// Numbers of all recordings that can be compared.
pub fn comparable_runs(a: &Runs<'_>, b: &Runs<'_>) -> Comparable {
    let first = a.first().findings;
    let others = b.all.iter().chain(a.others()).map(|run| comparable(first, run.findings));
    others
        .reduce(|x, y| Comparable {
            cost: x.cost && y.cost,
            accesses: x.accesses && y.accesses,
            counts: x.counts && y.counts,
            remote: x.remote && y.remote,
            pages: x.pages && y.pages,
        })
        .unwrap_or_default()
}
