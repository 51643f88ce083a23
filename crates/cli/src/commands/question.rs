//! The run and the machine that a plan or a prediction is for.

use std::path::Path;

use numamma_advise::{Options, Pages, PlanAdvice, ThreadPlacement};
use numamma_analyze::Analysis;
use numamma_findings::{Predictions, Run, Usage};
use numamma_plan::Plan;
use numamma_topology::{Machine, MachineModel, machines};
use numamma_trace::Dataset;

use crate::arguments::Question;
use crate::failure::Failure;

/// Everything that the advice needs.
pub struct Subject {
    usage: Usage,
    /// The machine.
    pub machine: MachineModel,
    options: Options,
    /// Assumptions about the machine, a sentence each.
    assumptions: Vec<String>,
}

impl Subject {
    pub fn new(question: &Question) -> Result<Self, Failure> {
        let dataset = Dataset::open(&question.dir)?;
        let subject = Self::of(&Analysis::new(&dataset)?, question);
        dataset.unread().iter().for_each(|file| eprintln!("numamma: {file}"));
        subject
    }

    /// A recording that is open.
    pub fn of(analysis: &Analysis<'_>, question: &Question) -> Result<Self, Failure> {
        let usage = analysis.usage()?;
        let mut assumptions = Vec::new();
        let machine = model(question.machine.as_deref(), &mut assumptions)?;
        let recorded = match &question.recorded {
            Some(name) => Some(machines::load(name)?),
            None => measured_here(&analysis.findings().run)?,
        };
        let threads = match question.pin.as_deref() {
            Some("compact") => ThreadPlacement::Compact,
            Some("scatter") => ThreadPlacement::Scatter,
            Some(_) => ThreadPlacement::AsRecorded,
            None => ThreadPlacement::Best,
        };
        let pages = if question.huge { Pages::Huge } else { Pages::Small };
        let mut options = Options { threads, pages, recorded, thread_count: question.threads, ..Options::default() };
        if !question.calibrate.is_empty() {
            let runs: Vec<_> = question.calibrate.iter().map(|text| measured(text)).collect::<Result<_, _>>()?;
            options.calibration = Some(numamma_advise::calibrate_by_name(&usage, &machine, &options, &runs)?);
        }
        Ok(Self { usage, machine, options, assumptions })
    }

    /// The best plan.
    pub fn plan(&self) -> Result<PlanAdvice, Failure> {
        let mut advice = numamma_advise::plan(&self.usage, &self.machine, &self.options)?;
        advice.findings.assumptions.splice(0..0, self.assumptions.clone());
        Ok(advice)
    }

    /// The usual placements and a plan.
    pub fn predict(&self, plan: Option<Plan>) -> Result<Predictions, Failure> {
        let options = Options { plan, ..self.options.clone() };
        let mut predictions = numamma_advise::predict(&self.usage, &self.machine, &options)?;
        predictions.assumptions.splice(0..0, self.assumptions.clone());
        Ok(predictions)
    }
}

/// A placement and the seconds of a run under it: `first-touch=81.2`, or the wall time of a recording.
fn measured(text: &str) -> Result<(String, f64), Failure> {
    if let Some((placement, seconds)) = text.split_once('=') {
        let wrong = || Failure::new(format!("--calibrate {text}: {seconds} is no number of seconds"));
        return Ok((placement.to_owned(), seconds.trim_end_matches('s').parse().map_err(|_| wrong())?));
    }
    let run = Analysis::new(&Dataset::open(Path::new(text))?)?.findings().run.wall_s;
    Ok(("first-touch".to_owned(), run))
}

/// This machine, if it was measured and the run was recorded on it.
fn measured_here(run: &Run) -> Result<Option<MachineModel>, Failure> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim() != run.host {
        return Ok(None);
    }
    Ok(machines::current(&Machine::read(Path::new("/")))?.filter(|machine| machine.nodes.len() == run.nodes))
}

/// A machine by name or file; else this one as it was measured, or as its firmware describes it.
fn model(name: Option<&str>, assumptions: &mut Vec<String>) -> Result<MachineModel, Failure> {
    if let Some(name) = name {
        return Ok(machines::load(name)?);
    }
    let machine = Machine::read(Path::new("/"));
    if let Some(model) = machines::current(&machine)? {
        return Ok(model);
    }
    let error = match MachineModel::from_machine(&machine) {
        Ok(model) => return Ok(model),
        Err(error) => error,
    };
    let model = MachineModel::from_distances(&machine).ok_or_else(|| {
        Failure::new(format!(
            "this machine's latencies are not known: {}; or name another with --machine",
            error.reason
        ))
    })?;
    assumptions.push(
        "This machine's latencies are not known: its firmware's distances are taken for them, 100 ns for local memory. \
         `numamma machine --measure` measures them."
            .to_owned(),
    );
    Ok(model)
}
