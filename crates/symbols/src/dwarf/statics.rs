//! One pass over the debug information, for the variables whose place is fixed when the program is linked.
//!
//! Everything else is stepped over without being decoded: locals and types outnumber static variables by thousands.

use std::sync::Arc;

use gimli::{Abbreviation, AttributeValue, EntriesRaw, UnitOffset};
use rustc_hash::FxHashMap;

use super::load::{DebugSections, SliceReader};
use super::location::{Place, place};
use super::types::{Type, Types};
use super::unit::Unit;
use super::units::{At, Units, Value};

/// A variable with a fixed place.
#[derive(Debug, Clone)]
pub(crate) struct Static {
    pub place: Place,
    /// The name in the source, without scope.
    pub name: String,
    /// The name that the linker sees, where it differs.
    pub linkage: Option<String>,
    /// Namespaces, modules, classes and functions around it, outermost first.
    pub scope: Vec<String>,
    /// True if the innermost scope is a function.
    pub in_function: bool,
    pub described: Option<Arc<Type>>,
    pub declared: Option<(String, u32)>,
}

/// A Fortran common block as one program unit declares it.
#[derive(Debug, Clone)]
pub(crate) struct CommonBlock {
    /// Without slashes; empty for the blank one.
    pub name: String,
    pub declared: Option<(String, u32)>,
    pub members: Vec<Static>,
}

/// What one pass found.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    pub variables: Vec<Static>,
    pub commons: Vec<CommonBlock>,
}

impl Statics {
    pub fn read(sections: &DebugSections) -> Self {
        let dwarf = sections.borrowed();
        let units = Units::new(&dwarf);
        let mut pass =
            Pass { units: &units, types: Types::new(&units), found: Self::default(), files: FxHashMap::default() };
        for number in units.own() {
            if let Some(unit) = units.get(number) {
                // A unit that ends in damage keeps what was found before.
                let _ = pass.unit(unit);
            }
        }
        pass.found
    }
}

/// An entry that gives its name to what is inside.
struct Scope {
    depth: isize,
    offset: UnitOffset,
    tag: gimli::DwTag,
    /// Its place in the list of common blocks, once a member was found.
    common: Option<usize>,
}

/// The attributes of a variable that matter.
#[derive(Default)]
struct Attributes<'a> {
    location: Option<Value<'a>>,
    file: Option<u64>,
    line: Option<u64>,
}

struct Pass<'u, 'a> {
    units: &'u Units<'a>,
    types: Types<'u, 'a>,
    found: Statics,
    files: FxHashMap<(usize, u64), Option<String>>,
}

