//! Coverage and accuracy of page ownership, as profile-guided placement measures a profile (Marathe and Mueller).
//!
//! The owner of a page is the thread that accesses it most. Coverage is the share of the reference's pages that the other recording
//! knows an owner of; accuracy is the share of those whose owner is the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use numamma_findings::{
    Agreement, Matched, NoPages, ObjectForComparison, OwnedPage, Ownership, Side, Uncompared, share_error,
};

use crate::Input;
use crate::threads::Threads;

/// Whom a page belongs to, in the numbering of the first recording.
#[derive(Clone, Copy)]
enum Owners<'a> {
    Threads(&'a Threads),
    Nodes,
}

impl Owners<'_> {
    fn of(self, page: &OwnedPage, side: Side) -> Option<i32> {
        match (self, side) {
            (Self::Threads(_), Side::A) => Some(page.thread),
            (Self::Threads(threads), Side::B) => Some(threads.in_a(page.thread)),
            (Self::Nodes, _) => page.node,
        }
    }
}

/// Pages and their weights, counted.
#[derive(Default)]
struct Tally {
    pages: Agreement,
    /// Accesses of all pages of the reference, of the answered ones, of those with the same owner.
    weights: [f64; 3],
}

impl Tally {
    /// Counts the pages of an object of the reference (none: it is the other recording's alone) against those of the other.
    fn add(&mut self, (reference, side): (&[OwnedPage], Side), other: &[OwnedPage], owners: Owners<'_>) {
        let owned = |pages: &[OwnedPage], side: Side| -> Vec<(u64, i32, f64)> {
            pages.iter().filter_map(|page| Some((page.page, owners.of(page, side)?, page.accesses))).collect()
        };
        let (reference, other) = (owned(reference, side), owned(other, opposite(side)));
        let (mut r, mut o) = (0, 0);
        // Both ascend.
        while r < reference.len() || o < other.len() {
            let order = match (reference.get(r), other.get(o)) {
                (Some(in_reference), Some(in_other)) => in_reference.0.cmp(&in_other.0),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            if order == Ordering::Greater {
                self.pages.beyond += 1;
                o += 1;
                continue;
            }
            let (_, whose, weight) = reference[r];
            self.pages.reference += 1;
            self.weights[0] += weight;
            if order == Ordering::Equal {
                self.pages.answered += 1;
                self.weights[1] += weight;
                if other[o].1 == whose {
                    self.pages.same += 1;
                    self.weights[2] += weight;
                }
                o += 1;
            }
            r += 1;
        }
    }

    fn agreement(self) -> Agreement {
        let [all, answered, same] = self.weights;
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let pages = self.pages;
        Agreement {
            coverage: ratio(pages.answered as f64, pages.reference as f64),
            accuracy: ratio(pages.same as f64, pages.answered as f64),
            accuracy_error: share_error(pages.same, pages.answered),
            coverage_by_accesses: ratio(answered, all),
            accuracy_by_accesses: ratio(same, answered),
            ..pages
        }
    }
}

fn opposite(side: Side) -> Side {
    if side == Side::A { Side::B } else { Side::A }
}

/// Agreement on the pages of one object by thread; `None` where its pages cannot be found in another recording.
pub fn of_object(
    a: &ObjectForComparison,
    b: &ObjectForComparison,
    reference: Side,
    threads: &Threads,
) -> Option<Agreement> {
    let (from, to) = if reference == Side::A { (a, b) } else { (b, a) };
    let mut tally = Tally::default();
    tally.add((from.pages.as_ref().ok()?, reference), to.pages.as_ref().ok()?, Owners::Threads(threads));
    Some(tally.agreement())
}

/// Agreement on all pages. Pages of objects that one recording lacks have no owner there.
pub fn ownership(a: &Input<'_>, b: &Input<'_>, matched: &[Matched], reference: Side, threads: &Threads) -> Ownership {
    let (from, to) = if reference == Side::A { (a, b) } else { (b, a) };
    let sides = |pair: &Matched| if reference == Side::A { (pair.a, pair.b) } else { (pair.b, pair.a) };
    let mut partner: Vec<Option<usize>> = vec![None; from.basis.objects.len()];
    let mut has_partner = vec![false; to.basis.objects.len()];
    for (in_reference, in_other) in matched.iter().map(sides) {
        partner[in_reference] = Some(in_other);
        has_partner[in_other] = true;
    }
    let mut compared: Vec<(&[OwnedPage], &[OwnedPage])> = Vec::new();
    let mut uncompared: BTreeMap<NoPages, Uncompared> = BTreeMap::new();
    for (number, object) in from.basis.objects.iter().enumerate() {
        let other = partner[number].map_or(Ok(&[][..]), |other| to.basis.objects[other].pages.as_deref());
        match (object.pages.as_deref(), other) {
            (Ok(pages), Ok(other)) => compared.push((pages, other)),
            (Err(reason), _) | (_, Err(reason)) => {
                let object = &from.findings.objects[number];
                let none = Uncompared { access_share: Some(0.0), ..Uncompared::default() };
                let part = uncompared.entry(*reason).or_insert(none);
                part.objects += 1;
                part.cost_share += object.cost.share;
                let share = object.accesses.stated().map(|of| of.share).or((object.samples == 0).then_some(0.0));
                part.access_share = part.access_share.zip(share).map(|(sum, share)| sum + share);
            }
        }
    }
    let alone = to.basis.objects.iter().zip(&has_partner).filter(|(_, has)| !**has);
    compared.extend(alone.filter_map(|(object, _)| Some((&[][..], object.pages.as_deref().ok()?))));

    let agreement = |owners: Owners<'_>| {
        let mut tally = Tally::default();
        compared.iter().for_each(|(pages, other)| tally.add((pages, reference), other, owners));
        tally.agreement()
    };
    let several_nodes = a.findings.run.nodes > 1 && b.findings.run.nodes > 1;
    Ownership {
        reference,
        page_bytes: from.findings.run.page_bytes,
        thread: agreement(Owners::Threads(threads)),
        node: several_nodes.then(|| agreement(Owners::Nodes)),
        uncompared: uncompared
            .into_iter()
            .map(|(reason, part)| Uncompared { reason: reason.name().to_owned(), ..part })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numamma_findings::ForComparison;

    /// Two threads in each.
    fn threads() -> Threads {
        let basis = ForComparison { processes: vec!["solver".into()], threads: vec![0, 0], ..ForComparison::default() };
        Threads::new(&basis, &basis)
    }

    fn pages(owners: &[(u64, i32, f64)]) -> Vec<OwnedPage> {
        owners.iter().map(|&(page, thread, accesses)| OwnedPage { page, thread, node: None, accesses }).collect()
    }

    fn agreement(reference: &[(u64, i32, f64)], other: &[(u64, i32, f64)]) -> Agreement {
        let mut tally = Tally::default();
        tally.add((&pages(reference), Side::A), &pages(other), Owners::Threads(&threads()));
        tally.agreement()
    }

    #[test]
    fn coverage_and_accuracy_by_hand() {
        // Of pages 0..4: 1 and 2 are answered, 2 with another owner; 7 is nothing that the reference asks about.
        let reference = [(0, 0, 10.0), (1, 0, 20.0), (2, 1, 60.0), (3, 1, 10.0)];
        let of = agreement(&reference, &[(1, 0, 1.0), (2, 0, 1.0), (7, 1, 1.0)]);
        assert_eq!((of.reference, of.answered, of.same, of.beyond), (4, 2, 1, 1));
        assert_eq!((of.coverage, of.accuracy), (Some(0.5), Some(0.5)));
        assert_eq!((of.coverage_by_accesses, of.accuracy_by_accesses), (Some(0.8), Some(0.25)));
        // One of two: Wilson's 0.0945 .. 0.9055.
        assert!((of.accuracy_error.unwrap() - 0.4055).abs() < 1e-3, "{of:?}");
    }

    #[test]
    fn a_recording_agrees_with_itself() {
        let reference = [(0, 0, 10.0), (5, 1, 20.0)];
        let of = agreement(&reference, &reference);
        assert_eq!((of.coverage, of.accuracy, of.beyond), (Some(1.0), Some(1.0), 0));
        assert_eq!((of.coverage_by_accesses, of.accuracy_by_accesses), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn nothing_has_no_share() {
        let of = agreement(&[], &[(1, 0, 1.0)]);
        assert_eq!((of.coverage, of.accuracy, of.accuracy_error, of.beyond), (None, None, None, 1));
        let of = agreement(&[(1, 0, 1.0)], &[]);
        assert_eq!((of.coverage, of.accuracy), (Some(0.0), None));
    }

    #[test]
    fn a_page_whose_node_nobody_knows_has_no_owner() {
        let mut reference = pages(&[(0, 0, 1.0), (1, 0, 1.0), (2, 0, 1.0)]);
        let mut other = reference.clone();
        // Page 0 by another thread of the same node; page 1 unknown in the other; page 2 unknown in the reference.
        (reference[0].node, reference[1].node) = (Some(1), Some(0));
        (other[0].node, other[0].thread, other[2].node) = (Some(1), 9, Some(0));
        let mut tally = Tally::default();
        tally.add((&reference, Side::A), &other, Owners::Nodes);
        let of = tally.agreement();
        assert_eq!((of.reference, of.answered, of.same, of.beyond), (2, 1, 1, 1));
    }
}
