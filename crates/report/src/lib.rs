//! Findings as text, JSON, CSV and HTML.
//!
//! ```text
//! Findings + Options -> rows (filter, sort, cut) -> text | json | csv
//! ```
//! `rows` decides what is shown and in which order, the same for every format; a format only decides how it looks.
//! Nothing here reads files or the environment: what a terminal can show arrives in [`Options`].

#![forbid(unsafe_code)]

mod comparison;
mod csv;
mod error;
mod finite;
pub mod html;
mod json;
mod lookup;
mod options;
mod placement;
mod rows;
mod text;
mod warnings;

use std::io;

use numamma_findings::Findings;

pub use comparison::render_comparison;
pub use error::ReportError;
pub use lookup::find_object;
pub use options::{Access, By, Format, Options, Sort, unicode_locale};
pub use placement::{render_plan, render_predictions};
pub use text::shell_word;
pub use warnings::{Warning, warnings};

/// Which objects need [`numamma_findings::Object::detail`] before [`render`] can show what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// None of them.
    None,
    /// The object of this id.
    One(usize),
    /// All objects.
    All,
}

/// Says which details `options` need; fails like [`render`] when the object that they name is not there.
pub fn details_needed(findings: &Findings, options: &Options) -> Result<Details, ReportError> {
    rows::check(options)?;
    match &options.object {
        Some(name) => Ok(Details::One(findings.objects[find_object(findings, name)?].id)),
        None if matches!(options.by, By::Page | By::Node) => Ok(Details::All),
        None => Ok(Details::None),
    }
}

/// Writes the report that `options` ask for.
pub fn render(findings: &Findings, options: &Options, out: &mut dyn io::Write) -> Result<(), ReportError> {
    // Counts are sorted by what they are.
    let counted = Options { sort: Sort::Accesses, ..options.clone() };
    let by_count = rows::is_exact(findings) && options.sort == Sort::Cost;
    let selection = rows::Selection::new(findings, if by_count { &counted } else { options })?;
    match options.format {
        Format::Text => out.write_all(text::render(&selection)?.as_bytes())?,
        Format::Json => json::render(&selection, out)?,
        Format::Csv => out.write_all(csv::render(&selection)?.as_bytes())?,
    }
    out.flush()?;
    Ok(())
}
