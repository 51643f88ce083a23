//! Which objects there are: one for each symbol, less aliases; then what only debug information knows.

use std::sync::OnceLock;

use object::elf;
use rustc_hash::FxHashMap;

use super::{Item, addresses, offsets};
use crate::dwarf::{Place, Statics};
use crate::elf::image::Image;
use crate::elf::symtab::{Symbol, Symbols};
use crate::variable::Extent;

/// Labels of the linker and of start-up code. They mark places; what lies there is something else, or nothing.
const LABELS: [&str; 20] = [
    "_GLOBAL_OFFSET_TABLE_",
    "_DYNAMIC",
    "_PROCEDURE_LINKAGE_TABLE_",
    "__bss_start",
    "__bss_start__",
    "__bss_end__",
    "_bss_end__",
    "_edata",
    "edata",
    "_end",
    "end",
    "__end__",
    "__data_start",
    "data_start",
    "__TMC_END__",
    "_etext",
    "etext",
    "__etext",
    "__GNU_EH_FRAME_HDR",
    "__FRAME_END__",
];

/// Beginnings of labels that the linker makes from section names, and of those that gcc adds under `-fopenmp`.
const LABEL_PREFIXES: [&str; 6] =
    ["__start_", "__stop_", "__init_array_", "__fini_array_", "__preinit_array_", "__offload_"];

/// Beginnings of the names of sections that compilers and linkers fill with tables for the run time: labels without a
/// size are their only symbols (`GCC_except_table7`).
const TABLES: [&str; 5] = [".eh_frame", ".gcc_except_table", ".init_array", ".fini_array", ".preinit_array"];

/// A symbol of an object, and where the section around it ends.
struct Candidate<'a> {
    symbol: &'a Symbol,
    place: Place,
    limit: u64,
}

/// One object for each place that symbols name, sorted by place.
pub(crate) fn from_symbols(image: &Image, symbols: &Symbols) -> Vec<Item> {
    let mut candidates: Vec<_> = symbols.list.iter().filter_map(|symbol| candidate(image, symbols, symbol)).collect();
    // Of aliases the largest tells how big the object is, and of the largest the best name is shown.
    candidates.sort_by(|a, b| {
        (a.place, std::cmp::Reverse(a.symbol.size))
            .cmp(&(b.place, std::cmp::Reverse(b.symbol.size)))
            .then_with(|| symbols.rank(a.symbol).cmp(&symbols.rank(b.symbol)))
    });
    candidates.dedup_by_key(|candidate| candidate.place);

    let mut items = Vec::with_capacity(candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        let (Place::Address(start) | Place::ThreadLocal(start)) = candidate.place;
        let next = match (candidate.place, candidates.get(index + 1).map(|next| next.place)) {
            (Place::Address(_), Some(Place::Address(next))) => next,
            (Place::ThreadLocal(_), Some(Place::ThreadLocal(next))) => next,
            _ => u64::MAX,
        };
        let room = candidate.limit - start;
        let (size, extent) = match candidate.symbol.size {
            0 => (room.min(next - start), Extent::UpToNext),
            size => (size.min(room), Extent::Stated),
        };
        if size > 0 {
            items.push(Item {
                place: candidate.place,
                size,
                extent,
                symbol: Some(candidate.symbol.name),
                variable: None,
                parts: Vec::new(),
                commons: Vec::new(),
                described: OnceLock::new(),
            });
        }
    }
    items
}

