//! Prints the table of programs for the documentation: what a recording of each sees and costs.
//!
//! `cargo run --release -p numamma-tests --bin programs-table -- [--pairs N] [--only NAME,NAME] [--native] [-- OPTION..]`
//!
//! Each program runs natively and recorded in turn (so that a machine that grows slower or faster hits both alike), at
//! least five pairs; the overhead is the median of the pairs' ratios. Memory is watched in runs of their own: looking
//! costs time. `--native` runs each program twice without a recorder and compares the answers. Options after `--` go to
//! `numamma record`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use numamma_tests::programs::{self, Program, jobs};
use numamma_tests::report::Report;
use numamma_tests::{run, skip, turns};

struct Options {
    pairs: usize,
    only: Vec<String>,
    native: bool,
    record: Vec<String>,
}

/// One line of the table.
struct Row {
    name: &'static str,
    native_s: f64,
    ratios: Vec<f64>,
    report: Report,
    memory: Memory,
}

/// Highest resident set of a process of each role, bytes.
struct Memory {
    native: u64,
    target: u64,
    recorder: u64,
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!("usage: programs-table [--pairs N] [--only NAME,NAME] [--native] [-- OPTIONS OF RECORD]");
        return ExitCode::from(2);
    };
    let chosen = |p: &&Program| options.only.is_empty() || options.only.iter().any(|name| name == p.name);
    let mut rows = vec![];
    for program in jobs::ALL.iter().filter(chosen) {
        if let Some(tool) = program.missing() {
            skip::missing(program.name, tool);
            continue;
        }
        let place = tempfile::tempdir().expect("a temporary folder");
        let dir = jobs::prepared(program, place.path());
        if options.native {
            let (a, b) = (program.run(&dir, &[]), program.run(&dir, &[]));
            let same = if a.answer == b.answer { "the same twice" } else { "DIFFERENT" };
            println!("{}: {:.2?}, {:.2?}, {same}, status {}", program.name, a.wall, b.wall, a.answer.status);
            continue;
        }
        eprintln!("{} ...", program.name);
        rows.push(measure(program, place.path(), &dir, &options));
    }
    if !options.native {
        print(&rows, &options);
    }
    ExitCode::SUCCESS
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { pairs: 5, only: vec![], native: false, record: vec![] };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--pairs" => options.pairs = args.next()?.parse().ok()?,
            "--only" => options.only = args.next()?.split(',').map(String::from).collect(),
            "--native" => options.native = true,
            "--" => options.record = args.by_ref().collect(),
            _ => return None,
        }
    }
    Some(options)
}

fn measure(program: &'static Program, place: &Path, dir: &Path, options: &Options) -> Row {
    let _turn = turns::alone();
    let record: Vec<&str> = options.record.iter().map(String::as_str).collect();
    let recorder = |n: usize| {
        let dataset = place.join(format!("{n}.numamma"));
        (programs::recorder(&dataset, &record), dataset)
    };
    let warm = program.run(dir, &[]); // not counted: the first run fills the page cache
    let (mut natives, mut ratios) = (vec![], vec![]);
    for pair in 0..options.pairs {
        let (prefix, _) = recorder(pair);
        let (native, recorded) = if pair % 2 == 0 {
            let native = program.run(dir, &[]);
            (native, program.run(dir, &prefix))
        } else {
            let recorded = program.run(dir, &prefix);
            (program.run(dir, &[]), recorded)
        };
        assert!(native.answer == warm.answer, "{}: a native run differs", program.name);
        assert!(recorded.answer == warm.answer, "{}: a recorded run differs: {}", program.name, recorded.outcome);
        natives.push(native.wall.as_secs_f64());
        ratios.push(recorded.wall.as_secs_f64() / native.wall.as_secs_f64());
    }
    let (prefix, dataset) = recorder(options.pairs);
    let (root, below) = watched(program, dir, &prefix);
    let (alone, children) = watched(program, dir, &[]);
    let memory = Memory { native: alone.max(children), target: below, recorder: root };
    Row { name: program.name, native_s: median(&natives), ratios, report: Report::of(&dataset), memory }
}

/// Peak memory of the process that is started, and the highest of those below it.
fn watched(program: &Program, dir: &Path, prefix: &[OsString]) -> (u64, u64) {
    let peaks = Arc::new(Mutex::new(HashMap::<i32, u64>::new()));
    let ended = Arc::new(AtomicBool::new(false));
    let mut root = 0;
    let mut watcher = None;
    program.run_watched(dir, prefix, &mut |pid| {
        root = pid;
        let (peaks, ended) = (peaks.clone(), ended.clone());
        watcher = Some(thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                look(pid, &mut peaks.lock().expect("no panic while it was held"));
                thread::sleep(Duration::from_millis(5));
            }
        }));
    });
    ended.store(true, Ordering::Relaxed);
    watcher.expect("the program was started").join().expect("the watcher does not panic");
    let peaks = peaks.lock().expect("the watcher is gone");
    let below = peaks.iter().filter(|(pid, _)| **pid != root).map(|(_, peak)| *peak).max();
    (peaks.get(&root).copied().unwrap_or(0), below.unwrap_or(0))
}

/// The last value counts, not the highest: exec starts a new peak, and before it a child has its parent's.
fn look(pid: i32, peaks: &mut HashMap<i32, u64>) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    if let Some(kib) = peak.and_then(|p| p.trim().strip_suffix(" kB")?.parse::<u64>().ok()) {
        peaks.insert(pid, kib * 1024);
    }
    for child in run::children(pid) {
        look(child, peaks);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (low + high) / 2.0
}

fn print(rows: &[Row], options: &Options) {
    println!(
        "| program | native s | overhead: median (lowest .. highest) | samples | at data | attributed | not attributed, of the samples at data | memory native | target | recorder |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let samples = &row.report.samples;
        let at_data = samples.recorded - samples.without_access;
        let low = row.ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = row.ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "| {} | {:.2} | {:.3} ({low:.3} .. {high:.3}) | {} | {at_data} | {:.1} % | {} | {} | {} | {} |",
            row.name,
            row.native_s,
            median(&row.ratios),
            samples.recorded,
            100.0 * row.report.attributed_share(),
            residual(&samples.unattributed, samples.without_access, at_data),
            mib(row.memory.native),
            mib(row.memory.target),
            mib(row.memory.recorder),
        );
    }
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|l| l.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("unknown CPU");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let rates: BTreeMap<String, ()> =
        rows.iter().map(|r| (format!("{} at {:.0} Hz", r.report.sampler.kind, r.report.sampler.rate_hz), ())).collect();
    let rates = rates.into_keys().collect::<Vec<_>>().join(", ");
    println!("\n{} pairs each; {cores} x {cpu}, Linux {}; sampler: {rates}", options.pairs, kernel.trim());
    println!("\n`cargo run --release -p numamma-tests --bin programs-table -- --pairs {}`", options.pairs);
}

/// Reasons with their shares, the largest first.
fn residual(reasons: &BTreeMap<String, u64>, without_access: u64, at_data: u64) -> String {
    let mut list: Vec<_> = reasons.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    for (reason, count) in &mut list {
        if *reason == "no_memory_access" {
            *count = count.saturating_sub(without_access);
        }
    }
    list.retain(|(_, count)| *count > 0);
    list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |count: u64| 100.0 * count as f64 / at_data.max(1) as f64;
    let list: Vec<_> = list.iter().map(|(reason, count)| format!("{reason} {:.1} %", share(*count))).collect();
    if list.is_empty() { "-".into() } else { list.join(", ") }
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1048576.0)
}
