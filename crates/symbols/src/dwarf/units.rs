//! The units of a module, each parsed when it is first needed, and references between their entries.

use std::cell::OnceCell;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugTypeSignature, DebuggingInformationEntry, UnitHeader, UnitOffset, UnitType,
};
use rustc_hash::FxHashMap;

use super::load::SliceReader;
use super::unit::Unit;

pub(crate) type Entry<'a> = DebuggingInformationEntry<SliceReader<'a>>;
pub(crate) type Value<'a> = AttributeValue<SliceReader<'a>>;

/// A reference to a reference to a reference: real ones are two or three deep, damaged ones go in circles.
const MOST_STEPS: usize = 16;

/// An entry of the debug information: number of the unit, and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct At {
    pub unit: usize,
    pub offset: UnitOffset,
}

/// All units: compilation units by offset, type units, then those of the file that dwz shares.
pub(crate) struct Units<'a> {
    list: Vec<Known<'a>>,
    /// How many of the list are the module's own, by offset.
    own: usize,
    /// Where the shared file's begin.
    shared: usize,
    by_signature: FxHashMap<DebugTypeSignature, At>,
}

struct Known<'a> {
    dwarf: &'a gimli::Dwarf<SliceReader<'a>>,
    offset: usize,
    header: UnitHeader<SliceReader<'a>>,
    parsed: OnceCell<Option<gimli::Unit<SliceReader<'a>>>>,
}

impl<'a> Units<'a> {
    /// Reads the headers, up to the first damaged one of each section.
    pub fn new(dwarf: &'a gimli::Dwarf<SliceReader<'a>>) -> Self {
        let mut units = Self { list: Vec::new(), own: 0, shared: 0, by_signature: FxHashMap::default() };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.add(dwarf, header);
        }
        units.own = units.list.len();
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            units.add(dwarf, header);
        }
        units.shared = units.list.len();
        if let Some(shared) = dwarf.sup() {
            let mut headers = shared.units();
            while let Ok(Some(header)) = headers.next() {
                units.add(shared, header);
            }
        }
        units
    }

    fn add(&mut self, dwarf: &'a gimli::Dwarf<SliceReader<'a>>, header: UnitHeader<SliceReader<'a>>) {
        if let UnitType::Type { type_signature, type_offset } = header.type_() {
            let at = At { unit: self.list.len(), offset: type_offset };
            self.by_signature.insert(type_signature, at);
        }
        // Type units are found by signature alone.
        let offset = header.debug_info_offset().map_or(0, |offset| offset.0);
        self.list.push(Known { dwarf, offset, header, parsed: OnceCell::new() });
    }

    /// The numbers of the units that can hold variables.
    pub fn own(&self) -> std::ops::Range<usize> {
        0..self.own
    }

    pub fn get(&self, number: usize) -> Option<Unit<'a, '_>> {
        let known = self.list.get(number)?;
        let unit = known.parsed.get_or_init(|| known.dwarf.unit(known.header).ok()).as_ref()?;
        Some(Unit { number, unit, dwarf: known.dwarf })
    }

    /// The unit and the entry.
    pub fn entry(&self, at: At) -> Option<(Unit<'a, '_>, Entry<'a>)> {
        let unit = self.get(at.unit)?;
        Some((unit, unit.unit.entry(at.offset).ok()?))
    }

    /// What a reference in `unit` refers to.
    pub fn target(&self, unit: usize, value: &Value<'a>) -> Option<At> {
        match *value {
            AttributeValue::UnitRef(offset) => Some(At { unit, offset }),
            AttributeValue::DebugInfoRef(offset) if unit < self.shared => self.at(0..self.own, offset),
            AttributeValue::DebugInfoRef(offset) | AttributeValue::DebugInfoRefSup(offset) => {
                self.at(self.shared..self.list.len(), offset)
            }
            AttributeValue::DebugTypesRef(signature) => self.by_signature.get(&signature).copied(),
            _ => None,
        }
    }

    /// The entry at an offset of the section whose units have the numbers `among`.
    fn at(&self, among: std::ops::Range<usize>, offset: DebugInfoOffset) -> Option<At> {
        let units = self.list.get(among.clone())?;
        let after = units.partition_point(|known| known.offset <= offset.0);
        let index = after.checked_sub(1)?;
        Some(At { unit: among.start + index, offset: offset.to_unit_offset(&units[index].header)? })
    }

    /// The first entry along the chain of definitions, declarations and abstract instances from `at` that has the
    /// attribute `name`, with its value.
    pub fn inherited(&self, at: At, name: gimli::DwAt) -> Option<(Unit<'a, '_>, Value<'a>)> {
        let mut at = at;
        for _ in 0..MOST_STEPS {
            let (unit, entry) = self.entry(at)?;
            if let Some(value) = entry.attr_value(name) {
                return Some((unit, value));
            }
            let next = entry
                .attr_value(gimli::DW_AT_specification)
                .or_else(|| entry.attr_value(gimli::DW_AT_abstract_origin))?;
            at = self.target(at.unit, &next)?;
        }
        None
    }

    /// An inherited string.
    pub fn text(&self, at: At, name: gimli::DwAt) -> Option<String> {
        let (unit, value) = self.inherited(at, name)?;
        let text = unit.dwarf.attr_string(unit.unit, value).ok()?;
        let text = String::from_utf8_lossy(text.slice()).into_owned();
        (!text.is_empty()).then_some(text)
    }
}
