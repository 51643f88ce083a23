//! Differences between two recordings of one program. Pure: findings in, a comparison out.
//!
//! ```text
//!   identities of A, of B  -> matching  -> pairs of objects
//!   costs, shares          -> change    -> differences with errors
//!   threads, processes     -> threads   -> one numbering
//!   pages with owners      -> ownership -> coverage and accuracy
//!   several recordings     -> runs      -> how much they differ without reason
//!   runs, samplers         -> notes     -> what must be known before a difference is believed
//! ```
#![forbid(unsafe_code)]

mod change;
mod matching;
mod notes;
mod objects;
mod ownership;
mod promise;
mod runs;
mod threads;

use numamma_findings::{
    COMPARISON_VERSION, Comparable, Comparison, Findings, ForComparison, Match, Matched, Pair, Recording,
    RemoteSamples, Side, TotalChange,
};
pub use promise::promise;

use change::{change, time_change};
use runs::{Runs, comparable_runs};
use threads::Threads;

/// One of the two recordings.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// How the user calls it.
    pub path: &'a str,
    /// True if it was finished.
    pub complete: bool,
    /// The findings.
    pub findings: &'a Findings,
    /// Further input of the comparison.
    pub basis: &'a ForComparison,
}

impl Input<'_> {
    /// True if its accesses were counted one by one, so that they have no error of sampling.
    fn exact(&self) -> bool {
        self.findings.sampler.kind == EXACT
    }
}

/// The sampler that counts every access.
const EXACT: &str = "exact";

/// Which recording the owners of pages are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// The one that knows more: an exact one, else the one with more samples at data accesses, else the first.
    #[default]
    Fuller,
    /// A certain one.
    Side(Side),
}

/// Compares the recordings `b` with the recordings `a`, of which each has at least one: differences are what `b` has more.
/// Pages are compared, and names and threads taken, of the first recording of each.
pub fn compare(a: &[Input<'_>], b: &[Input<'_>], reference: Reference) -> Comparison {
    let (runs_a, runs_b) = (Runs::new(a), Runs::new(b));
    let (a, b) = (runs_a.first(), runs_b.first());
    let comparable = comparable_runs(&runs_a, &runs_b);
    let matched = matching::pairs(&a.basis.objects, &b.basis.objects);
    let threads = Threads::new(a.basis, b.basis);
    let reference = match reference {
        Reference::Side(side) => side,
        Reference::Fuller => fuller(a, b),
    };
    let objects = matched.iter().map(|&matched| {
        let agreement = comparable.pages.then(|| {
            ownership::of_object(&a.basis.objects[matched.a], &b.basis.objects[matched.b], reference, &threads)
        });
        objects::change(&runs_a, &runs_b, matched, &comparable, agreement.flatten())
    });
    let mut objects: Vec<_> = objects.collect();
    objects::sort(&mut objects, &comparable);
    let more = |runs: &Runs<'_>| runs.others().iter().map(|run| run.path.to_owned()).collect();
    Comparison {
        version: COMPARISON_VERSION,
        a: recording(a, matched.iter().map(|matched| matched.a)),
        b: recording(b, matched.iter().map(|matched| matched.b)),
        more_a: more(&runs_a),
        more_b: more(&runs_b),
        comparable,
        notes: notes::notes(&runs_a, &runs_b, &comparable, &matched, &threads),
        total: total(&runs_a, &runs_b, &comparable),
        objects,
        only_a: objects::alone(a, matched.iter().map(|matched| matched.a)),
        only_b: objects::alone(b, matched.iter().map(|matched| matched.b)),
        ownership: comparable.pages.then(|| ownership::ownership(a, b, &matched, reference, &threads)),
        promise: None,
    }
}

fn comparable(a: &Findings, b: &Findings) -> Comparable {
    let same_accesses = a.sampler.only == b.sampler.only;
    let same_sampler = a.sampler.kind == b.sampler.kind;
    let exact = a.sampler.kind == EXACT;
    Comparable {
        // An exact recording counts and measures no time.
        cost: same_sampler && same_accesses && !exact,
        accesses: same_accesses,
        counts: same_sampler && same_accesses && (exact || a.sampler.period == b.sampler.period),
        remote: a.run.nodes > 1 && b.run.nodes > 1,
        pages: a.run.page_bytes == b.run.page_bytes,
    }
}

fn fuller(a: &Input<'_>, b: &Input<'_>) -> Side {
    let knows = |input: &Input<'_>| (input.exact(), input.basis.data_samples);
    if knows(b) > knows(a) { Side::B } else { Side::A }
}

fn recording(of: &Input<'_>, matched: impl Iterator<Item = usize> + Clone) -> Recording {
    let Findings { run, sampler, samples, losses, objects, .. } = of.findings;
    Recording {
        path: of.path.to_owned(),
        command: run.command.clone(),
        complete: of.complete,
        wall_s: run.wall_s,
        exit: run.exit,
        threads: run.threads,
        nodes: run.nodes,
        cpus: run.cpus,
        host: run.host.clone(),
        sampler: sampler.clone(),
        samples: samples.recorded,
        data_samples: of.basis.data_samples,
        attributed: samples.attributed,
        unattributed: samples.unattributed.clone(),
        matched_cost: sum(matched.clone().map(|id| objects[id].cost.share)),
        matched_accesses: sum(matched.map(|id| objects[id].accesses.share)),
        losses: losses.clone(),
    }
}

/// The sum of shares: all of them are 1, and not a rounding error less.
fn sum(shares: impl Iterator<Item = f64>) -> f64 {
    let sum: f64 = shares.sum();
    if (sum - 1.0).abs() < 1e-9 { 1.0 } else { sum }
}

fn total(a: &Runs<'_>, b: &Runs<'_>, comparable: &Comparable) -> TotalChange {
    let remote = |runs: &Runs<'_>| -> Option<Vec<_>> { runs.each(total_remote_share).into_iter().collect() };
    let seconds = |of: &Input<'_>| change::seconds(of.basis, of.basis.data_samples, of.basis.data_cost_s);
    let wall = |of: &Input<'_>| (of.findings.run.wall_s, None);
    let wall_time = time_change(&a.each(wall), &b.each(wall), true);
    TotalChange {
        cost: time_change(&a.each(seconds), &b.each(seconds), comparable.cost),
        wall: Pair { a: wall_time.a, b: wall_time.b },
        wall_time,
        remote: remote(a).zip(remote(b)).filter(|_| comparable.remote).map(|(a, b)| change(&a, &b, true)),
    }
}

fn total_remote_share(of: &Input<'_>) -> Option<change::Measured> {
    let sum = of.basis.objects.iter().fold(RemoteSamples::default(), |sum, object| RemoteSamples {
        remote: sum.remote + object.remote.remote,
        known: sum.known + object.remote.known,
        samples: sum.samples + object.remote.samples,
    });
    change::remote_share(sum, of.exact())
}

/// How many objects were found by `by`.
fn found_by(matched: &[Matched], by: Match) -> usize {
    matched.iter().filter(|matched| matched.by == by).count()
}
