//! Abilities of standard output, and writing to it.

use std::env;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use numamma_report::{Options, ReportError, unicode_locale};

use crate::failure::Failure;

/// The options that standard output decides; the others have their defaults.
pub fn options() -> Options {
    let terminal = io::stdout().is_terminal();
    let variable = |name| env::var(name).ok();
    Options {
        width: width(terminal),
        color: terminal && variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb"),
        unicode: unicode_locale(
            variable("LC_ALL").as_deref(),
            variable("LC_CTYPE").as_deref(),
            variable("LANG").as_deref(),
        ),
        ..Options::default()
    }
}

/// Lets `render` write to standard output.
pub fn write(render: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match render(&mut out).and_then(|()| Ok(out.flush()?)) {
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
