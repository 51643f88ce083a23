//! The functions around given instructions, with their variables: one pass over the units that hold any of them.

use gimli::{AttributeValue, Expression, Operation, UnitOffset};
use rustc_hash::FxHashMap;

use super::load::{DebugSections, SliceReader};
use super::types::Types;
use super::unit::Unit;
use super::units::{At, Entry, Units, Value};
use crate::scope::{Local, LocalPlace, Location, Returns, Scope};

/// A chain of typedefs and qualifiers longer than this is a damaged one.
const MOST_STEPS: usize = 16;

/// More places than this are not read of one variable.
const MOST_PLACES: usize = 1024;

/// The scopes of each of `addresses` that debug information covers, innermost first.
pub(crate) fn read(sections: &DebugSections, addresses: &[u64]) -> FxHashMap<u64, Vec<Scope>> {
    let dwarf = sections.borrowed();
    let units = Units::new(&dwarf);
    let mut addresses = addresses.to_vec();
    addresses.sort_unstable();
    addresses.dedup();
    let mut pass =
        Pass { units: &units, types: Types::new(&units), addresses: &addresses, found: FxHashMap::default() };
    for number in units.own() {
        if let Some(unit) = units.get(number).filter(|unit| pass.has_some(unit)) {
            // A unit that ends in damage keeps what was found before.
            let _ = pass.unit(unit);
        }
    }
    let mut found = pass.found;
    found.values_mut().for_each(|scopes| scopes.reverse());
    found
}

/// An entry that is being read, and which of the addresses lie in it.
struct Open {
    depth: isize,
    hits: Vec<u64>,
    /// How many functions around the addresses are around its function.
    level: usize,
    base: Option<Base>,
    /// Number of its next parameter among the arguments in general registers.
    argument: Option<u8>,
}

/// What frame offsets of a function count from.
#[derive(Clone, Copy)]
enum Base {
    Canonical,
    Register(u16, i64),
}

/// How a parameter is passed.
enum InRegister {
    General,
    Vector,
    /// In several registers, or on the stack.
    Unknown,
}

struct Pass<'p, 'u, 'a> {
    units: &'u Units<'a>,
    types: Types<'u, 'a>,
    addresses: &'p [u64],
    /// Outermost first.
    found: FxHashMap<u64, Vec<Scope>>,
}

impl<'a> Pass<'_, '_, 'a> {
    fn within(&self, low: u64, high: u64) -> &[u64] {
        let from = self.addresses.partition_point(|&address| address < low);
        let to = self.addresses.partition_point(|&address| address < high);
        self.addresses.get(from..to).unwrap_or_default()
    }

    fn has_some(&self, unit: &Unit<'a, '_>) -> bool {
        let Ok(mut ranges) = unit.dwarf.unit_ranges(unit.unit) else { return false };
        while let Ok(Some(range)) = ranges.next() {
            if !self.within(range.begin, range.end).is_empty() {
                return true;
            }
        }
        false
    }

