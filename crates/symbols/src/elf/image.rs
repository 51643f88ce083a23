//! An ELF file: its headers, and its sections' contents on demand.

use std::sync::Arc;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::pod::{self, Pod};
use object::{Endianness, U64};

use super::headers::{Section, Segment, read_sections, read_table, records, segment};
use super::source::Source;
use crate::Error;

/// An ELF file with its headers read.
#[derive(Debug)]
pub(crate) struct Image {
    pub source: Source,
    pub endian: Endianness,
    pub kind: elf::FileType,
    pub machine: elf::Machine,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
}

impl Image {
    /// Reads the headers of `source`; `name` is for messages.
    pub fn parse(source: Source, name: &str) -> Result<Self, Error> {
        let damaged = |what| Error::Damaged { name: name.into(), what };
        let unsupported = |form| Error::Unsupported { name: name.into(), form };
        let ident = source.read(0, 16).ok_or_else(|| Error::NotElf(name.into()))?;
        if ident[..4] != elf::ELFMAG {
            return Err(Error::NotElf(name.into()));
        }
        if ident[4] != 2 {
            return Err(unsupported("32-bit"));
        }
        let endian = match ident[5] {
            1 => Endianness::Little,
            2 => Endianness::Big,
            _ => return Err(unsupported("unknown-endian")),
        };
        let bytes = source.read(0, 64).ok_or_else(|| damaged("file header"))?;
        let (header, _) = pod::from_bytes::<FileHeader64<Endianness>>(&bytes).map_err(|()| damaged("file header"))?;

        let sections = read_sections(&source, header, endian);
        let segment_count = match u64::from(header.e_phnum.get(endian)) {
            // With 65535 or more segments the count is in section 0 (core files have them).
            0xffff => 0,
            count => count,
        };
        let segments = read_table::<ProgramHeader64<Endianness>>(&source, header.e_phoff.get(endian), segment_count)
            .ok_or_else(|| damaged("program headers"))?
            .iter()
            .map(|header| segment(header, endian))
            .collect();
        Ok(Self {
            endian,
            kind: header.e_type.get(endian),
            machine: header.e_machine.get(endian),
            segments,
            sections,
            source,
        })
    }

    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The contents of a section, decompressed; none for `.bss` and its like, and for damaged ones.
    pub fn contents(&self, section: &Section) -> Option<Arc<[u8]>> {
        section
            .data
            .get_or_init(|| {
                if !section.has_contents() {
                    return None;
                }
                let raw = self.source.read(section.offset, section.size)?;
                if section.has(elf::SHF_COMPRESSED) {
                    super::compressed::decompress(&raw, self.endian)
                } else {
                    Some(raw)
                }
            })
            .clone()
    }

    /// The section that takes up `address` in a running process.
    pub fn section_at(&self, address: u64) -> Option<&Section> {
        self.sections.iter().find(|section| section.is_loaded() && section.covers(address))
    }

    pub fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD)
    }

    pub fn segment(&self, kind: elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// The file's bytes for `size` addresses from `address`, by the segment that loads them.
    pub fn read_address(&self, address: u64, size: u64) -> Option<Arc<[u8]>> {
        let segment = self.loads().find(|segment| {
            address >= segment.address
                && address.checked_add(size).is_some_and(|end| end - segment.address <= segment.file_size)
        })?;
        self.source.read(segment.offset.checked_add(address - segment.address)?, size)
    }

    /// A table of fixed-size records in a section, as an owned copy.
    pub fn table<T: Pod>(&self, section: &Section) -> Vec<T> {
        self.contents(section).map(|bytes| records(&bytes)).unwrap_or_default()
    }

    /// An address-sized word out of `bytes`.
    pub fn word(&self, bytes: &[u8], offset: usize) -> Option<u64> {
        let (word, _) = pod::from_bytes::<U64<Endianness>>(bytes.get(offset..)?).ok()?;
        Some(word.get(self.endian))
    }
}
