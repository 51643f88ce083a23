//! The variable that a pointer was stored in: where the code put it, against where debug information says that variables
//! are.

use numamma_symbols::{Local, LocalPlace, Location, Member, Module, Returns, Scope};

use super::flow::{Base, COUNT, Call, Place, RDI, Registers, Sighting, Value, general};

/// The name of the first variable that held the pointer: one of the function that called, or a global one. `counted`: the
/// pointer may stand behind the count of a C++ array.
pub fn stored_in(module: &Module, scope: Option<&Scope>, sightings: &[Sighting], counted: bool) -> Option<String> {
    let is_pointer = |ahead: i64| ahead == 0 || (counted && COUNT.contains(&ahead));
    sightings.iter().filter(|sighting| is_pointer(sighting.ahead)).find_map(|sighting| {
        let locals = scope.map_or(&[][..], |scope| &scope.locals);
        let (pc, registers) = (sighting.pc, &sighting.registers);
        match sighting.place {
            Place::Register(held) => {
                locals.iter().find_map(|local| {
                    let is_it =
                        |place: &&LocalPlace| matches!(place.at, Location::Register(n) if general(n) == Some(held));
                    // What is wider than a register is there in parts: a structure, a descriptor, a vector.
                    let is_wide = local.size == 0 || local.size > 8;
                    let from = at(local, pc).find(is_it)?.from;
                    (local.is_pointer || is_wide).then(|| at_offset(local, from)).flatten()
                })
            }
            Place::Memory(address) => {
                let own = locals.iter().find_map(|local| part(local, address, pc, registers));
                let field = || locals.iter().find_map(|local| field(local, address, pc, registers));
                own.or_else(field).or_else(|| global(module, address))
            }
        }
    })
}

/// The name of the object whose method is called: a container that allocates for itself.
pub fn object_of_call(module: &Module, scope: Option<&Scope>, call: &Call) -> Option<String> {
    let locals = scope.map_or(&[][..], |scope| &scope.locals);
    let is_object = |local: &&Local| !local.is_pointer && local.size > 0;
    [&call.registers, &call.earlier].into_iter().find_map(|registers| {
        let address = registers[RDI]?;
        let own = locals.iter().filter(is_object).find_map(|local| part(local, address, call.pc, registers));
        let field = || locals.iter().find_map(|local| field(local, address, call.pc, registers));
        own.or_else(field).or_else(|| global(module, address))
    })
}

/// The same where the method is inlined: what its `this` is known to point to.
pub fn object_of_method(scope: Option<&Scope>, method: &Scope, pc: u64) -> Option<String> {
    let this = method.locals.first().filter(|local| local.name == "this")?;
    let address = at(this, pc).find_map(|place| match place.at {
        Location::PointsToFrame(offset) => Some((Base::Frame, offset)),
        _ => None,
    })?;
    let is_object = |local: &&Local| !local.is_pointer && local.size > 0;
    scope?.locals.iter().filter(is_object).find_map(|local| part(local, address, pc, &[None; 16]))
}

/// Where a variable is at an instruction.
fn at(local: &Local, pc: u64) -> impl Iterator<Item = &LocalPlace> {
    local.places.iter().filter(move |place| (place.low..place.high).contains(&pc))
}

/// A variable, or the part of it, that lies at an address.
fn part(local: &Local, address: Value, pc: u64, registers: &Registers) -> Option<String> {
    let offset = at(local, pc).find_map(|place| {
        let (base, start) = match place.at {
            Location::Frame(offset) => (Base::Frame, offset),
            Location::ThroughFrame(offset) => (Base::AtFrame(offset), 0),
            Location::Memory(register, offset) => {
                let (base, from) = registers[usize::from(general(register)?)]?;
                (base, from.checked_add(offset)?)
            }
            Location::Register(_) | Location::PointsToFrame(_) => return None,
        };
        let offset = u64::try_from(address.1.checked_sub(start)?).ok()?;
        // A Fortran array's size says nothing of its descriptor: only the pointer in front is sure.
        let bytes = if place.bytes == 0 { local.size.max(1) } else { place.bytes };
        (base == address.0 && offset < bytes).then_some(offset)?.checked_add(place.from)
    })?;
    at_offset(local, offset)
}

/// A variable, or the field of it, whose pointer lies so many bytes from its start.
fn at_offset(local: &Local, offset: u64) -> Option<String> {
    if local.is_pointer {
        return (offset == 0).then(|| local.name.clone());
    }
    let member = member_at(&local.members, offset);
    let dot = if local.is_fortran { '%' } else { '.' };
    Some(member.map_or_else(|| local.name.clone(), |member| format!("{}{dot}{}", local.name, member.name)))
}

/// The field that lies at an address in the structure that a variable points to.
fn field(local: &Local, address: Value, pc: u64, registers: &Registers) -> Option<String> {
    if !local.is_pointer || local.members.is_empty() {
        return None;
    }
    at(local, pc).find_map(|place| {
        let (base, start) = match place.at {
            Location::Frame(offset) => (Base::AtFrame(offset), 0),
            Location::PointsToFrame(offset) => (Base::Frame, offset),
            Location::Register(register) => registers[usize::from(general(register)?)]?,
            Location::Memory(register, offset) => match registers[usize::from(general(register)?)]? {
                (Base::Frame, from) => (Base::AtFrame(from.checked_add(offset)?), 0),
                (Base::Register(n), from) => (Base::AtRegister(n, from.checked_add(offset)?), 0),
                _ => return None,
            },
            _ => return None,
        };
        let offset = u64::try_from(address.1.checked_sub(start)?).ok()?;
        if base != address.0 || base == Base::Result {
            return None;
        }
        let member = local.members.iter().find(|member| member.offset == offset)?;
        if is_internal(member) {
            return Some(local.name.clone());
        }
        let arrow = if local.is_fortran { "%" } else { "->" };
        Some(format!("{}{arrow}{}", local.name, member.name))
    })
}