    fn unit(&mut self, unit: Unit<'a, '_>) -> gimli::Result<()> {
        let is_fortran = unit.is_fortran();
        let mut entries = unit.unit.entries_raw(None)?;
        let mut open: Vec<Open> = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let offset = entries.next_offset();
            let Some(form) = entries.read_abbreviation()? else {
                continue;
            };
            while open.last().is_some_and(|scope| scope.depth >= depth) {
                open.pop();
            }
            let has = |name| form.attributes().iter().any(|attribute| attribute.name() == name);
            match form.tag() {
                gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine | gimli::DW_TAG_lexical_block
                    if form.has_children() =>
                {
                    let has_code = has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges);
                    let code = if has_code { ranges(unit, offset) } else { Vec::new() };
                    let hits: Vec<u64> = code.iter().flat_map(|&(low, high)| self.within(low, high)).copied().collect();
                    let is_function = form.tag() != gimli::DW_TAG_lexical_block;
                    let mut argument = None;
                    if is_function && !hits.is_empty() {
                        let returns = self.returns(At { unit: unit.number, offset });
                        argument = (returns != Returns::Aggregate).then_some(0);
                        for &address in &hits {
                            self.found.entry(address).or_default().push(Scope {
                                returns,
                                code: code.clone(),
                                ..Scope::default()
                            });
                        }
                    }
                    let base = match form.tag() {
                        gimli::DW_TAG_subprogram => frame_base(unit, offset),
                        _ => open.last().and_then(|outer| outer.base),
                    };
                    let functions = hits.first().and_then(|address| self.found.get(address)).map_or(0, Vec::len);
                    open.push(Open { depth, hits, level: functions.saturating_sub(1), base, argument });
                }
                // What is declared in a type that is declared in a function is not the function's.
                gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
                    if form.has_children() =>
                {
                    open.push(Open { depth, hits: Vec::new(), level: 0, base: None, argument: None });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    if let Some(scope) = open.last_mut().filter(|scope| !scope.hits.is_empty()) {
                        let is_parameter = form.tag() == gimli::DW_TAG_formal_parameter;
                        self.local(unit, offset, scope, is_parameter, is_fortran);
                    }
                }
                _ => {}
            }
            entries.skip_attributes(form.attributes())?;
        }
        Ok(())
    }

    fn local(
        &mut self,
        unit: Unit<'a, '_>,
        offset: UnitOffset,
        scope: &mut Open,
        is_parameter: bool,
        is_fortran: bool,
    ) {
        let at = At { unit: unit.number, offset };
        let kind = self
            .units
            .inherited(at, gimli::DW_AT_type)
            .and_then(|(holder, value)| self.units.target(holder.number, &value))
            .and_then(|at| self.plain(at));
        let pointee = kind.filter(|&kind| self.tag(kind) == Some(gimli::DW_TAG_pointer_type)).map(|at| self.target(at));
        let hands_out = is_parameter
            && pointee.flatten().and_then(|at| self.plain(at)).is_some_and(|at| self.is_untyped_pointer(at));
        let takes_size = is_parameter && kind.is_some_and(|at| self.is_integer(at));
        let is_reference = kind.is_some_and(|at| self.tag(at) == Some(gimli::DW_TAG_reference_type));
        let mut argument = None;
        if is_parameter {
            // Fortran passes addresses.
            match if is_fortran { InRegister::General } else { self.in_register(kind) } {
                InRegister::General => {
                    argument = scope.argument;
                    scope.argument = scope.argument.map(|number| number.saturating_add(1));
                }
                InRegister::Vector => {}
                InRegister::Unknown => scope.argument = None,
            }
        }
        let places = self.places(unit, offset, scope.base);
        let local = self.units.text(at, gimli::DW_AT_name).filter(|_| !places.is_empty()).map(|name| {
            let described = match pointee {
                Some(pointee) => pointee.and_then(|at| self.plain(at)),
                None => kind,
            };
            let described = described.map(|at| self.types.get(at));
            Local {
                name,
                size: match (pointee, &described) {
                    (Some(_), _) => 8,
                    (None, Some(described)) => described.size.unwrap_or(0),
                    (None, None) => 0,
                },
                is_pointer: pointee.is_some(),
                is_reference,
                argument,
                members: described.map(|described| described.members.clone()).unwrap_or_default(),
                is_fortran,
                places,
            }
        });
        for address in &scope.hits {
            if let Some(function) = self.found.get_mut(address).and_then(|scopes| scopes.get_mut(scope.level)) {
                function.takes_size |= takes_size;
                function.hands_out |= hands_out;
                function.locals.extend(local.clone());
            }
        }
    }

    fn places(&self, unit: Unit<'a, '_>, offset: UnitOffset, base: Option<Base>) -> Vec<LocalPlace> {
        let Ok(entry) = unit.unit.entry(offset) else { return Vec::new() };
        let Some(value) = entry.attr_value(gimli::DW_AT_location) else { return Vec::new() };
        if let Some(expression) = value.exprloc_value() {
            let parts = locations(unit, expression, base).into_iter();
            return parts.map(|part| LocalPlace { low: 0, high: u64::MAX, ..part }).collect();
        }
        let mut places = Vec::new();
        let Ok(Some(mut list)) = unit.dwarf.attr_locations(unit.unit, value) else { return places };
        while let Ok(Some(entry)) = list.next() {
            let (low, high) = (entry.range.begin, entry.range.end);
            let parts = locations(unit, entry.data, base).into_iter();
            places.extend(parts.map(|part| LocalPlace { low, high, ..part }));
            if places.len() >= MOST_PLACES {
                break;
            }
        }
        places
    }

    fn returns(&self, function: At) -> Returns {
        let kind = self
            .units
            .inherited(function, gimli::DW_AT_type)
            .and_then(|(holder, value)| self.units.target(holder.number, &value));
        match kind.and_then(|at| self.plain(at)) {
            None => Returns::Nothing,
            Some(at) if self.is_untyped_pointer(at) => Returns::Memory,
            Some(at) => match self.tag(at) {
                Some(gimli::DW_TAG_pointer_type) => Returns::Pointer,
                Some(
                    gimli::DW_TAG_structure_type
                    | gimli::DW_TAG_class_type
                    | gimli::DW_TAG_union_type
                    | gimli::DW_TAG_array_type,
                ) => Returns::Aggregate,
                _ => Returns::Value,
            },
        }
    }

    /// In which kind of register a parameter of C or C++ is passed.
    fn in_register(&self, kind: Option<At>) -> InRegister {
        let Some((at, (_, entry))) = kind.and_then(|at| Some((at, self.units.entry(at)?))) else {
            return InRegister::Unknown;
        };
        let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
        match (self.tag(at), entry.attr_value(gimli::DW_AT_encoding)) {
            (Some(gimli::DW_TAG_base_type), Some(AttributeValue::Encoding(gimli::DW_ATE_float))) => match size {
                Some(..=8) => InRegister::Vector,
                _ => InRegister::Unknown,
            },
            (Some(gimli::DW_TAG_base_type), _) if size.is_some_and(|size| size <= 8) => InRegister::General,
            (
                Some(
                    gimli::DW_TAG_pointer_type
                    | gimli::DW_TAG_reference_type
                    | gimli::DW_TAG_rvalue_reference_type
                    | gimli::DW_TAG_enumeration_type,
                ),
                _,
            ) => InRegister::General,
            _ => InRegister::Unknown,
        }
    }

    /// A type without the names and qualifiers around it.
    fn plain(&self, mut at: At) -> Option<At> {
        for _ in 0..MOST_STEPS {
            match self.tag(at)? {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => at = self.target(at)?,
                _ => return Some(at),
            }
        }
        None
    }

    fn tag(&self, at: At) -> Option<gimli::DwTag> {
        self.units.entry(at).map(|(_, entry)| entry.tag())
    }

    /// The type that a type is made of.
    fn target(&self, at: At) -> Option<At> {
        let (_, entry) = self.units.entry(at)?;
        self.units.target(at.unit, &entry.attr_value(gimli::DW_AT_type)?)
    }

    fn is_integer(&self, at: At) -> bool {
        let is_wide = |entry: &Entry<'a>| {
            let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
            size.is_some_and(|size| size >= 4)
        };
        let is_number = |entry: &Entry<'a>| {
            let encoding = entry.attr_value(gimli::DW_AT_encoding);
            matches!(encoding, Some(AttributeValue::Encoding(gimli::DW_ATE_signed | gimli::DW_ATE_unsigned)))
        };
        self.units.entry(at).is_some_and(|(_, entry)| is_wide(&entry) && is_number(&entry))
    }

    fn is_untyped_pointer(&self, at: At) -> bool {
        self.tag(at) == Some(gimli::DW_TAG_pointer_type) && self.target(at).is_none_or(|to| self.plain(to).is_none())
    }
}

