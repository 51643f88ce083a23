//! The full description of one object, made when it is first asked for.

use object::elf;
use rustc_hash::FxHashSet;

use super::Item;
use crate::dwarf::{Place, Static, Statics};
use crate::elf::image::Image;
use crate::elf::symtab::Symbols;
use crate::names::demangle;
use crate::variable::{Member, Variable, VariableKind};

pub(crate) fn describe(
    image: &Image,
    symbols: &Symbols,
    statics: &Statics,
    copied: &FxHashSet<u64>,
    item: &Item,
) -> Variable {
    let symbol = item.symbol.map(|at| symbols.name(at)).unwrap_or_default();
    let known = item.variable.map(|index| &statics.variables[index]);
    let common = item.commons.first().map(|&index| &statics.commons[index]);
    let described = known.and_then(|known| known.described.as_deref()).filter(|_| common.is_none());
    let (address, kind) = match item.place {
        Place::Address(address) if common.is_some() || symbol == "__BLNK__" => (address, VariableKind::CommonBlock),
        Place::Address(address) => (address, VariableKind::Object),
        Place::ThreadLocal(offset) => (offset, VariableKind::ThreadLocal),
    };
    let (section, writable) = section(image, item.place);
    Variable {
        name: match common {
            Some(block) => format!("/{}/", block.name),
            None => name(symbol, known),
        },
        symbol: symbol.to_owned(),
        address,
        size: item.size,
        extent: item.extent,
        kind,
        section,
        writable,
        declared: match common {
            Some(block) => block.declared.clone(),
            None => known.and_then(|known| known.declared.clone()),
        },
        type_name: described.map(|described| described.name.clone()).filter(|name| !name.is_empty()),
        element: described.and_then(|described| described.element.clone()),
        members: match described {
            Some(described) if item.parts.is_empty() => described.members.clone(),
            _ => sharing(statics, item, address),
        },
        copied: matches!(item.place, Place::Address(address) if copied.contains(&address)),
    }
}

/// The symbol says more than debug information where it is mangled (templates, parameters of the enclosing function),
/// and less where the compiler numbered it (`counter.0`).
fn name(symbol: &str, known: Option<&Static>) -> String {
    let plain = demangle(symbol);
    match known {
        _ if !symbol.is_empty() && plain != symbol && !symbol.contains('.') => plain,
        Some(known) if symbol.is_empty() => match &known.linkage {
            Some(linkage) if demangle(linkage) != *linkage => demangle(linkage),
            _ => scoped(known),
        },
        // Clang puts statics of a function that was inlined everywhere into a function without name.
        Some(known) if known.in_function && known.scope.is_empty() => match symbol.split_once('.') {
            Some((function, rest)) if rest.starts_with(&known.name) => format!("{function}::{}", known.name),
            _ => known.name.clone(),
        },
        Some(known) if known.in_function && !symbol.starts_with("_Z") => scoped(known),
        // Of aliases the one that the source defines, unless it is the C library's internal spelling.
        Some(known) if known.scope.is_empty() && known.linkage.is_none() && !known.name.starts_with('_') => {
            known.name.clone()
        }
        // What was numbered because two files use one name.
        Some(known) if symbol.starts_with(&format!("{}.", known.name)) => known.name.clone(),
        _ => plain,
    }
}

fn scoped(known: &Static) -> String {
    known.scope.iter().map(String::as_str).chain([known.name.as_str()]).collect::<Vec<_>>().join("::")
}

/// The variables that share the object's storage: the members that the first program unit declares, and what others
/// declare where it has none; the variables of an equivalence.
fn sharing(statics: &Statics, item: &Item, start: u64) -> Vec<Member> {
    let of_commons = item.commons.iter().flat_map(|&index| &statics.commons[index].members);
    let of_equivalence = item.variable.iter().chain(&item.parts).map(|&index| &statics.variables[index]);
    let mut members: Vec<Member> = of_commons
        .chain(of_equivalence.filter(|_| !item.parts.is_empty()))
        .filter_map(|member| {
            let Place::Address(address) = member.place else {
                return None;
            };
            let described = member.described.as_deref();
            Some(Member {
                name: member.name.clone(),
                offset: address.checked_sub(start)?,
                size: described.and_then(|described| described.size).unwrap_or(0),
                type_name: described.map(|described| described.name.clone()).filter(|name| !name.is_empty()),
            })
        })
        .filter(|member| member.offset < item.size)
        .collect();
    if item.commons.is_empty() {
        // Each unit that sees a merged constant describes it again.
        members.sort_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
        members.dedup();
    } else {
        // Stable: of two at one place the first program unit's stays.
        members.sort_by_key(|member| member.offset);
        members.dedup_by_key(|member| member.offset);
    }
    members
}

fn section(image: &Image, place: Place) -> (String, bool) {
    match place {
        Place::ThreadLocal(offset) => {
            let address = image.segment(elf::PT_TLS).map_or(0, |block| block.address.saturating_add(offset));
            let section = image.sections.iter().find(|section| section.has(elf::SHF_TLS) && section.covers(address));
            (section.map(|section| section.name.clone()).unwrap_or_default(), true)
        }
        Place::Address(address) => (
            image.section_at(address).map(|section| section.name.clone()).unwrap_or_default(),
            is_writable(image, address),
        ),
    }
}

/// True if the program may write there once the loader has finished and has protected what only it had to write.
pub(crate) fn is_writable(image: &Image, address: u64) -> bool {
    let covers = |segment: &&crate::elf::headers::Segment| {
        (segment.address..segment.address.saturating_add(segment.size)).contains(&address)
    };
    image.loads().any(|segment| segment.writable && covers(&segment))
        && !image.segment(elf::PT_GNU_RELRO).is_some_and(|segment| covers(&segment))
}
