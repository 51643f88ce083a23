//! Instructions to what executes them: by hand where they are frequent or touch more than their operands, by the processor
//! itself (`harmless.rs`) where they do not.

use iced_x86::{Code, Instruction, MemorySize, Mnemonic, OpKind, Register};

use crate::features;
use crate::flags::number;
use crate::op::{
    Address, Kind, MEMORY, NO_ADDRESS, NO_REGISTER, NONE, Op, RAX, RDX, Repeat, SECOND_BYTES, Save, Segment, VALUE,
};
use crate::stop::Fault;

/// What an instruction is executed by.
pub enum Decoded {
    Op(Op),
    /// By the processor, if `harmless.rs` takes it.
    Native(Op),
}

/// An op that has nothing yet but its place, and its address where it has one.
fn blank(i: &Instruction) -> Op {
    let has_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    let address = if has_memory { address(i) } else { Some(NO_ADDRESS) };
    let (ip, next) = (i.ip(), i.next_ip());
    let kind = if address.is_some() { Kind::Nothing } else { Kind::Unsupported };
    let address = address.unwrap_or(NO_ADDRESS);
    Op {
        ip,
        next,
        value: 0,
        address,
        code: 0,
        kind,
        mnemonic: i.mnemonic(),
        width: 8,
        narrow: 0,
        a: NONE,
        b: NONE,
        c: NONE,
    }
}

/// None: one that is made of vectors.
fn address(i: &Instruction) -> Option<Address> {
    let register = |r: Register| match r {
        Register::None | Register::RIP | Register::EIP => Some(NO_REGISTER),
        r if r.is_gpr64() || r.is_gpr32() => Some(r.number() as u8),
        _ => None,
    };
    Some(Address {
        base: register(i.memory_base())?,
        index: register(i.memory_index())?,
        shift: i.memory_index_scale().trailing_zeros() as u8,
        segment: segment(i),
        narrow: i.memory_base().is_gpr32() || i.memory_index().is_gpr32() || i.memory_base() == Register::EIP,
        displacement: i.memory_displacement64(),
    })
}

/// What the segment register of an operand in memory adds.
pub fn segment(i: &Instruction) -> Segment {
    match i.memory_segment() {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    }
}

/// An operand of integer instructions; none: it is of another kind. Immediate values go to `value`.
fn operand(i: &Instruction, n: u32, value: &mut u64) -> Option<u8> {
    match i.op_kind(n) {
        OpKind::Register => {
            let r = i.op_register(n);
            let second = matches!(r, Register::AH | Register::BH | Register::CH | Register::DH);
            let whole = r.full_register();
            whole.is_gpr64().then(|| whole.number() as u8 + if second { SECOND_BYTES } else { 0 })
        }
        OpKind::Memory => (!i.is_vsib()).then_some(MEMORY),
        _ => {
            *value = i.try_immediate(n).ok()?;
            Some(VALUE)
        }
    }
}

/// Bytes of an operand.
fn width(i: &Instruction, n: u32) -> u8 {
    match i.op_kind(n) {
        OpKind::Register => i.op_register(n).size() as u8,
        OpKind::Memory => i.memory_size().size() as u8,
        _ => 0,
    }
}

/// Decodes for execution.
pub fn decode(i: &Instruction) -> Decoded {
    let op = blank(i);
    let whole = |kind| Decoded::Op(Op { kind, ..op });
    // Processors execute more than their manuals say, and newer ones more than the decoder knows.
    if i.is_invalid() {
        return whole(Kind::Unsupported);
    }
    if !features::has(i) {
        // A shadow stack that the thread does not use makes these no operations.
        let idle = matches!(i.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq);
        return whole(if idle { Kind::Nothing } else { Kind::Lacking });
    }
    if let Some(kind) = plain(i) {
        // The other form of reading the time tells the processor too.
        let narrow = u8::from(i.mnemonic() == Mnemonic::Rdtscp);
        return Decoded::Op(Op { kind, narrow, ..op });
    }
    if let Some(op) = branch(i, op).or_else(|| string(i, op)).or_else(|| special(i, op)).or_else(|| integer(i, op)) {
        return Decoded::Op(op);
    }
    Decoded::Native(op)
}

