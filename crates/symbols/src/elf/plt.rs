//! Procedure linkage tables: one range per entry, named after the function that it jumps to.

use object::Endianness;
use object::elf::{self, Rela64, Sym64};
use rustc_hash::FxHashMap;

use super::headers::{Section, string_at};
use super::image::Image;

/// One entry of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PltRange {
    pub start: u64,
    pub end: u64,
    /// The function, without version; none for the lazy binder's own code.
    pub target: Option<String>,
}

/// The ranges of all tables of the module.
pub(crate) fn ranges(image: &Image) -> Vec<PltRange> {
    let tables: Vec<&Section> = image
        .sections
        .iter()
        .filter(|section| section.name.starts_with(".plt") && section.has(elf::SHF_EXECINSTR))
        .collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let slots = slots(image);
    let mut ranges = Vec::new();
    for section in tables {
        match image.machine {
            elf::EM_X86_64 => by_jumps(image, section, &slots.by_address, &mut ranges),
            _ => by_order(section, &slots.in_order, &mut ranges),
        }
    }
    ranges
}

/// x86-64 has many forms of table (lazy, bound at start, with and without branch tracking, each linker's own), and in
/// all of them an entry jumps through its slot: `ff 25` and the distance to it.
fn by_jumps(image: &Image, section: &Section, slots: &FxHashMap<u64, String>, ranges: &mut Vec<PltRange>) {
    let Some(code) = image.contents(section) else {
        return;
    };
    let entry = match section.entry_size {
        8 => 8,
        _ => 16,
    };
    for (index, code) in code.chunks(entry).enumerate() {
        let start = section.address.saturating_add((index * entry) as u64);
        let target = code.windows(6).enumerate().find_map(|(at, window)| {
            let distance = window.strip_prefix(&[0xff, 0x25])?;
            let distance = i32::from_le_bytes(distance.try_into().ok()?);
            let next = start.wrapping_add(at as u64 + 6);
            slots.get(&next.wrapping_add_signed(distance.into()))
        });
        ranges.push(PltRange { start, end: start.saturating_add(code.len() as u64), target: target.cloned() });
    }
}

/// AArch64: a header of 32 bytes, then entries of 16 in the order of their relocations (24 with branch protection,
/// which the size of the table tells).
fn by_order(section: &Section, targets: &[Option<String>], ranges: &mut Vec<PltRange>) {
    const HEADER: u64 = 32;
    let count = targets.len() as u64;
    let entry = section.size.saturating_sub(HEADER).checked_div(count).unwrap_or(0);
    if section.name != ".plt" || !matches!(entry, 16..=24) {
        ranges.push(PltRange { start: section.address, end: section.end(), target: None });
        return;
    }
    let entry = if entry == 24 { 24 } else { 16 };
    let mut start = section.address;
    let mut push = |size, target| {
        let end = start.saturating_add(size);
        ranges.push(PltRange { start, end, target });
        start = end;
    };
    push(HEADER, None);
    for target in targets {
        push(entry, target.clone());
    }
}

/// The words that the entries jump through, and whose addresses the loader puts there.
#[derive(Default)]
struct Slots {
    by_address: FxHashMap<u64, String>,
    in_order: Vec<Option<String>>,
}

fn slots(image: &Image) -> Slots {
    let of_functions = match image.machine {
        elf::EM_X86_64 => [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT],
        _ => [elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT],
    };
    let mut slots = Slots::default();
    for section in image.sections.iter().filter(|section| section.kind == elf::SHT_RELA && section.has(elf::SHF_ALLOC))
    {
        let Some(table) = image.sections.get(section.link) else {
            continue;
        };
        let symbols = image.table::<Sym64<Endianness>>(table);
        let strings = image.sections.get(table.link).and_then(|strings| image.contents(strings));
        for relocation in image.table::<Rela64<Endianness>>(section) {
            if !of_functions.contains(&relocation.r_type(image.endian, false)) {
                continue;
            }
            let name = symbols
                .get(relocation.r_sym(image.endian, false) as usize)
                .and_then(|symbol| string_at(strings.as_deref()?, symbol.st_name.get(image.endian) as usize))
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .filter(|name| !name.is_empty());
            if section.name == ".rela.plt" {
                slots.in_order.push(name.clone());
            }
            if let Some(name) = name {
                slots.by_address.insert(relocation.r_offset.get(image.endian), name);
            }
        }
    }
    slots
}
