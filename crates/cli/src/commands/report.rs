//! `numamma report`

use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_report::{Details, Options, details_needed, render};
use numamma_trace::Dataset;

use crate::arguments::Report;
use crate::commands::terminal;
use crate::failure::Failure;

/// Samples over time that a terminal's picture or a JSON reader gets of an object.
const POINTS: usize = 20_000;

pub fn run(arguments: Report) -> Result<ExitCode, Failure> {
    let options = Options {
        by: arguments.by,
        sort: arguments.sort,
        access: arguments.access,
        top: arguments.top,
        object: arguments.object,
        instance: arguments.instance.map(u64::from),
        format: arguments.format,
        ..terminal::options()
    };
    let dataset = Dataset::open(&arguments.dir)?;
    let analysis = Analysis::new(&dataset)?;
    let detailed;
    let findings = match details_needed(analysis.findings(), &options)? {
        Details::None => analysis.findings(),
        needed => {
            let ids: Vec<usize> = match needed {
                Details::One(id) => vec![id],
                _ => (0..analysis.findings().objects.len()).collect(),
            };
            detailed = analysis.detailed(&ids, arguments.instance, POINTS)?;
            &detailed
        }
    };
    dataset.unread().iter().for_each(|file| eprintln!("numamma: {file}"));
    terminal::write(|out| render(findings, &options, out))
}