/// Where a function stores the pointer for its caller: the number of the argument, and how far behind what it points to.
pub fn stored_behind(scope: &Scope, sightings: &[Sighting]) -> Option<(u8, i64)> {
    let is_pointer = |ahead: i64| ahead == 0 || COUNT.contains(&ahead);
    sightings.iter().filter(|sighting| is_pointer(sighting.ahead)).find_map(|sighting| {
        let Place::Memory(address) = sighting.place else { return None };
        scope.locals.iter().find_map(|local| {
            // What a function returns lies where its caller says, by an argument in front of the others.
            let is_returned = scope.returns == Returns::Aggregate && local.argument.is_none();
            let number = local.argument.or(is_returned.then_some(0))?;
            Some((number, behind(local, address, sighting)?))
        })
    })
}

/// How far an address lies behind what a parameter points to.
fn behind(local: &Local, address: Value, sighting: &Sighting) -> Option<i64> {
    const FARTHEST: i64 = 1 << 20;
    let register = |number: u16| sighting.registers[usize::from(general(number)?)];
    let is_address = local.is_pointer || local.is_reference;
    at(local, sighting.pc).filter(|place| place.from == 0).find_map(|place| {
        let (base, start) = match place.at {
            Location::Register(held) if is_address => register(held)?,
            Location::Frame(offset) if is_address => (Base::AtFrame(offset), 0),
            Location::Memory(held, offset) if is_address => match register(held)? {
                (Base::Frame, from) => (Base::AtFrame(from.checked_add(offset)?), 0),
                _ => return None,
            },
            Location::ThroughFrame(offset) if !is_address => (Base::AtFrame(offset), 0),
            Location::Memory(held, offset) if !is_address => {
                let (base, from) = register(held)?;
                (base, from.checked_add(offset)?)
            }
            _ => return None,
        };
        let is_callers = matches!(base, Base::Register(_) | Base::AtFrame(_)) && base == address.0;
        address.1.checked_sub(start).filter(|offset| is_callers && (0..FARTHEST).contains(offset))
    })
}

/// The global variable, or its field, at an address of the module.
fn global(module: &Module, address: Value) -> Option<String> {
    let (Base::Image, at) = address else { return None };
    let at = u64::try_from(at).ok()?;
    let variable = module.data_at(at).filter(|variable| variable.writable && !variable.symbol.is_empty())?;
    let offset = at - variable.address;
    let is_array = variable.element.as_ref().is_some_and(|element| !element.dimensions.is_empty());
    let member = member_at(&variable.members, offset).filter(|_| !is_array);
    Some(match member {
        Some(member) if is_descriptor(member) => format!("{}%{}", variable.name, member.name),
        Some(member) => format!("{}.{}", variable.name, member.name),
        None => variable.name.clone(),
    })
}

/// The field whose pointer lies so many bytes from the start of the structure: it, or a structure that begins with it.
fn member_at(members: &[Member], offset: u64) -> Option<&Member> {
    let begins = |member: &&Member| member.offset == offset && member.size >= 8 && !is_internal(member);
    members
        .iter()
        .find(|member| is_pointer_at(member, offset))
        .or_else(|| members.iter().find(begins))
        .filter(|m| !is_internal(m))
}

/// True if a field is a base class, or of the C++ library by its reserved name: `_M_start` of a vector says less than the vector.
fn is_internal(member: &Member) -> bool {
    let is_reserved =
        member.name.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c == '_' || c.is_uppercase()));
    is_reserved || member.type_name.as_ref() == Some(&member.name)
}

/// True if a field is a pointer, or begins with one as the descriptor of a Fortran array does, so many bytes from the start
/// of its structure.
fn is_pointer_at(member: &Member, offset: u64) -> bool {
    let is_pointer = member.size == 8 && member.type_name.as_deref().is_some_and(|name| name.ends_with('*'));
    member.offset == offset && (is_pointer || is_descriptor(member))
}

fn is_descriptor(member: &Member) -> bool {
    member.type_name.as_deref().is_some_and(|name| name.ends_with("[:]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind the first word of a structure that was taken apart, the compiler keeps something else.
    #[test]
    fn a_part_of_a_variable_ends_where_it_ends() {
        let place = LocalPlace { low: 0, high: 100, from: 0, bytes: 8, at: Location::Frame(-64) };
        let local = |place| Local {
            name: "v".into(),
            size: 24,
            is_pointer: false,
            is_reference: false,
            argument: None,
            members: Vec::new(),
            is_fortran: false,
            places: vec![place],
        };
        let at = |place, offset| part(&local(place), (Base::Frame, offset), 50, &[None; 16]);
        assert_eq!(at(place, -64).as_deref(), Some("v"));
        assert_eq!(at(place, -48), None);
        let whole = LocalPlace { bytes: 0, ..place };
        assert_eq!(at(whole, -48).as_deref(), Some("v"));
        assert_eq!(at(LocalPlace { high: 50, ..whole }, -48), None);
    }
}
