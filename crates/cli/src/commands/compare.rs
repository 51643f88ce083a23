//! `numamma compare`

use std::path::Path;
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_compare::{Input, Reference, compare};
use numamma_findings::{Basis, Findings, Side};
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
    basis: Basis,
}

impl Analysed {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let dataset = Dataset::open(dir)?;
        let analysis = Analysis::new(&dataset)?;
        Ok(Self {
            path: dir.display().to_string(),
            complete: dataset.meta().complete,
            basis: analysis.basis()?,
            findings: analysis.findings().clone(),
        })
    }

    fn input(&self) -> Input<'_> {
        Input { path: &self.path, complete: self.complete, findings: &self.findings, basis: &self.basis }
    }
}

pub fn run(arguments: Compare) -> Result<ExitCode, Failure> {
    let options = Options { top: arguments.top, format: arguments.format, ..terminal::options() };
    let reference = match arguments.reference.as_str() {
        "a" => Reference::Side(Side::A),
        "b" => Reference::Side(Side::B),
        _ => Reference::Fuller,
    };
    let (a, b) = (Analysed::read(&arguments.a)?, Analysed::read(&arguments.b)?);
    let comparison = compare(a.input(), b.input(), reference);
    terminal::write(|out| render_comparison(&comparison, &options, out))
}
