//! One instruction, decoded so far that executing it takes no more questions.

use iced_x86::Mnemonic;

use crate::stop::Fault;

/// Operands: registers 0 to 15, second bytes of rax, rcx, rdx and rbx, or one of these.
pub const SECOND_BYTES: u8 = 16;
pub const MEMORY: u8 = 32;
pub const VALUE: u8 = 33;
pub const NONE: u8 = 34;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

/// A register of an address that it does without: [`crate::context::Context::general`] has zero there.
pub const NO_REGISTER: u8 = 16;

/// What a segment adds to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    Flat,
    Fs,
    Gs,
}

/// `base + (index << shift) + displacement`.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: u8,
    pub index: u8,
    pub shift: u8,
    pub segment: Segment,
    /// Cut to 32 bits before the segment is added.
    pub narrow: bool,
    pub displacement: u64,
}

pub const NO_ADDRESS: Address =
    Address { base: NO_REGISTER, index: NO_REGISTER, shift: 0, segment: Segment::Flat, narrow: false, displacement: 0 };

/// What repeats a string instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    Once,
    /// While rcx is not zero.
    Count,
    /// And the last comparison found what is equal.
    WhileEqual,
    WhileUnequal,
}

/// What an instruction does. `a`, `b` and `c` are its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nothing,
    Move,
    /// From `b`, which is `narrow` bytes wide.
    ExtendZero,
    ExtendSign,
    Address,
    Add,
    Or,
    Adc,
    Sbb,
    And,
    Sub,
    Xor,
    Compare,
    Test,
    Inc,
    Dec,
    Neg,
    Not,
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
    ShiftDoubleLeft,
    ShiftDoubleRight,
    MultiplyWide,
    MultiplyWideSigned,
    /// `a = b * c`
    Multiply,
    Divide,
    DivideSigned,
    SwapBytes,
    BitTest,
    BitSet,
    BitReset,
    BitComplement,
    BitScanForward,
    BitScanReverse,
    TrailingZeros,
    LeadingZeros,
    CountOnes,
    /// Shifts of BMI2, which leave flags alone: `a = b shifted by c`.
    ShiftLeftPlain,
    ShiftRightPlain,
    ShiftArithmeticPlain,
    RotatePlain,
    /// rdx is the sign of rax.
    SpreadSign,
    SetIf(u8),
    MoveIf(u8),
    JumpIf(u8),
    Jump,
    JumpTo,
    Call,
    CallTo,
    Return,
    JumpIfZeroCount,
    Loop,
    LoopWhile(bool),
    Push,
    Pop,
    PushFlags,
    PopFlags,
    Leave,
    Exchange,
    CompareExchange,
    CompareExchangeWide,
    ExchangeAdd,
    LoadStatus,
    StoreStatus,
    ClearCarry,
    SetCarry,
    FlipCarry,
    ClearDirection,
    SetDirection,
    MoveString(Repeat),
    StoreString(Repeat),
    LoadString(Repeat),
    ScanString(Repeat),
    CompareString(Repeat),
    /// By the processor itself; `code` says by which code.
    Native,
    /// A gather or scatter; `code` says which.
    Lanes,
    ClearUpper,
    ClearAll,
    LoadControl,
    StoreControl,
    ReadBase(Segment),
    WriteBase(Segment),
    Identify,
    ReadTime,
    ReadComponents,
    Save(Save),
    Restore(Save),
    SystemCall,
    Fault(Fault),
    Unsupported,
    Lacking,
}

/// How all registers are saved at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    Legacy,
    Standard,
    Compacted,
    Optimised,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub ip: u64,
    /// The one behind it.
    pub next: u64,
    /// An immediate operand; where a branch leads.
    pub value: u64,
    pub address: Address,
    pub code: u32,
    pub kind: Kind,
    pub mnemonic: Mnemonic,
    /// Bytes of the operands.
    pub width: u8,
    pub narrow: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
}

impl Op {
    /// True if the next instruction is not known to be the one behind it.
    pub fn ends_block(&self) -> bool {
        use Kind::{
            Call, CallTo, Fault, Jump, JumpIf, JumpIfZeroCount, JumpTo, Lacking, Loop, LoopWhile, Return, SystemCall,
            Unsupported,
        };
        matches!(
            self.kind,
            Call | CallTo
                | Fault(_)
                | Jump
                | JumpIf(_)
                | JumpIfZeroCount
                | JumpTo
                | Lacking
                | Loop
                | LoopWhile(_)
                | Return
                | SystemCall
                | Unsupported
        )
    }
}
