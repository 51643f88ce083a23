//! Measures the budgets of the design: `benches/run [--quick | --smoke] [--out DIR] [NAME...]`.
//!
//! Each bench gives lines of the table (asked, reached) and the raw numbers behind them. What is compared is run in turn
//! in the same round, so that a machine that grows slower or faster hits both alike; what is stated is the median of the
//! rounds with the least and the greatest.
#![forbid(unsafe_code)]

mod ablation;
mod attribution;
mod exact;
mod heap;
mod machine;
mod measure;
mod output;
mod overhead;
mod pair;
mod planning;
mod report;
mod size;
mod spread;
mod synthetic;
mod trace_windows;

use std::path::PathBuf;
use std::process::ExitCode;

use output::{Line, Results};
use serde_json::Value;

/// Whatever went wrong: a bench that fails ends the run.
type Failure = Box<dyn std::error::Error>;

/// Lines of the table, and the raw numbers.
type Measured = Result<(Vec<Line>, Value), Failure>;

/// Measures something.
type Run = fn(&Bench) -> Measured;

/// A bench: its name, what it measures.
const BENCHES: [(&str, Run); 11] = [
    ("attribution", attribution::run),
    ("size", size::run),
    ("report", report::run),
    ("planning", planning::run),
    ("pair", pair::run),
    ("overhead", overhead::run),
    ("ablation", ablation::run),
    ("trace_windows", trace_windows::run),
    ("exact", exact::run),
    ("heap", heap::run),
    ("memory", heap::memory::run),
];

/// Take long, and are about no budget: only when named.
const ON_REQUEST: [&str; 5] = ["ablation", "trace_windows", "exact", "heap", "memory"];

/// What benches need to know.
#[derive(Debug)]
struct Bench {
    /// Few and short rounds: to see that it works.
    quick: bool,
    /// Cargo's target folder, with everything that `benches/run` builds.
    target: PathBuf,
    /// The profile's folder in it.
    profile: &'static str,
    /// A folder on disk, gone at the end.
    scratch: tempfile::TempDir,
}

impl Bench {
    fn numamma(&self) -> PathBuf {
        self.built("numamma")
    }

    /// What cargo has built.
    fn built(&self, name: &str) -> PathBuf {
        self.target.join(self.profile).join(name)
    }

    /// A program of `benches/programs`.
    fn program(&self, name: &str) -> PathBuf {
        self.target.join("bench").join(name)
    }

    /// `full` rounds, or `quick` ones when in a hurry.
    fn rounds(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

struct Arguments {
    quick: bool,
    /// Quick, all benches, with the binaries of `make test`: whether they work, not how fast anything is.
    smoke: bool,
    target: PathBuf,
    out: Option<PathBuf>,
    /// Only write a synthetic recording there, of so many million samples: for a profiler.
    synthetic: Option<(PathBuf, u64)>,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        let names = BENCHES.map(|(name, _)| name).join(", ");
        eprintln!(
            "usage: benches/run [--quick | --smoke] [--out DIR] [NAME...]\n       benches/run --synthetic DIR MILLIONS\nnames: {names}"
        );
        return ExitCode::from(2);
    };
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut from: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        quick: false,
        smoke: false,
        target: "target".into(),
        out: None,
        synthetic: None,
        names: Vec::new(),
    };
    while let Some(argument) = from.next() {
        match argument.as_str() {
            "--quick" => arguments.quick = true,
            "--smoke" => arguments.smoke = true,
            "--target" => arguments.target = from.next()?.into(),
            "--out" => arguments.out = Some(from.next()?.into()),
            "--synthetic" => arguments.synthetic = Some((from.next()?.into(), from.next()?.parse().ok()?)),
            name if BENCHES.iter().any(|(known, _)| *known == name) => arguments.names.push(argument),
            _ => return None,
        }
    }
    Some(arguments)
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    if let Some((dir, millions)) = &arguments.synthetic {
        synthetic::write(dir, synthetic::Shape { samples: millions * 1_000_000, spread: 0 })?;
        return Ok(());
    }
    // Absolute: the programs run in other folders.
    let target = arguments.target.canonicalize()?;
    let scratch = tempfile::Builder::new().prefix("bench-").tempdir_in(&target)?;
    let profile = if arguments.smoke { "debug" } else { "release" };
    let bench = Bench { quick: arguments.quick || arguments.smoke, target, profile, scratch };
    let mut results = Results::new(bench.quick);
    for (name, run) in BENCHES {
        let named = arguments.names.iter().any(|wanted| wanted == name);
        let usual = arguments.smoke || !ON_REQUEST.contains(&name);
        if named || (arguments.names.is_empty() && usual) {
            eprintln!("{name} ...");
            let load = machine::load();
            let (lines, raw) = run(&bench).map_err(|error| format!("{name}: {error}"))?;
            results.add(name, load, lines, raw);
        }
    }
    if arguments.smoke {
        return Ok(());
    }
    print!("{}", results.table());
    let dir = results.write(arguments.out.as_deref())?;
    eprintln!("raw results are in {}", dir.display());
    Ok(())
}
