//! `numamma report`

use std::env;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_report::{Details, Options, details_needed, render, unicode_locale};
use numamma_trace::Dataset;

use crate::arguments::Report;
use crate::failure::Failure;

/// Samples over time that a terminal's picture or a JSON reader gets of an object.
const POINTS: usize = 20_000;

pub fn run(arguments: Report) -> Result<ExitCode, Failure> {
    let terminal = io::stdout().is_terminal();
    let variable = |name| env::var(name).ok();
    let options = Options {
        by: arguments.by,
        sort: arguments.sort,
        access: arguments.access,
        top: arguments.top,
        object: arguments.object,
        width: width(terminal),
        color: terminal && variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb"),
        unicode: unicode_locale(
            variable("LC_ALL").as_deref(),
            variable("LC_CTYPE").as_deref(),
            variable("LANG").as_deref(),
        ),
        format: arguments.format,
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
            detailed = analysis.detailed(&ids, POINTS)?;
            &detailed
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match render(findings, &options, &mut out).and_then(|()| Ok(out.flush()?)) {
        // Whoever read us (head, less) has seen enough.
        Err(error) if error.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Columns of the terminal, as the shell or the terminal itself says; 100 when piped.
fn width(terminal: bool) -> usize {
    const PIPED: usize = 100;
    if let Some(columns) = env::var("COLUMNS").ok().and_then(|c| c.parse().ok()) {
        return columns;
    }
    if !terminal {
        return PIPED;
    }
    terminal_size::terminal_size().map_or(PIPED, |(terminal_size::Width(columns), _)| columns.into())
}
