//! The static objects of a module: symbols and debug information put together.

mod collect;
mod describe;
mod sections;

use std::sync::OnceLock;

use rustc_hash::FxHashSet;

use crate::dwarf::{Place, Statics};
use crate::elf::dynamic::CopiedVariable;
use crate::elf::image::Image;
use crate::elf::symtab::{NameAt, Symbols};
use crate::intervals::Intervals;
use crate::variable::{Extent, Variable};

/// An object before its description is made: most are never asked for, and demangling all of a big library's names
/// takes longer than everything else.
#[derive(Debug)]
struct Item {
    place: Place,
    size: u64,
    extent: Extent,
    symbol: Option<NameAt>,
    /// Index in the list of variables that debug information knows.
    variable: Option<usize>,
    /// Others of them that share its storage (Fortran's `EQUIVALENCE`).
    parts: Vec<usize>,
    /// Indices in the list of common blocks: each program unit declares it anew.
    commons: Vec<usize>,
    described: OnceLock<Box<Variable>>,
}

impl Item {
    fn end(&self) -> u64 {
        match self.place {
            Place::Address(start) | Place::ThreadLocal(start) => start.saturating_add(self.size),
        }
    }
}

/// All static objects of a module.
#[derive(Debug)]
pub(crate) struct Variables {
    items: Vec<Item>,
    by_address: Intervals,
    by_offset: Intervals,
    statics: Statics,
    copied: FxHashSet<u64>,
    /// What to answer where no object is: segments, and the sections in them.
    rest: Vec<Variable>,
    rest_by_address: Intervals,
}

impl Variables {
    /// `module` is the name for the objects that stand for sections.
    pub fn new(image: &Image, symbols: &Symbols, statics: Statics, copied: &[CopiedVariable], module: &str) -> Self {
        let mut items = collect::from_symbols(image, symbols);
        collect::add_debug_information(&mut items, &statics);
        let rest = sections::variables(image, module);
        Self {
            by_address: addresses(&items),
            by_offset: offsets(&items),
            rest_by_address: Intervals::new(rest.iter().map(|variable| (variable.address, variable.end()))),
            copied: copied.iter().map(|variable| variable.address).collect(),
            rest,
            statics,
            items,
        }
    }

    pub fn at(&self, image: &Image, symbols: &Symbols, address: u64) -> Option<&Variable> {
        if let Some(piece) = self.by_address.find(address) {
            return Some(self.describe(image, symbols, piece.id as usize));
        }
        let piece = self.rest_by_address.find(address)?;
        self.rest.get(piece.id as usize)
    }

    pub fn thread_local_at(&self, image: &Image, symbols: &Symbols, offset: u64) -> Option<&Variable> {
        let piece = self.by_offset.find(offset)?;
        Some(self.describe(image, symbols, piece.id as usize))
    }

    /// Offsets around `offset`, which lies in no thread-local variable: to the next one on either side.
    pub fn thread_local_gap(&self, offset: u64) -> (u64, u64) {
        let ranges = self.items.iter().filter_map(|item| match item.place {
            Place::ThreadLocal(start) => Some((start, item.end())),
            Place::Address(_) => None,
        });
        ranges.fold(
            (0, u64::MAX),
            |(low, high), (start, end)| {
                if end <= offset { (low.max(end), high) } else { (low, high.min(start)) }
            },
        )
    }

    /// Thread-local ones last; sections not among them.
    pub fn all<'a>(&'a self, image: &'a Image, symbols: &'a Symbols) -> impl Iterator<Item = &'a Variable> {
        (0..self.items.len()).map(move |index| self.describe(image, symbols, index))
    }

    fn describe(&self, image: &Image, symbols: &Symbols, index: usize) -> &Variable {
        let item = &self.items[index];
        item.described.get_or_init(|| Box::new(describe::describe(image, symbols, &self.statics, &self.copied, item)))
    }
}

fn addresses(items: &[Item]) -> Intervals {
    Intervals::new(items.iter().map(|item| match item.place {
        Place::Address(start) => (start, item.end()),
        Place::ThreadLocal(_) => (0, 0),
    }))
}

fn offsets(items: &[Item]) -> Intervals {
    Intervals::new(items.iter().map(|item| match item.place {
        Place::ThreadLocal(start) => (start, item.end()),
        Place::Address(_) => (0, 0),
    }))
}
