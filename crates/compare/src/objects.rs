//! Objects of both recordings, and of one alone.

use numamma_findings::{
    AccessChange, Agreement, Bases, Comparable, CostChange, Count, Matched, ObjectChange, Pair, Unmatched, share_error,
};
use rustc_hash::FxHashSet;

use crate::Input;
use crate::change::{self, Measured, change as differ, time_change};
use crate::runs::Runs;

/// How an object differs; `matched` says which it is in the first recording of each side.
pub fn change(
    a: &Runs<'_>,
    b: &Runs<'_>,
    matched: Matched,
    comparable: &Comparable,
    ownership: Option<Agreement>,
) -> ObjectChange {
    let of_a = &a.first().findings.objects[matched.a];
    let of_b = &b.first().findings.objects[matched.b];
    let both = |number: fn(&Input<'_>, Option<usize>) -> Measured| {
        (a.each_of(matched.a, number), b.each_of(matched.b, number))
    };
    let (seconds_a, seconds_b) = both(seconds);
    let (shares_a, shares_b) = both(cost_share);
    ObjectChange {
        name: of_a.name.clone(),
        kind: of_a.kind.clone(),
        module: of_a.module.clone(),
        site: of_a.site.clone(),
        matched,
        instances: Count { a: of_a.instances, b: of_b.instances },
        bytes: Count { a: of_a.bytes, b: of_b.bytes },
        cost: CostChange {
            seconds: time_change(&seconds_a, &seconds_b, comparable.cost),
            share: time_change(&shares_a, &shares_b, comparable.cost),
        },
        accesses: accesses(a, b, matched, comparable),
        remote: remote(a, matched.a)
            .zip(remote(b, matched.b))
            .filter(|_| comparable.remote)
            .map(|(a, b)| differ(&a, &b, true)),
        ownership,
    }
}

fn seconds(of: &Input<'_>, object: Option<usize>) -> Measured {
    let (samples, seconds) = object.map_or((0, 0.0), |id| {
        let object = &of.findings.objects[id];
        (object.samples, object.cost.seconds)
    });
    change::seconds(of.basis, samples, seconds)
}

fn cost_share(of: &Input<'_>, object: Option<usize>) -> Measured {
    match object {
        Some(id) => (of.findings.objects[id].cost.share, of.findings.objects[id].cost.error),
        None => (0.0, share_error(0, of.basis.data_samples)),
    }
}

/// The share of the accesses; what was counted and not sampled has no error.
fn access_share(of: &Input<'_>, object: Option<usize>) -> Measured {
    let sampled = match object {
        Some(id) => (of.findings.objects[id].accesses.share, of.findings.objects[id].accesses.error),
        None => (0.0, share_error(0, of.basis.data_samples)),
    };
    if of.exact() { (sampled.0, Some(0.0)) } else { sampled }
}

/// The remote shares of the runs that know one; `None` if none does.
fn remote(runs: &Runs<'_>, object: usize) -> Option<Vec<Measured>> {
    let nothing = (f64::NAN, None);
    let share = |of: &Input<'_>, object: Option<usize>| {
        let basis = object.map(|id| of.basis.objects[id].remote);
        basis.and_then(|basis| change::remote_share(basis, of.exact())).unwrap_or(nothing)
    };
    let shares: Vec<Measured> = runs.each_of(object, share).into_iter().filter(|(share, _)| !share.is_nan()).collect();
    (!shares.is_empty()).then_some(shares)
}

/// A difference from a guess is not said to be beyond its error.
fn accesses(a: &Runs<'_>, b: &Runs<'_>, matched: Matched, comparable: &Comparable) -> AccessChange {
    let (of_a, of_b) = (Counted::of(a, matched.a), Counted::of(b, matched.b));
    let shares = (a.each_of(matched.a, access_share), b.each_of(matched.b, access_share));
    let mut accesses = AccessChange {
        share: differ(&shares.0, &shares.1, comparable.accesses),
        reads: of_a.reads.zip(of_b.reads).map(|(a, b)| Pair { a, b }),
        writes: of_a.writes.zip(of_b.writes).map(|(a, b)| Pair { a, b }),
        basis: Bases { a: of_a.basis, b: of_b.basis },
    };
    if !accesses.is_stated() {
        accesses.share.significant = None;
    }
    accesses
}

/// Accesses of an object, as means over the runs of a side.
struct Counted {
    /// Where they were counted one by one.
    reads: Option<f64>,
    writes: Option<f64>,
    /// The least of all runs.
    basis: Option<f64>,
}

impl Counted {
    fn of(runs: &Runs<'_>, object: usize) -> Self {
        let in_run = |run: &Input<'_>, object: Option<usize>| object.map(|id| run.findings.objects[id].accesses);
        let all: Vec<_> = runs.each_of(object, in_run).into_iter().flatten().collect();
        let runs = 1 + runs.others().len();
        let counted: Option<Vec<(f64, f64)>> = all.iter().map(|accesses| accesses.counted()).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| Some(counted.as_ref()?.iter().map(of).sum::<f64>() / runs as f64);
        Self {
            reads: mean(&|(reads, _)| *reads),
            writes: mean(&|(_, writes)| *writes),
            basis: all.iter().filter_map(|accesses| accesses.basis).reduce(f64::min),
        }
    }
}

/// The largest share in either recording first: of the cost, where costs can be compared.
pub fn sort(objects: &mut [ObjectChange], comparable: &Comparable) {
    let larger = |of: &numamma_findings::Change| of.a.max(of.b);
    let rank = |object: &ObjectChange| {
        let (cost, accesses) = (larger(&object.cost.share), larger(&object.accesses.share));
        if comparable.cost { (cost, accesses) } else { (accesses, cost) }
    };
    objects.sort_by(|a, b| {
        let (ra, rb) = (rank(a), rank(b));
        rb.0.total_cmp(&ra.0).then(rb.1.total_cmp(&ra.1)).then_with(|| a.name.cmp(&b.name))
    });
}

/// The objects that are not matched, in the order of the report.
pub fn alone(of: &Input<'_>, matched: impl Iterator<Item = usize>) -> Vec<Unmatched> {
    let matched: FxHashSet<usize> = matched.collect();
    let alone = of.findings.objects.iter().enumerate().filter(|(position, _)| !matched.contains(position));
    let alone = alone.map(|(_, object)| Unmatched {
        id: object.id,
        name: object.name.clone(),
        kind: object.kind.clone(),
        site: object.site.clone(),
        cost: object.cost,
        accesses: object.accesses,
    });
    alone.collect()
}
