//! `numamma predict`

use std::process::ExitCode;

use numamma_plan::Plan;
use numamma_report::{Options, render_predictions};

use crate::arguments::Predict;
use crate::commands::question::Subject;
use crate::commands::terminal;
use crate::failure::Failure;

pub fn run(arguments: Predict) -> Result<ExitCode, Failure> {
    let Subject { usage, machine, mut options, assumptions } = Subject::new(&arguments.question)?;
    options.plan = arguments.plan.as_deref().map(Plan::read).transpose()?;
    let mut predictions = numamma_advise::predict(&usage, &machine, &options)?;
    predictions.assumptions.splice(0..0, assumptions);
    let options = Options { format: arguments.question.format, ..terminal::options() };
    terminal::write(|out| render_predictions(&predictions, &options, out))
}