impl<'a> Pass<'_, 'a> {
    fn unit(&mut self, unit: Unit<'a, '_>) -> gimli::Result<()> {
        let mut entries = unit.unit.entries_raw(None)?;
        let mut scopes: Vec<Scope> = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let offset = entries.next_offset();
            let Some(form) = entries.read_abbreviation()? else {
                continue;
            };
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            match form.tag() {
                gimli::DW_TAG_variable if has_location(form) => {
                    let attributes = read(&mut entries, form)?;
                    self.variable(unit, offset, &attributes, &mut scopes);
                    continue;
                }
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_module
                | gimli::DW_TAG_subprogram
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_common_block
                    if form.has_children() =>
                {
                    scopes.push(Scope { depth, offset, tag: form.tag(), common: None });
                }
                _ => {}
            }
            entries.skip_attributes(form.attributes())?;
        }
        Ok(())
    }

    fn variable(&mut self, unit: Unit<'a, '_>, offset: UnitOffset, attributes: &Attributes<'a>, scopes: &mut [Scope]) {
        let expression = attributes.location.as_ref().and_then(|value| value.exprloc_value());
        let Some(place) = expression.and_then(|expression| place(&unit, expression)) else {
            return;
        };
        let at = At { unit: unit.number, offset };
        let Some(name) = self.units.text(at, gimli::DW_AT_name) else {
            return;
        };
        let described = self
            .units
            .inherited(at, gimli::DW_AT_type)
            .and_then(|(holder, value)| self.units.target(holder.number, &value))
            .map(|at| self.types.get(at));
        let innermost_function = scopes
            .iter()
            .rposition(|scope| matches!(scope.tag, gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine));
        let variable = Static {
            place,
            linkage: self
                .units
                .text(at, gimli::DW_AT_linkage_name)
                .or_else(|| self.units.text(at, gimli::DW_AT_MIPS_linkage_name)),
            scope: scopes
                .iter()
                .filter(|scope| scope.tag != gimli::DW_TAG_common_block)
                .filter_map(|scope| self.scope_name(unit, scope))
                .collect(),
            in_function: innermost_function.is_some(),
            described,
            declared: self.declared(unit, at, attributes.file, attributes.line),
            name,
        };
        match scopes.last_mut() {
            Some(scope) if scope.tag == gimli::DW_TAG_common_block => self.common_member(unit, scope, variable),
            _ => self.found.variables.push(variable),
        }
    }

    fn common_member(&mut self, unit: Unit<'a, '_>, scope: &mut Scope, variable: Static) {
        let at = At { unit: unit.number, offset: scope.offset };
        let index = *scope.common.get_or_insert_with(|| {
            let name = self.units.text(at, gimli::DW_AT_name).unwrap_or_default();
            let line = self.units.inherited(at, gimli::DW_AT_decl_line).and_then(|(_, value)| value.udata_value());
            let file = self.units.inherited(at, gimli::DW_AT_decl_file).and_then(|(_, value)| value_index(&value));
            let declared = self.declared(unit, at, file, line);
            self.found.commons.push(CommonBlock {
                name: if name == "__BLNK__" { String::new() } else { name },
                declared,
                members: Vec::new(),
            });
            self.found.commons.len() - 1
        });
        self.found.commons[index].members.push(variable);
    }

    fn scope_name(&self, unit: Unit<'a, '_>, scope: &Scope) -> Option<String> {
        let at = At { unit: unit.number, offset: scope.offset };
        match self.units.text(at, gimli::DW_AT_name) {
            None if scope.tag == gimli::DW_TAG_namespace => Some("(anonymous namespace)".into()),
            name => name,
        }
    }

    /// The place of the definition, or that of the declaration where the definition does not repeat it.
    fn declared(&mut self, unit: Unit<'a, '_>, at: At, file: Option<u64>, line: Option<u64>) -> Option<(String, u32)> {
        let line = match line {
            Some(line) => line,
            None => self.units.inherited(at, gimli::DW_AT_decl_line)?.1.udata_value()?,
        };
        let (holder, file) = match file {
            Some(file) => (unit, file),
            None => {
                let (holder, value) = self.units.inherited(at, gimli::DW_AT_decl_file)?;
                (holder, value_index(&value)?)
            }
        };
        let name = self.files.entry((holder.number, file)).or_insert_with(|| holder.file(file));
        Some((name.clone()?, u32::try_from(line).ok()?))
    }
}

fn has_location(form: &Abbreviation) -> bool {
    form.attributes().iter().any(|attribute| attribute.name() == gimli::DW_AT_location)
}

fn value_index(value: &Value<'_>) -> Option<u64> {
    match *value {
        AttributeValue::FileIndex(index) => Some(index),
        ref value => value.udata_value(),
    }
}

fn read<'a>(entries: &mut EntriesRaw<'_, SliceReader<'a>>, form: &Abbreviation) -> gimli::Result<Attributes<'a>> {
    let mut attributes = Attributes::default();
    for &specification in form.attributes() {
        let attribute = entries.read_attribute_inline(specification)?;
        match attribute.name() {
            gimli::DW_AT_location => attributes.location = Some(attribute.value()),
            gimli::DW_AT_decl_file => attributes.file = value_index(&attribute.value()),
            gimli::DW_AT_decl_line => attributes.line = attribute.udata_value(),
            _ => {}
        }
    }
    Ok(attributes)
}