/// Instructions without operands of interest.
fn plain(i: &Instruction) -> Option<Kind> {
    use Mnemonic as M;
    // Prefetches of a register: some processors refuse them.
    let of_register = matches!(
        i.code(),
        Code::Reservednop_rm16_r16_0F0D | Code::Reservednop_rm32_r32_0F0D | Code::Reservednop_rm64_r64_0F0D
    ) && i.op0_kind() == OpKind::Register;
    if of_register {
        return Some(Kind::Unsupported);
    }
    Some(match i.mnemonic() {
        M::Nop | M::Endbr64 | M::Endbr32 | M::Pause | M::Reservednop => Kind::Nothing,
        M::Prefetch | M::Prefetchw | M::Prefetchwt1 | M::Prefetchit0 | M::Prefetchit1 => Kind::Nothing,
        M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta => Kind::Nothing,
        M::Lfence | M::Mfence | M::Sfence | M::Serialize => Kind::Nothing,
        M::Clflush | M::Clflushopt | M::Clwb | M::Cldemote => Kind::Nothing,
        M::Cbw | M::Cwde | M::Cdqe | M::Cwd | M::Cdq | M::Cqo => return None,
        M::Syscall | M::Sysenter | M::Int => Kind::SystemCall,
        M::Int3 | M::Int1 => Kind::Fault(Fault::Breakpoint),
        M::Ud0 | M::Ud1 | M::Ud2 => Kind::Fault(Fault::Instruction),
        M::Hlt | M::In | M::Out | M::Cli | M::Sti => Kind::Fault(Fault::General),
        M::Clc => Kind::ClearCarry,
        M::Stc => Kind::SetCarry,
        M::Cmc => Kind::FlipCarry,
        M::Cld => Kind::ClearDirection,
        M::Std => Kind::SetDirection,
        M::Lahf => Kind::LoadStatus,
        M::Sahf => Kind::StoreStatus,
        M::Vzeroupper => Kind::ClearUpper,
        M::Vzeroall => Kind::ClearAll,
        M::Cpuid => Kind::Identify,
        M::Rdtsc | M::Rdtscp => Kind::ReadTime,
        M::Xgetbv => Kind::ReadComponents,
        _ => return None,
    })
}

/// Branches and what uses the stack. Any other instruction of that kind is unsupported, and never executed natively.
fn branch(i: &Instruction, op: Op) -> Option<Op> {
    use Mnemonic as M;
    let unsupported = Op { kind: Kind::Unsupported, ..op };
    let mut value = 0;
    let target = |kind| match i.op0_kind() {
        OpKind::NearBranch64 => Op { kind, value: i.near_branch_target(), ..op },
        _ => unsupported,
    };
    let mut indirect = |kind| match operand(i, 0, &mut value) {
        Some(a) if width(i, 0) == 8 => Op { kind, a, ..op },
        _ => unsupported,
    };
    if i.is_jcc_short_or_near() {
        return Some(target(Kind::JumpIf(number(i.condition_code()))));
    }
    // A prefix that means nothing here turns the condition round on some processors.
    if matches!(i.mnemonic(), M::Loope | M::Loopne) && (i.has_rep_prefix() || i.has_repne_prefix()) {
        return Some(unsupported);
    }
    Some(match i.mnemonic() {
        M::Jmp if i.is_jmp_short_or_near() => target(Kind::Jump),
        M::Jmp if i.is_jmp_near_indirect() => indirect(Kind::JumpTo),
        M::Call if i.is_call_near() => target(Kind::Call),
        M::Call if i.is_call_near_indirect() => indirect(Kind::CallTo),
        M::Jrcxz => target(Kind::JumpIfZeroCount),
        M::Loop if i.code() == Code::Loop_rel8_64_RCX => target(Kind::Loop),
        M::Loope if i.code() == Code::Loope_rel8_64_RCX => target(Kind::LoopWhile(true)),
        M::Loopne if i.code() == Code::Loopne_rel8_64_RCX => target(Kind::LoopWhile(false)),
        M::Ret if matches!(i.code(), Code::Retnq | Code::Retnq_imm16) => {
            let value = if i.op_count() == 1 { i.immediate(0) } else { 0 };
            Op { kind: Kind::Return, value, ..op }
        }
        M::Push if i.stack_pointer_increment() == -8 => match operand(i, 0, &mut value) {
            Some(a) => Op { kind: Kind::Push, a, value, ..op },
            None => unsupported,
        },
        M::Pop if i.stack_pointer_increment() == 8 => match operand(i, 0, &mut value) {
            Some(a) => Op { kind: Kind::Pop, a, ..op },
            None => unsupported,
        },
        M::Leave if i.stack_pointer_increment() == 0 && i.code() == Code::Leaveq => Op { kind: Kind::Leave, ..op },
        M::Pushfq => Op { kind: Kind::PushFlags, ..op },
        M::Popfq => Op { kind: Kind::PopFlags, ..op },
        _ if i.is_stack_instruction() || i.flow_control() != iced_x86::FlowControl::Next => unsupported,
        _ => return None,
    })
}

