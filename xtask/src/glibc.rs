//! Which versions of the GNU C library a program needs, and those that the libraries within it need.

use object::elf;
use object::read::elf::{FileHeader, SectionHeader, VernauxIterator};
use object::{Endianness, read::Error};

/// Major and minor number.
pub type Version = (u32, u32);

const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";

/// `2.17`, or `2.2.5`, of which the last number is of no matter.
pub fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// What exceeds the newest versions that the program and the libraries within it may need.
pub fn check(program: &[u8], newest: Version, newest_within: Version) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let mut add = |what: &str, needed: Vec<(String, Version)>, newest: Version| {
        let above = needed.into_iter().filter(|(_, version)| *version > newest);
        faults.extend(above.map(|(name, _)| format!("{what} needs {name}, above GLIBC_{}.{}", newest.0, newest.1)));
    };
    add("the program", needed(program).map_err(|error| error.to_string())?, newest);
    for (number, library) in within(program).enumerate() {
        add(&format!("library {number} in it"), needed(library).map_err(|error| error.to_string())?, newest_within);
    }
    Ok(faults)
}

/// Files in a file: shared libraries that it carries as bytes, each with what comes behind it.
pub fn within(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (1..file.len()).filter(|&at| file[at..].starts_with(MAGIC));
    starts.map(|at| &file[at..]).filter(|image| {
        let header = elf::FileHeader64::<Endianness>::parse(*image);
        header.is_ok_and(|header| header.endian().is_ok_and(|endian| header.e_type(endian) == elf::ET_DYN))
    })
}

/// Versions of the C library's symbols that a file needs.
pub fn needed(file: &[u8]) -> Result<Vec<(String, Version)>, Error> {
    let header = elf::FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let mut names = Vec::new();
    for section in sections.iter() {
        let Some((mut libraries, link)) = section.gnu_verneed(endian, file)? else { continue };
        let strings = sections.strings(endian, file, link)?;
        while let Some((_, symbols)) = libraries.next()? {
            add(symbols, endian, strings, &mut names)?;
        }
    }
    Ok(names)
}

fn add(
    mut symbols: VernauxIterator<'_, elf::FileHeader64<Endianness>>,
    endian: Endianness,
    strings: object::StringTable<'_>,
    names: &mut Vec<(String, Version)>,
) -> Result<(), Error> {
    while let Some(symbol) = symbols.next()? {
        let name = String::from_utf8_lossy(symbol.name(endian, strings)?).into_owned();
        // Others are of other libraries: GCC_3.0.
        if let Some(version) = name.strip_prefix("GLIBC_").and_then(version) {
            names.push((name, version));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numamma_preload::LIBRARY;

    /// Each build of it, not that of `make dist` alone: it asks for functions by name at run time instead.
    #[test]
    fn the_library_in_recorded_programs_needs_an_old_c_library() {
        let needed = needed(LIBRARY).expect("a library");
        assert!(needed.iter().any(|(name, _)| name == "GLIBC_2.2.5"), "{needed:?}");
        let above: Vec<_> = needed.iter().filter(|(_, version)| *version > (2, 17)).collect();
        assert!(above.is_empty(), "{above:?}");
    }

    #[test]
    fn a_library_within_a_file_is_found_and_checked() {
        let mut file = std::fs::read("/proc/self/exe").expect("this test");
        let (before, newest) = (within(&file).count(), (9, 99));
        assert!(before >= 1, "this test holds the library as well");
        file.extend_from_slice(LIBRARY);
        assert_eq!(within(&file).count(), before + 1);
        assert_eq!(check(&file, newest, newest), Ok(Vec::new()));
        let faults = check(&file, newest, (2, 2)).expect("a program");
        assert!(faults.iter().any(|fault| fault.starts_with(&format!("library {before} in it"))), "{faults:?}");
        assert!(check(&file, (2, 1), newest).expect("a program")[0].starts_with("the program needs GLIBC_2."));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!([version("2.17"), version("2.2.5"), version("PRIVATE")], [Some((2, 17)), Some((2, 2)), None]);
        assert!(version("2.9") < version("2.17"));
    }
}
