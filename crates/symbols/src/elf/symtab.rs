//! Symbols of `.symtab` and `.dynsym`, of the module and of its separate debug file, as one list.

use std::sync::Arc;

use object::Endianness;
use object::elf::{self, Sym64};

use super::headers::{records, string_at};
use super::image::Image;

/// Where a symbol's name lies: which table, and the offset in its strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameAt {
    table: u8,
    offset: u32,
}

/// A defined symbol. For thread-local ones `value` is the offset in the module's TLS block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub name: NameAt,
    pub value: u64,
    pub size: u64,
    pub kind: elf::SymbolType,
    pub bind: elf::SymbolBind,
    pub section: u16,
}

/// All defined symbols, and the string tables their names are in.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub list: Vec<Symbol>,
    strings: Vec<Arc<[u8]>>,
}

impl Symbols {
    /// Of the module itself and, where there is one, of its debug file. A symbol that two tables name appears twice:
    /// merging aliases removes it.
    pub fn read(image: &Image, debug: Option<&Image>) -> Self {
        let mut symbols = Self::default();
        for image in std::iter::once(image).chain(debug) {
            symbols.add(image, elf::SHT_SYMTAB);
        }
        symbols.add(image, elf::SHT_DYNSYM);
        symbols
    }

    fn add(&mut self, image: &Image, kind: elf::SectionType) {
        let Some(section) = image.sections.iter().find(|section| section.kind == kind && section.has_contents()) else {
            return;
        };
        let (Some(table), Some(strings)) =
            (image.contents(section), image.sections.get(section.link).and_then(|section| image.contents(section)))
        else {
            return;
        };
        let number = self.strings.len() as u8;
        self.strings.push(strings);
        let endian = image.endian;
        self.list.extend(
            records::<Sym64<Endianness>>(&table)
                .iter()
                .filter(|symbol| symbol.st_shndx.get(endian) != elf::SHN_UNDEF)
                .filter(|symbol| symbol.st_shndx.get(endian) != elf::SHN_ABS)
                .map(|symbol| Symbol {
                    name: NameAt { table: number, offset: symbol.st_name.get(endian) },
                    value: symbol.st_value.get(endian),
                    size: symbol.st_size.get(endian),
                    kind: symbol.st_type(),
                    bind: symbol.st_bind(),
                    section: symbol.st_shndx.get(endian).0,
                }),
        );
    }

    /// A symbol's name as the file has it, without the version (`stdout@GLIBC_2.2.5` is `stdout`). Empty when it has
    /// none.
    pub fn name(&self, at: NameAt) -> &str {
        let name = self
            .strings
            .get(usize::from(at.table))
            .and_then(|strings| string_at(strings, at.offset as usize))
            .unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default();
        match name.find('@') {
            Some(at) if at > 0 => &name[..at],
            _ => name,
        }
    }

    /// How good a name is among aliases; the smallest is shown. What other modules can see comes first, and of those
    /// the one that a programmer wrote rather than the C library's internal spelling of it.
    pub fn rank(&self, symbol: &Symbol) -> impl Ord + use<'_> {
        let name = self.name(symbol.name);
        let bind = match symbol.bind {
            elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => 0,
            elf::STB_WEAK => 1,
            _ => 2,
        };
        // `_Z` and `_R` begin mangled names: those underscores are not the programmer's.
        let mangled = name.starts_with("_Z") || name.starts_with("_R");
        let underscores = match mangled {
            true => 0,
            false => name.len() - name.trim_start_matches('_').len(),
        };
        (name.is_empty(), bind == 2, underscores, bind, name.len(), name)
    }
}
