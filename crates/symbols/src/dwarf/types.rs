//! What a variable is made of: sizes, elements, fields.

use std::sync::Arc;

use gimli::{AttributeValue, DwTag};
use rustc_hash::FxHashMap;

use super::unit::Unit;
use super::units::{At, Entry, Units};
use crate::variable::{Element, Member};

/// Types nest (array of typedef of const struct); damaged ones nest for ever.
const DEEPEST: usize = 24;

/// More fields than this are not listed.
const MOST_MEMBERS: usize = 4096;

/// A type as far as it is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Type {
    pub name: String,
    pub size: Option<u64>,
    pub element: Option<Element>,
    pub members: Vec<Member>,
}

/// A type without its fields: cheap, and free of cycles.
#[derive(Clone, Default)]
struct Outline {
    name: String,
    size: Option<u64>,
    dimensions: Vec<u64>,
    /// The element's name and size for arrays.
    element: Option<(String, u64)>,
    /// The structure whose fields these are.
    fields: Option<At>,
}

/// The types of a module that were asked for.
pub(crate) struct Types<'u, 'a> {
    units: &'u Units<'a>,
    known: FxHashMap<At, Arc<Type>>,
}

impl<'u, 'a> Types<'u, 'a> {
    pub fn new(units: &'u Units<'a>) -> Self {
        Self { units, known: FxHashMap::default() }
    }

    /// The type at an entry.
    pub fn get(&mut self, at: At) -> Arc<Type> {
        if let Some(known) = self.known.get(&at) {
            return Arc::clone(known);
        }
        let outline = self.outline(at, 0);
        let element = match (&outline.element, outline.size) {
            (Some((name, size)), _) => Some((name.clone(), *size)),
            (None, Some(size)) => Some((outline.name.clone(), size)),
            (None, None) => None,
        };
        let described = Arc::new(Type {
            element: element.map(|(type_name, size)| Element { type_name, size, dimensions: outline.dimensions }),
            members: outline.fields.map(|at| self.members(at)).unwrap_or_default(),
            name: outline.name,
            size: outline.size,
        });
        self.known.insert(at, Arc::clone(&described));
        described
    }

    fn referred(&self, at: At, entry: &Entry<'a>) -> Option<At> {
        self.units.target(at.unit, &entry.attr_value(gimli::DW_AT_type)?)
    }

    fn outline(&self, at: At, depth: usize) -> Outline {
        let Some((unit, entry)) = self.units.entry(at).filter(|_| depth < DEEPEST) else {
            return Outline::default();
        };
        let inner = || self.referred(at, &entry).map(|target| self.outline(target, depth + 1));
        let own_name = || self.units.text(at, gimli::DW_AT_name);
        let own_size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|value| value.udata_value());
        match entry.tag() {
            gimli::DW_TAG_typedef => {
                let mut outline = inner().unwrap_or_default();
                outline.name = own_name().unwrap_or(outline.name);
                outline
            }
            gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_restrict_type => inner().unwrap_or_default(),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let target = match self.referred(at, &entry) {
                    None => "void".into(),
                    Some(target) => self.outline(target, depth + 1).name,
                };
                let sign = match entry.tag() {
                    gimli::DW_TAG_pointer_type => "*",
                    gimli::DW_TAG_reference_type => "&",
                    _ => "&&",
                };
                Outline {
                    name: format!("{target} {sign}"),
                    size: own_size.or(Some(u64::from(unit.unit.encoding().address_size))),
                    ..Outline::default()
                }
            }
            gimli::DW_TAG_array_type => array(&unit, &entry, inner().unwrap_or_default(), own_size),
            gimli::DW_TAG_string_type => Outline { name: "character".into(), size: own_size, ..Outline::default() },
            gimli::DW_TAG_subroutine_type => Outline { name: "function".into(), ..Outline::default() },
            tag => Outline {
                name: own_name().unwrap_or_else(|| unnamed(tag).into()),
                size: own_size.or_else(|| inner()?.size),
                fields: matches!(
                    tag,
                    gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
                )
                .then_some(at),
                ..Outline::default()
            },
        }
    }

    fn members(&self, at: At) -> Vec<Member> {
        let Some(unit) = self.units.get(at.unit) else {
            return Vec::new();
        };
        let mut members = Vec::new();
        unit.children(at.offset, |offset, entry| {
            if !matches!(entry.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance) {
                return true;
            }
            let place = match entry.attr_value(gimli::DW_AT_data_member_location) {
                Some(value) => value.udata_value(),
                // A static member of C++ is declared among the fields and has no place there.
                None if entry.has_attr(gimli::DW_AT_declaration) || entry.has_attr(gimli::DW_AT_external) => None,
                None => entry
                    .attr_value(gimli::DW_AT_data_bit_offset)
                    .map_or(Some(0), |value| value.udata_value().map(|bits| bits / 8)),
            };
            let Some(place) = place else {
                return true;
            };
            let outline = self.referred(at, entry).map(|target| self.outline(target, 1)).unwrap_or_default();
            let own_name = self.units.text(At { offset, ..at }, gimli::DW_AT_name);
            members.push(Member {
                name: own_name.unwrap_or_else(|| outline.name.clone()),
                offset: place,
                size: outline.size.unwrap_or(0),
                type_name: (!outline.name.is_empty()).then_some(outline.name),
            });
            members.len() < MOST_MEMBERS
        });
        members.sort_by_key(|member| member.offset);
        members
    }
}

