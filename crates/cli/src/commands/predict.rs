//! `numamma predict`

use std::process::ExitCode;

use numamma_plan::Plan;
use numamma_report::{Options, render_predictions};

use crate::arguments::Predict;
use crate::commands::question::Subject;
use crate::commands::terminal;
use crate::failure::Failure;

pub fn run(arguments: Predict) -> Result<ExitCode, Failure> {
    let subject = Subject::new(&arguments.question)?;
    let predictions = subject.predict(arguments.plan.as_deref().map(Plan::read).transpose()?)?;
    let options = Options { format: arguments.question.format, ..terminal::options() };
    terminal::write(|out| render_predictions(&predictions, &options, out))
}
