//! Predictions and plans as text and JSON.

use std::io;

use numamma_findings::{PlanFindings, Predictions};
use serde::Serialize;

use crate::{
    error::ReportError,
    options::{Format, Options},
    text,
};

/// Writes predictions. Of the options, `format` and what the terminal can show count.
///
/// # Errors
/// If they cannot be written, or if CSV is asked for.
pub fn render_predictions(
    predictions: &Predictions,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    write(predictions, options, out, || Ok(text::predictions::render(predictions, options)))
}

/// Writes a plan's reasons. Of the options, `format`, `top`, `object` and what the terminal can show count; with an object, all
/// policies that were compared for it.
///
/// # Errors
/// If they cannot be written, if CSV is asked for, or if there is no such object.
pub fn render_plan(plan: &PlanFindings, options: &Options, out: &mut dyn io::Write) -> Result<(), ReportError> {
    write(plan, options, out, || text::plan::render(plan, options))
}

fn write(
    of: &impl Serialize,
    options: &Options,
    out: &mut dyn io::Write,
    text: impl FnOnce() -> Result<String, ReportError>,
) -> Result<(), ReportError> {
    match options.format {
        Format::Text => out.write_all(text()?.as_bytes())?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, of)?;
            out.write_all(b"\n")?;
        }
        Format::Csv => {
            let what = "predictions and plans are several tables, and CSV holds one";
            return Err(ReportError::Unsupported { what, remedy: "use --format json" });
        }
    }
    out.flush()?;
    Ok(())
}
