//! Facts to know before believing a difference.

use numamma_findings::{Comparable, Findings, Match, Matched, Note};

use crate::runs::Runs;
use crate::threads::Threads;
use crate::{Input, found_by};

/// Fewer samples at data accesses than this say little.
const FEW: u64 = 1000;

/// Less of the cost than this in matched objects is a comparison of different things.
const MATCHED: f64 = 0.9;

/// Everything that there is to say, what spoils most first.
pub fn notes(
    runs_a: &Runs<'_>,
    runs_b: &Runs<'_>,
    comparable: &Comparable,
    matched: &[Matched],
    threads: &Threads,
) -> Vec<Note> {
    let (a, b) = (runs_a.first(), runs_b.first());
    let mut notes = Notes(Vec::new());
    programs(&mut notes, a.findings, b.findings);
    unmatched_threads(&mut notes, a.findings, b.findings, threads);
    samplers(&mut notes, a, b, comparable);
    state(&mut notes, "A", a, matched.iter().map(|pair| pair.a));
    state(&mut notes, "B", b, matched.iter().map(|pair| pair.b));
    machines(&mut notes, a.findings, b.findings);
    further(&mut notes, runs_a);
    further(&mut notes, runs_b);
    let [lines, names, sites] = [Match::Line, Match::Name, Match::Site].map(|by| found_by(matched, by));
    if lines + names + sites > 0 {
        let objects = |n: usize| format!("{n} object{}", if n == 1 { "" } else { "s" });
        let renamed = match sites {
            0 => String::new(),
            n => format!(" and {n} under another name by the line of the call"),
        };
        notes.add(
            "rebuilt",
            format!(
                "{} found by source line, {names} by the variable's name alone{renamed}, not by address: \
                 the program was built again",
                objects(lines),
            ),
        );
    }
    notes.0
}

struct Notes(Vec<Note>);

impl Notes {
    fn add(&mut self, kind: &str, text: impl Into<String>) {
        self.0.push(Note { kind: kind.into(), text: text.into() });
    }
}

fn programs(notes: &mut Notes, a: &Findings, b: &Findings) {
    let name = |of: &Findings| {
        let program = of.run.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let (of_a, of_b) = (name(a), name(b));
    if of_a != of_b {
        notes.add(
            "different_programs",
            format!("A is a recording of {of_a}, B of {of_b}: what is in one alone may tell nothing"),
        );
    } else if a.run.command.get(1..) != b.run.command.get(1..) {
        notes.add("different_arguments", "the program ran with other arguments: times need not be alike");
    }
    if a.run.heap_tracked != b.run.heap_tracked {
        let without = if a.run.heap_tracked { "B" } else { "A" };
        notes
            .add("different_tracking", format!("{without} was recorded without allocations: its heap is in one piece"));
    }
}

/// Several recordings of a side are of one program, run alike: else their spread is no chance.
fn further(notes: &mut Notes, runs: &Runs<'_>) {
    let first = runs.first();
    for run in runs.others() {
        if run.findings.run.command != first.findings.run.command {
            notes.add(
                "different_runs",
                format!("{} is of another command than {}: the spread between them is no chance", run.path, first.path),
            );
        }
        if !run.complete {
            notes.add("incomplete", format!("{} was cut short: what came later is not in it", run.path));
        }
    }
}

/// Threads without a sample own no page.
fn unmatched_threads(notes: &mut Notes, a: &Findings, b: &Findings, threads: &Threads) {
    let (of_a, of_b) = threads.alone();
    let sampled = |of: &Findings, thread: usize| of.threads.get(thread).is_some_and(|thread| thread.samples > 0);
    let of_a = of_a.filter(|&thread| sampled(a, thread)).count();
    let of_b = of_b.filter(|&thread| sampled(b, thread)).count();
    if of_a + of_b > 0 {
        notes.add(
            "different_threads",
            format!("{of_a} threads of A and {of_b} of B are not in the other: what they own has another owner there"),
        );
    }
}

fn samplers(notes: &mut Notes, a: &Input<'_>, b: &Input<'_>, comparable: &Comparable) {
    let (of_a, of_b) = (&a.findings.sampler, &b.findings.sampler);
    if of_a.kind != of_b.kind {
        notes.add(
            "different_samplers",
            format!("A was sampled by {}, B by {}: times are not compared, accesses are", of_a.kind, of_b.kind),
        );
    }
    if of_a.only != of_b.only {
        let what =
            |only: &Option<String>| only.as_ref().map_or("all accesses".to_owned(), |only| format!("{only}s only"));
        notes.add(
            "different_accesses",
            format!("A holds {}, B {}: neither times nor accesses are compared", what(&of_a.only), what(&of_b.only)),
        );
    }
    if !comparable.pages {
        notes.add(
            "different_pages",
            format!(
                "pages have {} bytes in A and {} in B: their owners are not compared",
                a.findings.run.page_bytes, b.findings.run.page_bytes
            ),
        );
    }
}

fn state(notes: &mut Notes, side: &str, of: &Input<'_>, matched: impl Iterator<Item = usize>) {
    if !of.complete {
        notes.add("incomplete", format!("{side} was cut short: what came later is not in it"));
    }
    match of.basis.data_samples {
        // An exact recording has accesses and no samples of time.
        0 if of.basis.data_accesses > 0.0 => {}
        0 => return notes.add("no_samples", format!("{side} has no sample at a data access")),
        n if n < FEW => notes.add("few_samples", format!("{side} has only {n} samples at data accesses")),
        _ => {}
    }
    let by_cost = of.basis.data_cost_s > 0.0;
    let share = |of: &numamma_findings::Object| if by_cost { of.cost.share } else { of.accesses.share };
    let all: f64 = of.findings.objects.iter().map(share).sum();
    let common: f64 = matched.map(|id| share(&of.findings.objects[id])).sum();
    if common < MATCHED * all {
        notes.add(
            "little_in_common",
            format!(
                "objects of both have only {:.1} % of the {} of the objects of {side}",
                100.0 * common / all,
                if by_cost { "cost" } else { "accesses" }
            ),
        );
    }
}

fn machines(notes: &mut Notes, a: &Findings, b: &Findings) {
    if (&a.run.host, a.run.cpus, a.run.nodes) != (&b.run.host, b.run.cpus, b.run.nodes) {
        notes.add("different_machines", "the recordings are of different machines: times need not be alike");
    }
    if a.run.exit != b.run.exit {
        let status = |exit: Option<i32>| exit.map_or("no exit status".to_owned(), |exit| format!("exit status {exit}"));
        notes.add("different_exit", format!("A ended with {}, B with {}", status(a.run.exit), status(b.run.exit)));
    }
}
