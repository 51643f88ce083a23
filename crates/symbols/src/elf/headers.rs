//! Program headers, section headers, and the tables of fixed-size records that they lead to.

use std::sync::{Arc, OnceLock};

use object::Endianness;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{self, Pod};

use super::source::Source;

/// More headers than this are damage: it bounds the work on a file whose counts were overwritten.
const MOST_HEADERS: u64 = 1 << 20;

/// The longest name in bytes; instantiated C++ templates reach tens of thousands.
const MOST_NAME: usize = 1 << 16;

/// A program header, in bytes and in the file's own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub kind: elf::ProgramType,
    pub executable: bool,
    pub writable: bool,
    pub offset: u64,
    pub file_size: u64,
    pub address: u64,
    pub size: u64,
    pub align: u64,
}

/// A section header; `data` is read at the first use.
#[derive(Debug)]
pub(crate) struct Section {
    pub name: String,
    pub kind: elf::SectionType,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: usize,
    pub entry_size: u64,
    /// The contents once they were asked for; by [`Image::contents`](super::image::Image::contents) alone.
    pub data: OnceLock<Option<Arc<[u8]>>>,
}

impl Section {
    pub fn has(&self, flag: elf::SectionFlags) -> bool {
        self.flags & flag.0 != 0
    }

    pub fn has_contents(&self) -> bool {
        self.kind != elf::SHT_NOBITS && self.size > 0
    }

    /// True if the section takes up addresses in a running process. `.tbss` does not, although it has an address.
    pub fn is_loaded(&self) -> bool {
        self.has(elf::SHF_ALLOC) && !(self.has(elf::SHF_TLS) && self.kind == elf::SHT_NOBITS)
    }

    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    pub fn covers(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }
}

/// As many whole records as `bytes` holds.
pub(crate) fn records<T: Pod>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / size_of::<T>();
    pod::slice_from_bytes::<T>(bytes, count).map(|(records, _)| records.to_vec()).unwrap_or_default()
}

pub(crate) fn read_table<T: Pod>(source: &Source, offset: u64, count: u64) -> Option<Vec<T>> {
    if count > MOST_HEADERS {
        return None;
    }
    Some(records(&source.read(offset, count * size_of::<T>() as u64)?))
}

pub(crate) fn segment(header: &ProgramHeader64<Endianness>, endian: Endianness) -> Segment {
    let flags = header.p_flags.get(endian);
    Segment {
        kind: header.p_type.get(endian),
        executable: flags.0 & elf::PF_X.0 != 0,
        writable: flags.0 & elf::PF_W.0 != 0,
        offset: header.p_offset.get(endian),
        file_size: header.p_filesz.get(endian),
        address: header.p_vaddr.get(endian),
        size: header.p_memsz.get(endian),
        align: header.p_align.get(endian),
    }
}

/// The sections; none when the table is missing or damaged, since a program runs without them.
pub(crate) fn read_sections(source: &Source, header: &FileHeader64<Endianness>, endian: Endianness) -> Vec<Section> {
    let offset = header.e_shoff.get(endian);
    if offset == 0 {
        return Vec::new();
    }
    let Some(first) = read_table::<SectionHeader64<Endianness>>(source, offset, 1) else {
        return Vec::new();
    };
    // Counts that do not fit their field are kept in section 0.
    let count = match u64::from(header.e_shnum.get(endian)) {
        0 => first[0].sh_size.get(endian),
        count => count,
    };
    let names_index = match header.e_shstrndx.get(endian) {
        elf::SHN_XINDEX => first[0].sh_link.get(endian) as usize,
        index => usize::from(index.0),
    };
    let headers = read_table::<SectionHeader64<Endianness>>(source, offset, count).unwrap_or_default();
    let names = headers
        .get(names_index)
        .and_then(|header| source.read(header.sh_offset.get(endian), header.sh_size.get(endian)));
    headers
        .iter()
        .map(|header| Section {
            name: names
                .as_deref()
                .and_then(|names| string_at(names, header.sh_name.get(endian) as usize))
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .unwrap_or_default(),
            kind: header.sh_type.get(endian),
            flags: header.sh_flags.get(endian).0,
            address: header.sh_addr.get(endian),
            offset: header.sh_offset.get(endian),
            size: header.sh_size.get(endian),
            link: header.sh_link.get(endian) as usize,
            entry_size: header.sh_entsize.get(endian),
            data: OnceLock::new(),
        })
        .collect()
}

/// The zero-terminated string at `offset` of a string table. Bounded, so that a table whose zeros were overwritten is not
/// searched from end to end for each of its symbols.
pub(crate) fn string_at(table: &[u8], offset: usize) -> Option<&[u8]> {
    let tail = table.get(offset..)?;
    let end = tail.iter().take(MOST_NAME).position(|&byte| byte == 0)?;
    Some(&tail[..end])
}