fn candidate<'a>(image: &Image, symbols: &Symbols, symbol: &'a Symbol) -> Option<Candidate<'a>> {
    if symbol.kind == elf::STT_TLS {
        let limit = image.segment(elf::PT_TLS)?.size;
        return (symbol.value < limit).then_some(Candidate { symbol, place: Place::ThreadLocal(symbol.value), limit });
    }
    let is_object = matches!(symbol.kind, elf::STT_OBJECT | elf::STT_COMMON);
    if !is_object && symbol.kind != elf::STT_NOTYPE {
        return None;
    }
    let limit = match image.sections.is_empty() {
        true => {
            image
                .loads()
                .map(|segment| (segment.address, segment.address.saturating_add(segment.size)))
                .find(|&(start, end)| (start..end).contains(&symbol.value))?
                .1
        }
        false => {
            // By the symbol's own section where it says one: a label at the end of `.data` has the address of `.bss`.
            let section = image
                .sections
                .get(usize::from(symbol.section))
                .filter(|section| section.is_loaded())
                .filter(|section| section.address <= symbol.value)
                .or_else(|| image.section_at(symbol.value))?;
            let is_table = || TABLES.iter().any(|start| section.name.starts_with(start));
            if (!is_object && section.has(elf::SHF_EXECINSTR)) || (symbol.size == 0 && is_table()) {
                return None;
            }
            section.end()
        }
    };
    // Assemblers give no type unless told: such a symbol may be a variable, or one of these labels.
    if symbol.value >= limit || ((!is_object || symbol.size == 0) && is_label(symbols.name(symbol.name))) {
        return None;
    }
    Some(Candidate { symbol, place: Place::Address(symbol.value), limit })
}

fn is_label(name: &str) -> bool {
    name.is_empty()
        || name.starts_with(['$', '.'])
        || LABELS.contains(&name)
        || LABEL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Ties debug information to the objects, and adds what has no symbol of its own: all statics of a module without local
/// symbols, and statics that the compiler merged into one symbol.
pub(crate) fn add_debug_information(items: &mut Vec<Item>, statics: &Statics) {
    let by_place: FxHashMap<Place, usize> = items.iter().enumerate().map(|(index, item)| (item.place, index)).collect();
    let mut without_symbol = Vec::new();
    for (index, variable) in statics.variables.iter().enumerate() {
        let Some(&item) = by_place.get(&variable.place) else {
            without_symbol.push(index);
            continue;
        };
        let item = &mut items[item];
        let fits = |index: usize| size_of_static(statics, index) == Some(item.size);
        match item.variable {
            // Each unit that sees an inline variable describes it again.
            Some(known) if statics.variables[known].name == variable.name => {}
            Some(known) if fits(known) || !fits(index) => item.parts.push(index),
            displaced => {
                item.parts.extend(displaced);
                item.variable = Some(index);
            }
        }
    }

    let (at_address, at_offset) = (addresses(items), offsets(items));
    let around = |place| match place {
        Place::Address(address) => at_address.find(address),
        Place::ThreadLocal(offset) => at_offset.find(offset),
    };
    let mut added: FxHashMap<Place, Item> = FxHashMap::default();
    for (index, block) in statics.commons.iter().enumerate() {
        let Some(first) = block.members.iter().map(|member| member.place).min() else {
            continue;
        };
        if let Some(piece) = around(first) {
            items[piece.id as usize].commons.push(index);
        } else if let Some(item) = common_without_symbol(statics, index, first) {
            let known = added.entry(first).or_insert(item);
            known.commons.push(index);
        }
    }
    for index in without_symbol {
        let variable = &statics.variables[index];
        if let Some(piece) = around(variable.place) {
            let outer = &mut items[piece.id as usize];
            if outer.variable.is_some() {
                outer.parts.push(index);
                continue;
            }
            if !outer.commons.is_empty() {
                continue;
            }
        }
        if let Some(size) = size_of_static(statics, index).filter(|&size| size > 0) {
            added.entry(variable.place).or_insert_with(|| bare(variable.place, size, Some(index)));
        }
    }
    items.extend(added.into_values());
    items.sort_by_key(|item| item.place);
}

fn size_of_static(statics: &Statics, index: usize) -> Option<u64> {
    statics.variables[index].described.as_ref()?.size
}

fn common_without_symbol(statics: &Statics, index: usize, first: Place) -> Option<Item> {
    let Place::Address(start) = first else {
        return None;
    };
    let end = statics.commons[index]
        .members
        .iter()
        .filter_map(|member| match member.place {
            Place::Address(address) => address.checked_add(member.described.as_ref()?.size?),
            Place::ThreadLocal(_) => None,
        })
        .max()?;
    Some(bare(first, end.checked_sub(start)?, None))
}

fn bare(place: Place, size: u64, variable: Option<usize>) -> Item {
    Item {
        place,
        size,
        extent: Extent::Stated,
        symbol: None,
        variable,
        parts: Vec::new(),
        commons: Vec::new(),
        described: OnceLock::new(),
    }
}
