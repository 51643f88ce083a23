//! `numamma compare`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_compare::{Input, Reference, compare};
use numamma_findings::{Findings, ForComparison, Side};
use numamma_report::{Options, render_comparison};
use numamma_trace::Dataset;

use crate::arguments::Compare;
use crate::commands::terminal;
use crate::failure::Failure;

/// A recording as far as a comparison needs it: the counters behind it are gone before the other one is read.
struct Analysed {
    path: String,
    complete: bool,
    findings: Findings,
    basis: ForComparison,
}

impl Analysed {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let dataset = Dataset::open(dir)?;
        let analysis = Analysis::new(&dataset)?;
        let basis = analysis.for_comparison()?;
        dataset.unread().iter().for_each(|file| eprintln!("numamma: {file}"));
        Ok(Self {
            path: dir.display().to_string(),
            complete: dataset.meta().complete,
            basis,
            findings: analysis.findings().clone(),
        })
    }

    fn input(&self) -> Input<'_> {
        Input { path: &self.path, complete: self.complete, findings: &self.findings, basis: &self.basis }
    }
}

fn inputs(runs: &[Analysed]) -> Vec<Input<'_>> {
    runs.iter().map(Analysed::input).collect()
}

pub fn run(arguments: Compare) -> Result<ExitCode, Failure> {
    let options = Options { top: arguments.top, format: arguments.format, ..terminal::options() };
    let reference = match arguments.reference.as_str() {
        "a" => Reference::Side(Side::A),
        "b" => Reference::Side(Side::B),
        _ => Reference::Fuller,
    };
    let sides = arguments.sides();
    let (a, b) = sides.ok_or_else(|| {
        Failure::new(
            "compare which recordings? try `numamma compare <A> <B>`, or several of each: `numamma compare A1 A2 A3 -- B1 B2 B3`",
        )
    })?;
    let read = |dirs: &[PathBuf]| dirs.iter().map(|dir| Analysed::read(dir)).collect::<Result<Vec<_>, _>>();
    let (a, b) = (read(a)?, read(b)?);
    let comparison = compare(&inputs(&a), &inputs(&b), reference);
    terminal::write(|out| render_comparison(&comparison, &options, out))
}
