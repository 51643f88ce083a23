//! Which of a variable's locations are fixed when the program is linked.

use gimli::{Expression, Operation, Reader};

use super::unit::Unit;

/// Where a static variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// At an address of the file.
    Address(u64),
    /// Bytes from the start of the module's TLS block.
    ThreadLocal(u64),
}

/// The place that an expression always gives; none for what lives in registers and on stacks.
pub(crate) fn place<'a>(unit: &Unit<'a, '_>, expression: Expression<super::load::SliceReader<'a>>) -> Option<Place> {
    // Most variables are locals: their expressions begin with a frame offset or a register, and end here.
    let first = expression.0.slice().first()?;
    let begins_with_constant = matches!(
        gimli::DwOp(*first),
        gimli::DW_OP_addr
            | gimli::DW_OP_addrx
            | gimli::DW_OP_constx
            | gimli::DW_OP_GNU_addr_index
            | gimli::DW_OP_GNU_const_index
            | gimli::DW_OP_const4u
            | gimli::DW_OP_const8u
    );
    if !begins_with_constant || expression.0.len() > 64 {
        return None;
    }
    let mut operations = expression.operations(unit.unit.encoding());
    let mut is_address = false;
    let mut value = match operations.next().ok()?? {
        Operation::Address { address } => {
            is_address = true;
            address
        }
        Operation::AddressIndex { index } => {
            is_address = true;
            unit.dwarf.address(unit.unit, index).ok()?
        }
        Operation::ConstantIndex { index } => unit.dwarf.address(unit.unit, index).ok()?,
        Operation::UnsignedConstant { value } => value,
        _ => return None,
    };
    loop {
        match operations.next().ok()? {
            None if is_address => return Some(Place::Address(value)),
            None => return None,
            Some(Operation::PlusConstant { value: offset }) => value = value.checked_add(offset)?,
            Some(Operation::TLS) => {
                return match operations.next() {
                    Ok(None) => Some(Place::ThreadLocal(value)),
                    _ => None,
                };
            }
            Some(_) => return None,
        }
    }
}
