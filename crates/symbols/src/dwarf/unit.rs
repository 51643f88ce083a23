//! One unit: its entries' children, its language, its source files.

use gimli::{AttributeValue, UnitOffset};

use super::load::SliceReader;
use super::units::Entry;

/// A parsed unit with the sections it refers to.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'a, 'u> {
    pub number: usize,
    pub unit: &'u gimli::Unit<SliceReader<'a>>,
    pub dwarf: &'u gimli::Dwarf<SliceReader<'a>>,
}

impl<'a> Unit<'a, '_> {
    /// Visits the direct children of the entry at `parent`, in order, until `visit` says false.
    pub fn children(&self, parent: UnitOffset, mut visit: impl FnMut(UnitOffset, &Entry<'a>) -> bool) {
        let Ok(mut entries) = self.unit.entries_raw(Some(parent)) else {
            return;
        };
        let mut entry = Entry::default();
        if !entries.read_entry(&mut entry).unwrap_or(false) {
            return;
        }
        while entries.next_depth() > 0 && !entries.is_empty() {
            let is_direct = entries.next_depth() == 1;
            let offset = entries.next_offset();
            if !is_direct {
                match entries.read_abbreviation() {
                    Ok(Some(form)) if entries.skip_attributes(form.attributes()).is_ok() => {}
                    Ok(None) => {}
                    _ => return,
                }
                continue;
            }
            match entries.read_entry(&mut entry) {
                Ok(true) if !visit(offset, &entry) => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// The language of the unit.
    pub fn is_fortran(&self) -> bool {
        let root = self.unit.entry(self.unit.header.root_offset());
        let language = root.ok().and_then(|root| root.attr_value(gimli::DW_AT_language));
        matches!(language, Some(AttributeValue::Language(language)) if super::is_fortran(language))
    }

    /// The source file with a unit's number `index`, made absolute with the compilation directory.
    pub fn file(&self, index: u64) -> Option<String> {
        let program = self.unit.line_program.as_ref()?;
        let header = program.header();
        let file = header.file(index)?;
        let text = |value| {
            let text = self.dwarf.attr_string(self.unit, value).ok()?;
            Some(String::from_utf8_lossy(text.slice()).into_owned())
        };
        let mut path = std::path::PathBuf::new();
        if let Some(folder) = self.unit.comp_dir {
            path.push(&*String::from_utf8_lossy(folder.slice()));
        }
        // `push` with an absolute path replaces what is there, which is the rule for these names.
        if let Some(folder) = file.directory(header) {
            path.push(text(folder)?);
        }
        path.push(text(file.path_name())?);
        Some(path.to_string_lossy().into_owned())
    }
}
