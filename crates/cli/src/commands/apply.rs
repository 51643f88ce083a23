//! `numamma apply`

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use numamma_apply::{Achieved, ApplyError, Placement, apply, compile_elsewhere, render};
use numamma_plan::{Compiled, Pin, Places, Plan, snippet};
use numamma_process::Ended;
use numamma_record::{Options, Sampler, record};
use numamma_topology::Machine;

use super::record::{end_as, progress, say};
use crate::arguments::Apply;
use crate::failure::{Failure, OWN_FAILURE};

/// Most overhead of sampling while a plan is applied, 0..1.
const OVERHEAD: f64 = 0.02;

pub fn run(arguments: Apply) -> Result<ExitCode, Failure> {
    let plan = plan_of(&arguments)?;
    let failed = |error: ApplyError| Failure::with_code(&error, error.exit_code());
    if let Some(root) = &arguments.machine {
        show(&plan, &compile_elsewhere(&plan, &arguments.command, root).map_err(failed)?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(predicted) = plan.predicted.as_ref().filter(|_| !arguments.quiet && has_one_node()) {
        eprintln!(
            "numamma: the plan is for {}; this machine has one node, so memory lies where it always does",
            predicted.machine
        );
    }
    let mut placement = Placement::prepare(&plan, &arguments.command).map_err(failed)?;
    if let Some(path) = arguments.report.as_ref().filter(|_| !arguments.show) {
        std::fs::write(path, "").map_err(|error| Failure::new(format!("--report {}: {error}", path.display())))?;
    }
    if arguments.show {
        show(&plan, placement.compiled());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(output) = &arguments.record {
        return run_recorded(&arguments, output, &mut placement);
    }
    let outcome = apply(&mut placement, &arguments.command).map_err(failed)?;
    tell(&arguments, &outcome.achieved)?;
    Ok(end(outcome.ended, &outcome.achieved))
}

fn has_one_node() -> bool {
    Machine::read(Path::new("/")).nodes.len() <= 1
}

/// The same without NumaMMA.
fn show(plan: &Plan, compiled: &Compiled) {
    for remark in &compiled.remarks {
        eprintln!("numamma: {}:{}: {}", plan.path.display(), remark.line, remark.message);
    }
    print!("{}", snippet(plan, compiled));
}

fn plan_of(arguments: &Apply) -> Result<Plan, Failure> {
    let mut plan = match (&arguments.plan, &arguments.policy) {
        (Some(path), _) => Plan::read(path)?,
        (None, Some(policy)) => {
            Plan::whole(policy, arguments.min_size).map_err(|error| Failure::new(format!("--policy {error}")))?
        }
        (None, None) => return Err(Failure::new("no plan given; see `numamma apply --help`")),
    };
    plan.strict |= arguments.strict;
    if let Some(way) = &arguments.pin {
        plan.pin = pin(way)?;
        plan.pin_line = 0;
    }
    Ok(plan)
}

pub fn pin(way: &str) -> Result<Pin, Failure> {
    match way {
        "compact" => Ok(Pin::Compact),
        "scatter" => Ok(Pin::Scatter),
        "free" => Ok(Pin::Free),
        places if Places::is_meant(places) => {
            Places::parse(places).map(Pin::Places).map_err(|message| Failure::new(format!("--pin: {message}")))
        }
        list => {
            let each = list.split(',').map(|cpus| numamma_topology::list::parse(cpus).filter(|cpus| !cpus.is_empty()));
            let lists: Option<Vec<Vec<u32>>> = each.collect();
            lists.map(Pin::List).ok_or_else(|| {
                Failure::new(format!(
                    "--pin {way}: compact, scatter, free, places as OpenMP has them (cores, {{0:4}},{{4:4}}), or the CPUs of each thread, such as 0,1,4-7"
                ))
            })
        }
    }
}

/// How a program is recorded whose placement is looked at.
pub fn recording(command: &[OsString], output: &Path, force: bool, environment: Vec<(OsString, OsString)>) -> Options {
    Options {
        command: command.to_vec(),
        sampler: Sampler::Clock,
        output: Some(output.to_owned()),
        force,
        rate: None,
        only: None,
        overhead: OVERHEAD,
        heap: true,
        wrappers: Vec::new(),
        after: Duration::ZERO,
        lasting: None,
        marked: false,
        functions: Vec::new(),
        objects: Vec::new(),
        ranges: Vec::new(),
        max_samples: 50_000_000,
        trace_windows: None,
        trace: None,
        caches: None,
        environment,
        progress: None,
    }
}

fn run_recorded(arguments: &Apply, output: &Path, placement: &mut Placement) -> Result<ExitCode, Failure> {
    let watch = placement.watch();
    let mut options = recording(&arguments.command, output, arguments.force, placement.environment());
    options.progress = progress(arguments.quiet);
    let outcome = record(&options).map_err(|error| Failure::with_code(&error, error.exit_code()))?;
    let achieved = placement.achieved(watch);
    tell(arguments, &achieved)?;
    if achieved.stopped.is_some() {
        return Ok(end(outcome.ended, &achieved));
    }
    say(&outcome, arguments.quiet)
}

fn tell(arguments: &Apply, achieved: &Achieved) -> Result<(), Failure> {
    if !arguments.quiet {
        eprint!("{}", render(achieved));
    }
    if let Some(path) = &arguments.report {
        let json = serde_json::to_string_pretty(achieved)?;
        std::fs::write(path, json + "\n").map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// A program that a strict plan ended did not fail by itself.
fn end(ended: Ended, achieved: &Achieved) -> ExitCode {
    match &achieved.stopped {
        Some(rule) => {
            eprintln!("numamma: ended the program: {rule} could not be placed, and the plan is strict");
            ExitCode::from(OWN_FAILURE)
        }
        None => end_as(ended),
    }
}
