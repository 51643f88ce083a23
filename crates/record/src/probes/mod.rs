//! Places in the program's code where the kernel reports threads that come by: the entries and exits of functions.
//!
//! The exits are the function's own `ret`s and tail calls, each with a probe. The kernel also offers to report returns by
//! itself, but it does that by exchanging return addresses on the stack: exceptions could not pass such a frame any more, and
//! call stacks would end there. A probe at an instruction changes nothing that the program sees.
//!
//! - [`find`]: from what the user typed to functions in files
//! - [`exits`]: which instructions leave a function
//! - [`missing`]: why a function cannot be watched

mod exits;
mod find;
mod missing;

use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use crate::clock::machine::Machine;
use crate::perf::decode::Registers;

pub use find::find;

/// One place that is watched.
#[derive(Clone, Debug)]
pub struct Probe {
    /// File that holds the code.
    pub file: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// Address of the instruction; addresses are the file's.
    pub at: u64,
    /// The parts of the function.
    pub parts: Rc<[Range<u64>]>,
    /// Number of the function, in the order in which they were asked for.
    pub function: u16,
    pub kind: ProbeKind,
}

/// What it means that a thread comes by.
#[derive(Clone, Debug)]
pub enum ProbeKind {
    Enter,
    Leave(Exit),
}

/// When an instruction leaves its function.
#[derive(Clone, Debug)]
pub enum Exit {
    /// Whenever it is executed.
    Always,
    /// If the branch is taken.
    If(iced_x86::ConditionCode),
    /// If the register with that number holds an address outside the function.
    To(u8),
}

impl Probe {
    /// True if all registers are needed to tell what happened; else the stack pointer is enough.
    pub fn needs_registers(&self) -> bool {
        matches!(self.kind, ProbeKind::Leave(Exit::If(_) | Exit::To(_)))
    }

    /// True if an address is in its function.
    pub fn is_in(&self, address: u64) -> bool {
        self.parts.iter().any(|part| part.contains(&address))
    }

    /// True if a thread that comes by at the run-time address `ip` leaves the function.
    pub fn leaves(&self, ip: u64, registers: &Registers) -> bool {
        match &self.kind {
            ProbeKind::Enter => false,
            ProbeKind::Leave(Exit::Always) => true,
            ProbeKind::Leave(Exit::If(condition)) => {
                Machine::new([0; 16], registers.flags, 0, None).taken(*condition) == Some(true)
            }
            ProbeKind::Leave(Exit::To(register)) => {
                let bias = ip.wrapping_sub(self.at);
                !self.is_in(registers.general[usize::from(*register)].wrapping_sub(bias))
            }
        }
    }
}
