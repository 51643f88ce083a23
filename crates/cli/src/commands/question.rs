//! The run and the machine that a plan or a prediction is for.

use std::path::Path;

use numamma_advise::{Options, Pages, ThreadPlacement};
use numamma_analyze::Analysis;
use numamma_findings::Usage;
use numamma_topology::{Machine, MachineModel, machines};
use numamma_trace::Dataset;

use crate::arguments::Question;
use crate::failure::Failure;

/// Everything that the advice needs.
pub struct Subject {
    pub usage: Usage,
    pub machine: MachineModel,
    pub options: Options,
}

impl Subject {
    pub fn new(question: &Question) -> Result<Self, Failure> {
        let dataset = Dataset::open(&question.dir)?;
        let usage = Analysis::new(&dataset)?.usage()?;
        dataset.unread().iter().for_each(|file| eprintln!("numamma: {file}"));
        let machine = model(question.machine.as_deref())?;
        let is_this_one = question.machine.is_none() && machine.nodes.len() == usage.nodes;
        let recorded = match &question.recorded {
            Some(name) => Some(machines::load(name)?),
            None => is_this_one.then(|| machine.clone()),
        };
        let threads = match question.pin.as_deref() {
            Some("compact") => ThreadPlacement::Compact,
            Some("scatter") => ThreadPlacement::Scatter,
            Some(_) => ThreadPlacement::AsRecorded,
            None => ThreadPlacement::Best,
        };
        let pages = if question.huge { Pages::Huge } else { Pages::Small };
        let options = Options { threads, pages, recorded, thread_count: question.threads, ..Options::default() };
        Ok(Self { usage, machine, options })
    }
}

/// A machine by name or file; else this one as it was measured, or as its firmware describes it.
fn model(name: Option<&str>) -> Result<MachineModel, Failure> {
    if let Some(name) = name {
        return Ok(machines::load(name)?);
    }
    let machine = Machine::read(Path::new("/"));
    if let Some(model) = machines::current(&machine)? {
        return Ok(model);
    }
    MachineModel::from_machine(&machine).map_err(|error| {
        Failure::new(format!(
            "this machine's latencies are not known: {}; or name another machine with --machine",
            error.reason
        ))
    })
}
