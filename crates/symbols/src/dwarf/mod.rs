//! Debug information: lines and inlined functions, static variables and their types.

mod files;
mod lines;
mod load;
mod location;
pub(crate) mod scopes;
mod statics;
mod types;
mod unit;
mod units;

pub(crate) use files::DebugFiles;
pub(crate) use lines::Lines;
pub(crate) use load::DebugSections;
pub(crate) use location::Place;
pub(crate) use statics::{Static, Statics};

/// True if arrays count from 1 and procedures have an underscore more than their name.
fn is_fortran(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_Fortran77
            | gimli::DW_LANG_Fortran90
            | gimli::DW_LANG_Fortran95
            | gimli::DW_LANG_Fortran03
            | gimli::DW_LANG_Fortran08
            | gimli::DW_LANG_Fortran18
    )
}