/// The code of an entry.
fn ranges(unit: Unit<'_, '_>, offset: UnitOffset) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let Ok(entry) = unit.unit.entry(offset) else { return found };
    let Ok(mut ranges) = unit.dwarf.die_ranges(unit.unit, &entry) else { return found };
    while let Ok(Some(range)) = ranges.next() {
        found.push((range.begin, range.end));
    }
    found
}

fn frame_base(unit: Unit<'_, '_>, function: UnitOffset) -> Option<Base> {
    let entry: Entry<'_> = unit.unit.entry(function).ok()?;
    let value: Value<'_> = entry.attr_value(gimli::DW_AT_frame_base)?;
    let AttributeValue::Exprloc(expression) = value else { return None };
    let mut operations = expression.operations(unit.unit.encoding());
    let base = match operations.next().ok()?? {
        Operation::CallFrameCFA => Base::Canonical,
        Operation::Register { register } => Base::Register(register.0, 0),
        Operation::RegisterOffset { register, offset, .. } => Base::Register(register.0, offset),
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(base)
}

/// Where an expression says that the parts of a variable are, for no instruction yet; computed values are nowhere.
fn locations(unit: Unit<'_, '_>, expression: Expression<SliceReader<'_>>, base: Option<Base>) -> Vec<LocalPlace> {
    let mut operations = expression.operations(unit.unit.encoding());
    let (mut found, mut from, mut part) = (Vec::new(), 0_u64, None);
    let mut is_known = true;
    while let Ok(Some(operation)) = operations.next() {
        match operation {
            Operation::Piece { size_in_bits, bit_offset: None } => {
                let bytes = size_in_bits / 8;
                let place = |at| LocalPlace { low: 0, high: 0, from, bytes, at };
                found.extend(part.take().filter(|_| is_known).map(place));
                from = from.saturating_add(bytes);
                is_known = true;
            }
            Operation::Deref { space: false, .. } => {
                part = match part {
                    Some(Location::Frame(offset)) => Some(Location::ThroughFrame(offset)),
                    _ => None,
                };
                is_known &= part.is_some();
            }
            Operation::StackValue => {
                part = match part {
                    Some(Location::Frame(offset)) => Some(Location::PointsToFrame(offset)),
                    _ => None,
                };
                is_known &= part.is_some();
            }
            first if part.is_none() && is_known => {
                part = simple(&first, base);
                is_known = part.is_some();
            }
            _ => is_known = false,
        }
    }
    found.extend(part.filter(|_| is_known).map(|at| LocalPlace { low: 0, high: 0, from, bytes: 0, at }));
    found
}

fn simple(operation: &Operation<SliceReader<'_>>, base: Option<Base>) -> Option<Location> {
    Some(match *operation {
        Operation::Register { register } => Location::Register(register.0),
        Operation::RegisterOffset { register, offset, .. } => Location::Memory(register.0, offset),
        Operation::FrameOffset { offset } => match base? {
            Base::Canonical => Location::Frame(offset),
            Base::Register(register, from) => Location::Memory(register, from.checked_add(offset)?),
        },
        Operation::CallFrameCFA => Location::Frame(0),
        _ => return None,
    })
}