fn string(i: &Instruction, op: Op) -> Option<Op> {
    use Mnemonic as M;
    let width = match i.memory_size() {
        MemorySize::UInt8 => 1,
        MemorySize::UInt16 => 2,
        MemorySize::UInt32 => 4,
        MemorySize::UInt64 => 8,
        _ => 0,
    };
    let wide = |n: u32| !matches!(i.op_kind(n), OpKind::MemorySegESI | OpKind::MemoryESEDI);
    let is_string = i.is_string_instruction();
    let repeated = i.has_rep_prefix() || i.has_repne_prefix();
    let count = if repeated { Repeat::Count } else { Repeat::Once };
    let compare = match (i.has_rep_prefix(), i.has_repne_prefix()) {
        (false, false) => Repeat::Once,
        (true, _) => Repeat::WhileEqual,
        _ => Repeat::WhileUnequal,
    };
    let kind = match i.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq if is_string => Kind::MoveString(count),
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => Kind::StoreString(count),
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => Kind::LoadString(count),
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => Kind::ScanString(compare),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq if is_string => Kind::CompareString(compare),
        _ if is_string => Kind::Unsupported,
        _ => return None,
    };
    let kind = if wide(0) && wide(1) && width != 0 { kind } else { Kind::Unsupported };
    Some(Op { kind, width, address: Address { segment: segment(i), ..NO_ADDRESS }, ..op })
}

/// Instructions that work on registers which no operand names, or on more memory than one says.
fn special(i: &Instruction, op: Op) -> Option<Op> {
    use Mnemonic as M;
    let save = |save| Op { kind: Kind::Save(save), ..op };
    let restore = |save| Op { kind: Kind::Restore(save), ..op };
    let mut value = 0;
    let mut base = |kind| match operand(i, 0, &mut value) {
        Some(a) => Op { kind, a, width: width(i, 0), ..op },
        None => Op { kind: Kind::Unsupported, ..op },
    };
    Some(match i.mnemonic() {
        M::Ldmxcsr | M::Vldmxcsr => Op { kind: Kind::LoadControl, a: MEMORY, width: 4, ..op },
        M::Stmxcsr | M::Vstmxcsr => Op { kind: Kind::StoreControl, a: MEMORY, width: 4, ..op },
        M::Rdfsbase => base(Kind::ReadBase(Segment::Fs)),
        M::Rdgsbase => base(Kind::ReadBase(Segment::Gs)),
        M::Wrfsbase => base(Kind::WriteBase(Segment::Fs)),
        M::Wrgsbase => base(Kind::WriteBase(Segment::Gs)),
        M::Cmpxchg8b => Op { kind: Kind::CompareExchangeWide, width: 4, ..op },
        M::Cmpxchg16b => Op { kind: Kind::CompareExchangeWide, width: 8, ..op },
        // The forms without 64 in their names differ in how they save the x87's last instruction only, which is not kept.
        M::Fxsave64 | M::Fxsave => save(Save::Legacy),
        M::Xsave64 | M::Xsave => save(Save::Standard),
        M::Xsavec64 | M::Xsavec => save(Save::Compacted),
        M::Xsaveopt64 | M::Xsaveopt => save(Save::Optimised),
        M::Fxrstor64 | M::Fxrstor => restore(Save::Legacy),
        M::Xrstor64 | M::Xrstor => restore(Save::Standard),
        _ => return None,
    })
}

