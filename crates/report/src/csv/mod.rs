//! CSV after RFC 4180, with LF line ends: one table, plain numbers, an empty field where a value is not known.
//! `docs/REPORT.md` documents the columns.

mod field;
mod tables;

use crate::{error::ReportError, options::By, rows::Selection};

/// The table that the options ask for.
pub fn render(selection: &Selection) -> Result<String, ReportError> {
    Ok(match selection.options.by {
        By::Object if selection.object.is_some() => tables::pages(selection, &selection.pages()?.rows),
        By::Object => tables::objects(selection),
        By::Site => tables::sites(selection),
        By::Thread => tables::threads(selection),
        By::Page => tables::pages(selection, &selection.pages()?.rows),
        By::Node => tables::nodes(selection),
        By::Line => tables::lines(&selection.lines().rows),
    })
}
