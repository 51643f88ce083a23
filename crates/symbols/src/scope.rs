//! What is told about the functions around an instruction and their variables.

use crate::variable::Member;

/// What a function returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Returns {
    /// No value, or debug information does not say.
    #[default]
    Nothing,
    /// `void *`: memory for whatever its caller makes of it.
    Memory,
    /// A pointer to something of a type.
    Pointer,
    /// A structure, a class or an array: the caller may have to say where it goes.
    Aggregate,
    /// Anything else.
    Value,
}

/// A function that an instruction belongs to, by inlining or by itself: one for each of [`crate::Module::frames_at`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// What it returns.
    pub returns: Returns,
    /// True if it has a parameter that is an integer, which may be a size.
    pub takes_size: bool,
    /// True if it has a parameter of type `void **`, through which it may hand memory out.
    pub hands_out: bool,
    /// Its code here: first address and the address after the last.
    pub code: Vec<(u64, u64)>,
    /// Variables and parameters of the function and of its blocks around the instruction.
    pub locals: Vec<Local>,
}

/// A variable or parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its name in the source.
    pub name: String,
    /// Size in bytes; 0 when unknown.
    pub size: u64,
    /// True if it is a pointer; then `members` are those of what it points to.
    pub is_pointer: bool,
    /// True if it is a reference of C++.
    pub is_reference: bool,
    /// Of a parameter: its number among the arguments in general registers, if all in front of it are in registers too.
    pub argument: Option<u8>,
    /// Fields of the structure that it is, or points to.
    pub members: Vec<Member>,
    /// True if the source is Fortran, where a field is named `a%b`.
    pub is_fortran: bool,
    /// Where it is, and for which instructions.
    pub places: Vec<LocalPlace>,
}

/// Where a variable is while one of the instructions `low..high` is the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPlace {
    /// First instruction's address.
    pub low: u64,
    /// Address after the last one.
    pub high: u64,
    /// The byte of the variable from which on it is there: the compiler may take a structure apart.
    pub from: u64,
    /// How many bytes of it are there; 0 for all that follow.
    pub bytes: u64,
    /// The place.
    pub at: Location,
}

/// A place of a variable. Registers have the numbers of DWARF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// In a register, at least its first 8 bytes.
    Register(u16),
    /// In memory, so many bytes from the frame's canonical address (the stack pointer before the call of the function).
    Frame(i64),
    /// In memory, so many bytes from what a register holds.
    Memory(u16, i64),
    /// Nowhere: it is a pointer, known to point so many bytes from the frame's canonical address.
    PointsToFrame(i64),
    /// In memory, at the address that lies so many bytes from the frame's canonical address.
    ThroughFrame(i64),
}

/// How to find a frame's canonical address: a register, and what to add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRule {
    /// DWARF's number of the register.
    pub register: u16,
    /// Bytes to add.
    pub offset: i64,
}
