//! Which function an address is in, and where that function begins and ends.

use object::elf;

use super::image::Image;
use super::plt;
use super::symtab::{NameAt, Symbols};
use super::unwind;
use crate::intervals::Intervals;

/// How a function's range is known, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeSource {
    /// A function symbol with a size.
    Symbol,
    /// An entry of a procedure linkage table.
    Plt,
    /// A frame description of the unwind tables; such a function has no name.
    Unwind,
    /// A symbol without a size: the end is where something else begins.
    Guess,
}

/// A run of instructions that begins at an instruction's first byte. Addresses are the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionRange {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// How it is known.
    pub source: RangeSource,
}

#[derive(Debug)]
enum Name {
    None,
    Symbol(NameAt),
    Plt(Box<str>),
}

#[derive(Debug)]
struct Function {
    start: u64,
    end: u64,
    source: RangeSource,
    name: Name,
}

/// All known functions of a module.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    list: Vec<Function>,
    pieces: Intervals,
}

impl Functions {
    pub fn read(image: &Image, symbols: &Symbols) -> Self {
        let mut list = from_symbols(image, symbols);
        list.extend(unwind::ranges(image).into_iter().map(|(start, end)| Function {
            start,
            end,
            source: RangeSource::Unwind,
            name: Name::None,
        }));
        list.extend(plt::ranges(image).into_iter().map(|range| Function {
            start: range.start,
            end: range.end,
            source: RangeSource::Plt,
            name: range.target.map_or(Name::None, |target| Name::Plt(target.into())),
        }));
        // Of what is known about one start the most trusted stays; `from_symbols` has put the best name first.
        list.sort_by_key(|function| (function.start, function.source));
        list.dedup_by(|later, kept| {
            let same = later.start == kept.start;
            if same && kept.end == kept.start {
                kept.end = later.end;
            }
            same
        });
        bound(image, &mut list);
        let pieces = Intervals::new(list.iter().map(|function| (function.start, function.end)));
        Self { list, pieces }
    }

    /// The run of instructions around `address` that no other known start interrupts.
    pub fn range(&self, address: u64) -> Option<FunctionRange> {
        let piece = self.pieces.find(address)?;
        Some(FunctionRange { start: piece.start, end: piece.end, source: self.list.get(piece.id as usize)?.source })
    }

    /// The name of the function around `address` as its file has it, and whether it is a linkage table's entry.
    pub fn name<'a>(&'a self, symbols: &'a Symbols, address: u64) -> Option<(&'a str, bool)> {
        let piece = self.pieces.find(address)?;
        match &self.list.get(piece.id as usize)?.name {
            Name::None => None,
            Name::Plt(name) => Some((name, true)),
            Name::Symbol(at) => Some((symbols.name(*at), false)),
        }
    }
}

fn from_symbols(image: &Image, symbols: &Symbols) -> Vec<Function> {
    let is_code = |address| match image.sections.is_empty() {
        true => image.loads().any(|segment| {
            segment.executable && (segment.address..segment.address.saturating_add(segment.size)).contains(&address)
        }),
        false => image.section_at(address).is_some_and(|section| section.has(elf::SHF_EXECINSTR)),
    };
    let mut found: Vec<_> = symbols
        .list
        .iter()
        .filter(|symbol| match symbol.kind {
            elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
            // Assembly without `.type`: a global label is a place that others jump to, a local one or a mapping symbol
            // (`$x`) may be data.
            elf::STT_NOTYPE => symbol.bind == elf::STB_GLOBAL,
            _ => false,
        })
        .filter(|symbol| is_code(symbol.value))
        .collect();
    // A size is worth more than a good name: the good name's alias has the same one nearly always.
    found.sort_by(|a, b| {
        (a.value, a.size == 0).cmp(&(b.value, b.size == 0)).then_with(|| symbols.rank(a).cmp(&symbols.rank(b)))
    });
    found.dedup_by_key(|symbol| symbol.value);
    found
        .into_iter()
        .map(|symbol| Function {
            start: symbol.value,
            end: symbol.value.saturating_add(symbol.size),
            source: match symbol.size {
                0 => RangeSource::Guess,
                _ => RangeSource::Symbol,
            },
            name: Name::Symbol(symbol.name),
        })
        .collect()
}

/// Gives an end to each function that has none, and cuts each at the end of its section.
fn bound(image: &Image, sorted: &mut [Function]) {
    let mut next = u64::MAX;
    for function in sorted.iter_mut().rev() {
        let limit = image.section_at(function.start).map_or(u64::MAX, |section| section.end());
        if function.end <= function.start {
            // Without sections and without a next start the end is anyone's guess: say nothing.
            let end = next.min(limit);
            function.end = if end == u64::MAX { function.start } else { end };
        }
        function.end = function.end.min(limit);
        next = function.start;
    }
}
