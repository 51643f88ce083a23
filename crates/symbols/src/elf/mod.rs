//! What an ELF file says about itself: headers, symbols, relocations, unwind tables. Addresses are the file's own.

pub(crate) mod compressed;
pub(crate) mod dynamic;
pub(crate) mod functions;
pub(crate) mod headers;
pub(crate) mod image;
pub(crate) mod mapping;
pub(crate) mod notes;
pub(crate) mod plt;
pub(crate) mod source;
pub(crate) mod symtab;
pub(crate) mod unwind;

/// The byte order in the terms of the DWARF reader.
pub(crate) fn gimli_endian(endian: object::Endianness) -> gimli::RunTimeEndian {
    match endian {
        object::Endianness::Little => gimli::RunTimeEndian::Little,
        object::Endianness::Big => gimli::RunTimeEndian::Big,
    }
}