/// The kind of an arithmetic instruction, if it has the usual shape: operands `a` and `b`, of the width of `a`.
pub fn usual(i: &Instruction) -> Option<Kind> {
    use Mnemonic as M;
    Some(match i.mnemonic() {
        M::Mov | M::Movnti => Kind::Move,
        M::Add => Kind::Add,
        M::Or => Kind::Or,
        M::Adc => Kind::Adc,
        M::Sbb => Kind::Sbb,
        M::And => Kind::And,
        M::Sub => Kind::Sub,
        M::Xor => Kind::Xor,
        M::Cmp => Kind::Compare,
        M::Test => Kind::Test,
        M::Inc => Kind::Inc,
        M::Dec => Kind::Dec,
        M::Neg => Kind::Neg,
        M::Not => Kind::Not,
        M::Shl | M::Sal => Kind::Shl,
        M::Shr => Kind::Shr,
        M::Sar => Kind::Sar,
        M::Rol => Kind::Rol,
        M::Ror => Kind::Ror,
        M::Mul => Kind::MultiplyWide,
        M::Div => Kind::Divide,
        M::Idiv => Kind::DivideSigned,
        M::Bt => Kind::BitTest,
        M::Bts => Kind::BitSet,
        M::Btr => Kind::BitReset,
        M::Btc => Kind::BitComplement,
        M::Bsf => Kind::BitScanForward,
        M::Bsr => Kind::BitScanReverse,
        M::Tzcnt => Kind::TrailingZeros,
        M::Lzcnt => Kind::LeadingZeros,
        M::Popcnt => Kind::CountOnes,
        M::Shld => Kind::ShiftDoubleLeft,
        M::Shrd => Kind::ShiftDoubleRight,
        M::Xchg => Kind::Exchange,
        M::Cmpxchg => Kind::CompareExchange,
        M::Xadd => Kind::ExchangeAdd,
        M::Shlx => Kind::ShiftLeftPlain,
        M::Shrx => Kind::ShiftRightPlain,
        M::Sarx => Kind::ShiftArithmeticPlain,
        M::Rorx => Kind::RotatePlain,
        // Of 16 bits it is undefined: left to the processor.
        M::Bswap if i.op0_register().size() > 2 => Kind::SwapBytes,
        M::Imul if i.op_count() == 1 => Kind::MultiplyWideSigned,
        M::Imul => Kind::Multiply,
        _ => return None,
    })
}

fn integer(i: &Instruction, op: Op) -> Option<Op> {
    use Mnemonic as M;
    let mut value = 0;
    let mut get = |n: u32| if n < i.op_count() { operand(i, n, &mut value) } else { Some(NONE) };
    let (a, b, c) = (get(0)?, get(1)?, get(2)?);
    let op = Op { a, b, c, value, width: width(i, 0), ..op };
    let extended = |kind| Op { kind, narrow: width(i, 1), ..op };
    // Of the register's own half: cbw, cwde, cdqe.
    let own = |width: u8| Op { kind: Kind::ExtendSign, a: RAX as u8, b: RAX as u8, width, narrow: width / 2, ..op };
    let spread = |width: u8| Op { kind: Kind::SpreadSign, a: RDX as u8, b: RAX as u8, width, ..op };
    Some(match i.mnemonic() {
        // What becomes of the upper half of a register that stays as it is, is the processor's business.
        M::Cmpxchg if a != MEMORY => return None,
        // Their undefined flags depend on the form of the count.
        M::Rcl | M::Rcr => return None,
        M::Movzx => extended(Kind::ExtendZero),
        M::Movsx | M::Movsxd => extended(Kind::ExtendSign),
        M::Lea => Op { kind: Kind::Address, ..op },
        M::Cbw => own(2),
        M::Cwde => own(4),
        M::Cdqe => own(8),
        M::Cwd => spread(2),
        M::Cdq => spread(4),
        M::Cqo => spread(8),
        // Two operands: the first is a factor too.
        M::Imul if i.op_count() == 2 => Op { kind: Kind::Multiply, b: a, c: b, ..op },
        _ if i.is_setcc() => Op { kind: Kind::SetIf(number(i.condition_code())), width: 1, ..op },
        _ if i.is_cmov() => Op { kind: Kind::MoveIf(number(i.condition_code())), ..op },
        _ => Op { kind: usual(i)?, ..op },
    })
}

/// Names that the library has no question for.
pub trait Conditional {
    fn is_setcc(&self) -> bool;
    fn is_cmov(&self) -> bool;
}

impl Conditional for Instruction {
    fn is_setcc(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.mnemonic(),
            M::Seto
                | M::Setno
                | M::Setb
                | M::Setae
                | M::Sete
                | M::Setne
                | M::Setbe
                | M::Seta
                | M::Sets
                | M::Setns
                | M::Setp
                | M::Setnp
                | M::Setl
                | M::Setge
                | M::Setle
                | M::Setg
        )
    }

    fn is_cmov(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.mnemonic(),
            M::Cmovo
                | M::Cmovno
                | M::Cmovb
                | M::Cmovae
                | M::Cmove
                | M::Cmovne
                | M::Cmovbe
                | M::Cmova
                | M::Cmovs
                | M::Cmovns
                | M::Cmovp
                | M::Cmovnp
                | M::Cmovl
                | M::Cmovge
                | M::Cmovle
                | M::Cmovg
        )
    }
}
