//! Objects of both recordings, and of one alone.

use numamma_findings::{
    AccessChange, Agreement, Comparable, CostChange, Count, Grounds, Matched, ObjectChange, Pair, Unmatched,
};
use rustc_hash::FxHashSet;

use crate::Input;
use crate::change::{self, Measured, change as differ};

/// How an object differs.
pub fn change(
    a: &Input<'_>,
    b: &Input<'_>,
    matched: Matched,
    comparable: &Comparable,
    ownership: Option<Agreement>,
) -> ObjectChange {
    let (of_a, of_b) = (&a.findings.objects[matched.a], &b.findings.objects[matched.b]);
    let seconds = |of: &Input<'_>, id: usize| {
        let object = &of.findings.objects[id];
        change::seconds(of.basis, object.samples, object.cost.seconds)
    };
    let remote = |of: &Input<'_>, id: usize| change::remote_share(of.basis.objects[id].remote, of.exact());
    ObjectChange {
        name: of_a.name.clone(),
        kind: of_a.kind.clone(),
        module: of_a.module.clone(),
        site: of_a.site.clone(),
        matched,
        instances: Count { a: of_a.instances, b: of_b.instances },
        bytes: Count { a: of_a.bytes, b: of_b.bytes },
        cost: CostChange {
            seconds: differ(seconds(a, matched.a), seconds(b, matched.b), comparable.cost),
            share: differ((of_a.cost.share, of_a.cost.error), (of_b.cost.share, of_b.cost.error), comparable.cost),
        },
        accesses: accesses(a, b, matched, comparable),
        remote: remote(a, matched.a)
            .zip(remote(b, matched.b))
            .filter(|_| comparable.remote)
            .map(|(a, b)| differ(a, b, true)),
        ownership,
    }
}

/// A difference from a guess is not said to be beyond its error.
fn accesses(a: &Input<'_>, b: &Input<'_>, matched: Matched, comparable: &Comparable) -> AccessChange {
    let (of_a, of_b) = (a.findings.objects[matched.a].accesses, b.findings.objects[matched.b].accesses);
    let mut accesses = AccessChange {
        share: differ(access_share(a, matched.a), access_share(b, matched.b), comparable.accesses),
        reads: Pair { a: of_a.reads, b: of_b.reads },
        writes: Pair { a: of_a.writes, b: of_b.writes },
        ground: Grounds { a: of_a.ground, b: of_b.ground },
    };
    if !accesses.is_stated() {
        accesses.share.significant = None;
    }
    accesses
}

/// The share of the accesses; what was counted and not sampled has no error.
fn access_share(of: &Input<'_>, id: usize) -> Measured {
    let accesses = &of.findings.objects[id].accesses;
    (accesses.share, if of.exact() { Some(0.0) } else { accesses.error })
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
