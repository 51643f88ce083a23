//! Why an emulation ended.

use std::fmt;

use iced_x86::Mnemonic;

/// Why an emulation ended. The state is the one before the instruction at its `ip`; of a repeated string instruction, the one
/// before the next repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// As many instructions were executed as were asked for.
    Limit,
    /// It came where it was to end.
    Place,
    /// The next instruction enters the kernel.
    SystemCall,
    /// Code or data that is not there or must not be read, at this address.
    Unreadable(u64),
    /// A write to what must not be written, at this address.
    Unwritable(u64),
    /// Code where none may be executed, at this address.
    NotExecutable(u64),
    /// The program would get a signal.
    Fault(Fault),
    /// What the processor would do is not known here.
    Unsupported(Unsupported),
}

/// What the processor refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Division by zero, or a quotient that is too large.
    Division,
    /// No instruction, `ud2`, or one that only the kernel may execute.
    Instruction,
    /// A breakpoint.
    Breakpoint,
    /// An operand that had to be aligned.
    Misaligned,
    /// An address or a register's value that no program can use.
    General,
}

/// What is not emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// This instruction.
    Instruction(Mnemonic),
    /// The processor lacks it, as far as can be told.
    Feature(Mnemonic),
    /// Floating-point exceptions that would be signals.
    Exceptions,
    /// A write to a page from which code was executed.
    SelfModifying(u64),
    /// A flag that changes how the processor executes: single steps, alignment checks.
    Flags,
    /// A masked access part of which cannot be read.
    Masked,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => write!(f, "executed all that was asked for"),
            Self::Place => write!(f, "came where it was to end"),
            Self::SystemCall => write!(f, "a system call"),
            Self::Unreadable(address) => write!(f, "nothing can be read at {address:#x}"),
            Self::Unwritable(address) => write!(f, "nothing can be written at {address:#x}"),
            Self::NotExecutable(address) => write!(f, "nothing can be executed at {address:#x}"),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Unsupported(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Division => "a division by zero, or one whose result is too large",
            Self::Instruction => "an instruction that the processor refuses",
            Self::Breakpoint => "a breakpoint",
            Self::Misaligned => "an operand that had to be aligned",
            Self::General => "an address or value that no program can use",
        })
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction(mnemonic) => write!(f, "the instruction {mnemonic:?} is not emulated"),
            Self::Feature(mnemonic) => write!(f, "this processor is not known to have the instruction {mnemonic:?}"),
            Self::Exceptions => write!(f, "floating-point exceptions are signals in this thread"),
            Self::SelfModifying(address) => write!(f, "code is written at {address:#x}"),
            Self::Flags => write!(f, "flags that change how instructions execute"),
            Self::Masked => write!(f, "a masked access to memory part of which cannot be reached"),
        }
    }
}
