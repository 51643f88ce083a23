//! The debug sections of a module, in one bundle.

use std::sync::Arc;

use gimli::{DwarfSections, EndianArcSlice, EndianSlice, RunTimeEndian};

use super::files::DebugFiles;
use crate::elf::image::Image;

/// A reader that owns a share of its section: what is built on it can be kept beside it.
pub(crate) type SharedReader = EndianArcSlice<RunTimeEndian>;

/// A reader that borrows its section: twice as fast, for one pass over everything.
pub(crate) type SliceReader<'a> = EndianSlice<'a, RunTimeEndian>;

/// All debug sections of a module, read and decompressed.
#[derive(Debug)]
pub(crate) struct DebugSections {
    own: DwarfSections<Arc<[u8]>>,
    shared: Option<DwarfSections<Arc<[u8]>>>,
    endian: RunTimeEndian,
}

impl DebugSections {
    /// Of the separate debug file, or else of the module; none when neither has any.
    pub fn load(image: &Image, files: &DebugFiles) -> Option<Self> {
        let has_units = |image: &&Image| image.section(".debug_info").is_some_and(|section| section.has_contents());
        let holder = files.separate.iter().chain(std::iter::once(image)).find(has_units)?;
        Some(Self {
            own: sections(holder),
            shared: files.shared.as_ref().map(sections),
            endian: crate::elf::gimli_endian(image.endian),
        })
    }

    /// For keeping.
    pub fn shared(&self) -> gimli::Dwarf<SharedReader> {
        let mut dwarf =
            self.own.borrow_with_sup(self.shared.as_ref(), |section| SharedReader::new(section.clone(), self.endian));
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        dwarf
    }

    /// For one pass.
    pub fn borrowed(&self) -> gimli::Dwarf<SliceReader<'_>> {
        let mut dwarf =
            self.own.borrow_with_sup(self.shared.as_ref(), |section| SliceReader::new(section, self.endian));
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        dwarf
    }
}

fn sections(image: &Image) -> DwarfSections<Arc<[u8]>> {
    let loaded = DwarfSections::load(|id| {
        Ok::<_, std::convert::Infallible>(
            image.section(id.name()).and_then(|section| image.contents(section)).unwrap_or_else(|| Arc::from([])),
        )
    });
    match loaded {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}