/// An array of `inner`; arrays of arrays become one with all dimensions.
fn array(unit: &Unit<'_, '_>, entry: &Entry<'_>, inner: Outline, own_size: Option<u64>) -> Outline {
    let mut dimensions = Some(Vec::new());
    let is_vector = entry.attr_value(gimli::DW_AT_GNU_vector).is_some();
    unit.children(entry.offset(), |_, child| {
        if child.tag() == gimli::DW_TAG_subrange_type {
            let count = subrange_count(unit, child);
            match (&mut dimensions, count) {
                (Some(list), Some(count)) if list.len() < 64 => list.push(count),
                _ => dimensions = None,
            }
        }
        true
    });
    // Without constant bounds it is what the variable points to, not what it is: a Fortran descriptor, `extern int a[]`.
    let Some(mut dimensions) = dimensions.filter(|list| !list.is_empty()) else {
        return Outline { name: format!("{} [:]", inner.name), size: own_size, ..Outline::default() };
    };
    let element_size = match &inner.element {
        Some((_, size)) => Some(*size),
        None => inner.size,
    };
    let element_name = inner.element.map_or_else(|| inner.name.clone(), |(name, _)| name);
    let count = dimensions.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
    let size = own_size.or_else(|| count?.checked_mul(inner.size?));
    dimensions.extend(&inner.dimensions);
    if is_vector {
        return Outline { name: format!("{element_name} vector"), size, ..Outline::default() };
    }
    let shape: String = dimensions.iter().map(|n| format!("[{n}]")).collect();
    Outline {
        name: format!("{element_name} {shape}"),
        size,
        element: element_size.map(|size| (element_name, size)),
        dimensions,
        fields: inner.fields,
    }
}

fn subrange_count(unit: &Unit<'_, '_>, entry: &Entry<'_>) -> Option<u64> {
    let constant = |name| match entry.attr_value(name)? {
        AttributeValue::Exprloc(_) | AttributeValue::UnitRef(_) => None,
        value => value.sdata_value().or_else(|| i64::try_from(value.udata_value()?).ok()),
    };
    if let Some(count) = constant(gimli::DW_AT_count) {
        return u64::try_from(count).ok();
    }
    let lower = match entry.attr_value(gimli::DW_AT_lower_bound) {
        Some(_) => constant(gimli::DW_AT_lower_bound)?,
        None if unit.is_fortran() => 1,
        None => 0,
    };
    let upper = constant(gimli::DW_AT_upper_bound)?;
    u64::try_from(upper.checked_sub(lower)?.checked_add(1)?).ok()
}

fn unnamed(tag: DwTag) -> &'static str {
    match tag {
        gimli::DW_TAG_structure_type => "struct",
        gimli::DW_TAG_class_type => "class",
        gimli::DW_TAG_union_type => "union",
        gimli::DW_TAG_enumeration_type => "enum",
        _ => "",
    }
}
