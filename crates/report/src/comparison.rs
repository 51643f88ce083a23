//! The comparison of two recordings as text and JSON.

use std::io;

use numamma_findings::Comparison;

use crate::{
    error::ReportError,
    finite::Finite,
    options::{Format, Options},
    text,
};

/// Writes a comparison. Of the options, `top`, `format` and what the terminal can show count.
///
/// # Errors
/// If it cannot be written, or if CSV is asked for: it holds tables of different columns.
pub fn render_comparison(
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    match options.format {
        Format::Text => out.write_all(text::comparison::render(comparison, options).as_bytes())?,
        Format::Json => {
            let mut comparison = comparison.clone();
            comparison.a.sampler.make_finite();
            comparison.b.sampler.make_finite();
            serde_json::to_writer_pretty(&mut *out, &comparison)?;
            out.write_all(b"\n")?;
        }
        Format::Csv => {
            let what = "a comparison is several tables, and CSV holds one";
            return Err(ReportError::Unsupported { what, remedy: "use --format json" });
        }
    }
    out.flush()?;
    Ok(())
}
