//! What a module asks of the dynamic linker: needed libraries, its own name, copied variables.

use object::Endianness;
use object::elf::{self, Rela64, Sym64};

use super::headers::string_at;
use super::image::Image;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;

/// A variable that a library defines and that lives in the executable's `.bss` instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedVariable {
    /// The symbol's name as the file has it.
    pub name: String,
    /// Its address in the executable, before the bias.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The dynamic section, as far as it is of use here.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub search: Option<String>,
    pub wanted: Vec<String>,
    pub has_interpreter: bool,
    /// A position-independent executable, as far as the linker says so.
    pub is_pie: bool,
    pub copied: Vec<CopiedVariable>,
}

impl Dynamic {
    pub fn read(image: &Image) -> Self {
        let tags = tags(image);
        let value = |wanted| tags.iter().find(|(tag, _)| *tag == wanted).map(|tag| tag.1);
        // By address and not by section: the loader does the same, and section headers may be missing.
        let strings =
            value(DT_STRTAB).zip(value(DT_STRSZ)).and_then(|(address, size)| image.read_address(address, size));
        let string = |offset: u64| {
            let name = string_at(strings.as_deref()?, usize::try_from(offset).ok()?)?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        Self {
            needed: tags
                .iter()
                .filter(|(tag, _)| *tag == DT_NEEDED)
                .filter_map(|&(_, offset)| string(offset))
                .collect(),
            soname: value(DT_SONAME).and_then(string),
            search: value(DT_RUNPATH).or(value(DT_RPATH)).and_then(string),
            wanted: wanted(image),
            is_pie: value(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0),
            has_interpreter: image.segment(elf::PT_INTERP).is_some(),
            copied: copied(image),
        }
    }
}

fn tags(image: &Image) -> Vec<(u64, u64)> {
    let Some(contents) =
        image.segment(elf::PT_DYNAMIC).and_then(|segment| image.source.read(segment.offset, segment.file_size))
    else {
        return Vec::new();
    };
    (0..contents.len() / 16)
        .map_while(|index| {
            let tag = image.word(&contents, index * 16)?;
            let value = image.word(&contents, index * 16 + 8)?;
            (tag != 0).then_some((tag, value))
        })
        .collect()
}

/// What it takes from others and cannot do without.
fn wanted(image: &Image) -> Vec<String> {
    let mut found = Vec::new();
    for table in image.sections.iter().filter(|section| section.kind == elf::SHT_DYNSYM) {
        let Some(strings) = image.sections.get(table.link).and_then(|strings| image.contents(strings)) else {
            continue;
        };
        let symbols = image.table::<Sym64<Endianness>>(table);
        let undefined = symbols.iter().filter(|symbol| {
            symbol.st_shndx.get(image.endian) == elf::SHN_UNDEF && symbol.st_bind() == elf::STB_GLOBAL
        });
        found.extend(
            undefined
                .filter_map(|symbol| string_at(&strings, symbol.st_name.get(image.endian) as usize))
                .map(|name| String::from_utf8_lossy(name).into_owned()),
        );
    }
    found
}

/// Copy relocations. Only executables have them, and only those that were not compiled as position-independent for
/// this variable.
fn copied(image: &Image) -> Vec<CopiedVariable> {
    let copy = match image.machine {
        elf::EM_X86_64 => elf::R_X86_64_COPY,
        elf::EM_AARCH64 => elf::R_AARCH64_COPY,
        _ => return Vec::new(),
    };
    if image.segment(elf::PT_INTERP).is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for section in image.sections.iter().filter(|section| section.kind == elf::SHT_RELA && section.has(elf::SHF_ALLOC))
    {
        let Some(table) = image.sections.get(section.link) else {
            continue;
        };
        let relocations = image.table::<Rela64<Endianness>>(section);
        let mut of_copies =
            relocations.iter().filter(|relocation| relocation.r_type(image.endian, false) == copy).peekable();
        if of_copies.peek().is_none() {
            continue;
        }
        let symbols = image.table::<Sym64<Endianness>>(table);
        let strings = image.sections.get(table.link).and_then(|strings| image.contents(strings));
        found.extend(of_copies.filter_map(|relocation| {
            let symbol = symbols.get(relocation.r_sym(image.endian, false) as usize)?;
            let name = string_at(strings.as_deref()?, symbol.st_name.get(image.endian) as usize)?;
            Some(CopiedVariable {
                name: String::from_utf8_lossy(name).into_owned(),
                address: relocation.r_offset.get(image.endian),
                size: symbol.st_size.get(image.endian),
            })
        }));
    }
    found
}
