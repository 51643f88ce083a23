//! `numamma record`

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use numamma_process::{Ended, signals};
use numamma_record::{Options, Outcome, Progress, Sampler, record};
use numamma_report::shell_word;
use numamma_trace::Access;

use crate::arguments::Record;
use crate::failure::{Failure, OWN_FAILURE};

pub fn run(arguments: Record) -> Result<ExitCode, Failure> {
    let sampler = match arguments.sampler.as_str() {
        "auto" | "clock" => Sampler::Clock,
        "exact" => Sampler::Exact,
        other => {
            return Err(Failure::new(format!(
                "--sampler {other}: this version has the samplers clock and exact; leave the option out"
            )));
        }
    };
    if sampler == Sampler::Exact && (arguments.rate.is_some() || arguments.period.is_some()) {
        return Err(Failure::new("--sampler exact counts every access: leave out --rate and --period"));
    }
    let when = arguments.after.is_some() || arguments.lasting.is_some();
    let part = arguments.marked
        || !arguments.functions.is_empty()
        || !arguments.object.is_empty()
        || !arguments.range.is_empty();
    if sampler == Sampler::Exact && (part || (when && arguments.trace.is_none())) {
        return Err(Failure::new(
            "--sampler exact counts the whole run: leave out --marked, --in, --object and --range; --after and --for go with --trace",
        ));
    }
    if sampler != Sampler::Exact && arguments.trace.is_some() {
        return Err(Failure::new("--trace needs every access: add --sampler exact"));
    }
    if sampler != Sampler::Exact && arguments.caches.is_some() {
        return Err(Failure::new("--caches needs every access: add --sampler exact"));
    }
    if arguments.trace_windows.is_some() && (sampler == Sampler::Exact || !arguments.functions.is_empty()) {
        return Err(Failure::new("--windows goes with neither --sampler exact nor --in: leave it out"));
    }
    if arguments.min_latency.is_some() {
        return Err(Failure::new("--min-latency: the clock sampler measures no latencies; leave the option out"));
    }
    if arguments.marked && arguments.no_heap {
        return Err(Failure::new("--marked needs the library in the program: leave out --no-heap"));
    }
    let outcome = record(&Options {
        command: arguments.command,
        sampler,
        output: arguments.output,
        force: arguments.force,
        rate: arguments.rate.or(arguments.period.map(|period| 1e9 / period)),
        only: arguments.only.map(|access| match access.as_str() {
            "read" => Access::Read,
            _ => Access::Write,
        }),
        overhead: arguments.overhead / 100.0,
        heap: !arguments.no_heap,
        wrappers: arguments.wrapper,
        after: arguments.after.unwrap_or_default(),
        lasting: arguments.lasting,
        marked: arguments.marked,
        functions: arguments.functions,
        objects: arguments.object,
        ranges: arguments.range,
        max_samples: arguments.max_samples,
        trace_windows: arguments.trace_windows.map(|percent| percent / 100.0),
        trace: arguments.trace,
        caches: arguments.caches,
        environment: Vec::new(),
        progress: progress(arguments.quiet),
    })
    .map_err(|error| Failure::with_code(&error, error.exit_code()))?;

    say(&outcome, arguments.quiet)
}

/// Shows the progress of a long recording: on a terminal, unless quiet was asked for.
pub fn progress(quiet: bool) -> Option<fn(Progress)> {
    (!quiet && io::stderr().is_terminal()).then_some(|progress| {
        // A program that draws on the whole screen is not to be disturbed.
        if !signals::terminal_takes_lines() {
            return;
        }
        match progress {
            Progress::Running { time, samples } => {
                eprintln!("numamma: {} s, {samples} samples so far", time.as_secs());
            }
            Progress::Writing => eprintln!("numamma: the program has ended; writing the recording"),
        }
    })
}

/// Says what is to be said of a recording, and ends as the program did.
pub fn say(outcome: &Outcome, quiet: bool) -> Result<ExitCode, Failure> {
    if !quiet {
        outcome.remarks.iter().for_each(|remark| eprintln!("numamma: {remark}"));
    }
    if let Some(error) = &outcome.failure {
        eprintln!("numamma: the recording is not whole: {error}");
        return Ok(ExitCode::from(OWN_FAILURE));
    }
    if let Some(signal) = outcome.stopped {
        let dir = outcome.dir.display();
        eprintln!(
            "numamma: stopped while writing {dir}: it can be read, but code that was not looked up yet has no names"
        );
        signals::die_by(signal);
    }
    if !quiet {
        eprintln!("numamma: {}", summary(outcome));
    }
    Ok(end_as(outcome.ended))
}

/// The line about a recording: its contents, its place, and its losses.
fn summary(outcome: &Outcome) -> String {
    let losses: Vec<String> =
        outcome.losses.iter().map(|(kind, count, _)| format!("{count} {}", kind.replace('_', " "))).collect();
    let lost = match losses.as_slice() {
        [] => "nothing lost".to_owned(),
        some => format!("lost: {}", some.join(", ")),
    };
    let dir = shell_word(&outcome.dir.to_string_lossy());
    let what = if outcome.exact { "accesses" } else { "samples" };
    format!("{} {what} in {dir}, {lost}; show them with `numamma report {dir}`", outcome.samples)
}

/// The program's exit status becomes ours; its signal, too.
pub fn end_as(ended: Ended) -> ExitCode {
    match ended {
        Ended::Code(code) => ExitCode::from(code as u8),
        Ended::Signal(signal) => {
            signals::die_by(signal);
            // Only if the signal could not end us.
            ExitCode::from(ended.status() as u8)
        }
    }
}
