//! `numamma plan`

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use numamma_report::{Options, render_plan};

use crate::arguments::Plan;
use crate::commands::question::Subject;
use crate::commands::terminal;
use crate::failure::Failure;

pub fn run(arguments: Plan) -> Result<ExitCode, Failure> {
    let advice = Subject::new(&arguments.question)?.plan()?;
    if let Some(file) = &arguments.output {
        if !arguments.force && file.exists() && !is_ours(file) {
            return Err(Failure::new(format!(
                "{}: is no plan that `numamma plan` wrote; name another file, or replace it with --force",
                file.display()
            )));
        }
        fs::write(file, &advice.findings.toml)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))?;
    }
    let format = arguments.question.format;
    let options = Options { format, object: arguments.explain, top: arguments.top, ..terminal::options() };
    terminal::write(|out| render_plan(&advice.findings, &options, out))
}

/// True if a file is a plan with a prediction, as this command writes it.
fn is_ours(file: &Path) -> bool {
    numamma_plan::Plan::read(file).is_ok_and(|plan| plan.predicted.is_some())
}
