//! Prints how coverage and accuracy of page ownership fall off as the sampling interval grows, for the documentation.
//!
//! `cargo run -p numamma-tests --bin interval-table -- [--seconds S] [--threads N] [--period NS] [--only NAME,NAME]`
//!
//! Every workload is recorded at the shortest interval (the reference), at the same once more, and at its multiples.

use std::process::ExitCode;

use numamma_tests::comparison::{Agreement, Comparison};
use numamma_tests::interval::{self, Setting};
use numamma_tests::turns;

/// Workloads whose threads own what they use, in several ways, and one (`gather`) with a table that nobody owns.
const WORKLOADS: [&str; 6] = ["triad", "block", "blockcyclic", "master_init", "fcommon", "gather"];

/// Multiples of the shortest interval; the first shows what two recordings of one kind agree on.
const FACTORS: [u64; 5] = [1, 10, 20, 100, 200];

/// Objects with fewer pages in the reference are no line of their own.
const PAGES: u64 = 256;

struct Row {
    workload: &'static str,
    steps: Vec<Comparison>,
}

fn main() -> ExitCode {
    let Some((setting, only)) = parse(std::env::args().skip(1)) else {
        eprintln!("usage: interval-table [--seconds S] [--threads N] [--period NS] [--only NAME,NAME]");
        return ExitCode::from(2);
    };
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        if only.is_empty() || only.iter().any(|name| name == workload) {
            eprintln!("{workload} ...");
            let _turn = turns::alone();
            rows.push(Row { workload, steps: interval::measure(workload, &setting, &FACTORS, place.path()) });
        }
    }
    print(&rows, &setting);
    ExitCode::SUCCESS
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<(Setting, Vec<String>)> {
    let mut setting = Setting { seconds: 4.0, threads: 4, period: 100_000 };
    let mut only = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => setting.seconds = args.next()?.parse().ok()?,
            "--threads" => setting.threads = args.next()?.parse().ok()?,
            "--period" => setting.period = args.next()?.parse().ok()?,
            "--only" => only = args.next()?.split(',').map(String::from).collect(),
            _ => return None,
        }
    }
    Some((setting, only))
}

fn print(rows: &[Row], setting: &Setting) {
    println!(
        "{} threads, {} s of CPU time each; 1x is {} us between two samples of a thread.\n",
        setting.threads,
        setting.seconds,
        setting.period / 1000
    );
    println!("Samples at data accesses:\n");
    head("workload", &["at 1x, the reference"]);
    for row in rows {
        let samples = row.steps.iter().map(|step| step.b.data_samples.to_string());
        line(&[row.workload.into(), row.steps[0].a.data_samples.to_string()], samples);
    }
    println!("\nCoverage / accuracy, per cent of all pages of the workload:\n");
    head("workload", &["pages of the reference"]);
    for row in rows {
        let of = |step: &Comparison| step.pages().thread;
        let cells = row.steps.iter().map(|step| cell(of(step).coverage, of(step).accuracy));
        line(&[row.workload.into(), of(&row.steps[0]).reference.to_string()], cells);
    }
    println!("\nThe same weighted by accesses:\n");
    head("workload", &[]);
    for row in rows {
        let of = |step: &Comparison| step.pages().thread;
        let cells = row.steps.iter().map(|step| cell(of(step).coverage_by_accesses, of(step).accuracy_by_accesses));
        line(&[row.workload.into()], cells);
    }
    println!("\nCoverage / accuracy of the objects with at least {PAGES} pages:\n");
    head("object", &["pages of the reference"]);
    for row in rows {
        let pages = |step: &Comparison, name: &str| -> Option<Agreement> {
            step.objects.iter().find(|object| object.name == name)?.ownership
        };
        let names = row.steps[0].objects.iter().map(|object| object.name.clone());
        for name in names {
            let Some(first) = pages(&row.steps[0], &name).filter(|first| first.reference >= PAGES) else { continue };
            let of = |step| pages(step, &name).map_or("-".into(), |pages| cell(pages.coverage, pages.accuracy));
            line(&[format!("{} `{name}`", row.workload), first.reference.to_string()], row.steps.iter().map(of));
        }
    }
}

fn head(first: &str, more: &[&str]) {
    let columns = more.iter().map(|title| (*title).to_owned());
    let columns =
        columns.chain(FACTORS.map(|factor| if factor == 1 { "1x again".into() } else { format!("{factor}x") }));
    let columns: Vec<String> = columns.collect();
    println!("| {first} | {} |\n|---|{}", columns.join(" | "), "---:|".repeat(columns.len()));
}

fn line(first: &[String], cells: impl Iterator<Item = String>) {
    println!("| {} | {} |", first.join(" | "), cells.collect::<Vec<_>>().join(" | "));
}

fn cell(coverage: Option<f64>, accuracy: Option<f64>) -> String {
    // Cut, not rounded: nearly all is not all.
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}", (share * 1e3).floor() / 10.0));
    format!("{} / {}", percent(coverage), percent(accuracy))
}
