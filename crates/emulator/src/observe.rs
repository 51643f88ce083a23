//! What an emulation tells of.

/// One access to memory by one operand of an instruction, however wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The instruction.
    pub ip: u64,
    /// Its first byte.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// A write; else a read.
    pub write: bool,
}

/// Is told what is executed.
///
/// An instruction that reads and writes an operand gives two accesses, a repeated string instruction those of each repetition,
/// a gather or scatter one for each lane that is active, any other vector operand one, unless a mask says none of it.
pub trait Observer {
    /// An instruction is about to be executed; a repeated string instruction is told once, and again where a run goes on
    /// with it. One that the run stops at, for whatever reason but the limit, is told too.
    fn instruction(&mut self, ip: u64);

    /// The accesses that come now are of another round of a repeated MOVS or STOS, and follow on those of the round before: processors
    /// make many of them at once.
    fn goes_on(&mut self) {}

    /// An instruction that was told of last made this access. None is told of an instruction (or repetition) that was stopped at.
    fn access(&mut self, access: Access);
}

/// Is told, and forgets.
impl Observer for () {
    fn instruction(&mut self, _ip: u64) {}
    fn access(&mut self, _access: Access) {}
}
