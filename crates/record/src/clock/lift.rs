//! Machine code to the little that address computation needs: operands, register effects, branches.

use iced_x86::{
    CodeSize, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};
use numamma_trace::Access;

use super::frame::{SlotUse, slot_use};

/// rsp in the processor's numbering.
pub const STACK_POINTER: u8 = 4;

/// A memory operand: `base + index * scale + displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub base: Option<u8>,
    pub index: Option<u8>,
    pub scale: u8,
    /// For `ip_relative` operands the whole address, in the module's own addresses.
    pub displacement: i64,
    pub ip_relative: bool,
    /// Relative to the thread pointer (fs), which no sample carries.
    pub thread_relative: bool,
    pub bytes: u32,
    pub access: Access,
    /// Made by push, pop, call or ret rather than named by the instruction.
    pub implicit_stack: bool,
    /// The index is a vector: `base + displacement` tells the object, not the place in it.
    pub gather: bool,
}

/// Second operand of an arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Register(u8),
    Immediate(i64),
}

/// Arithmetic that is followed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Sub,
    And,
    Or,
    Xor,
    Multiply,
}

/// What an instruction does to the general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `to = from`; `wide`: 64 bits, else 32 with the upper half cleared.
    Move {
        to: u8,
        from: Value,
        wide: bool,
    },
    /// `to` = the lowest `bits` of `from`, extended.
    Extend {
        to: u8,
        from: u8,
        bits: u8,
        signed: bool,
    },
    /// `to = from * by`.
    MultiplyBy {
        to: u8,
        from: u8,
        by: i64,
        wide: bool,
    },
    /// rdx:rax divided by a register, unsigned: quotient to rax, remainder to rdx.
    Divide {
        by: u8,
        wide: bool,
    },
    /// As a move, if the condition holds.
    MoveIf {
        condition: ConditionCode,
        to: u8,
        from: u8,
        wide: bool,
    },
    Address {
        to: u8,
        operand: Operand,
        wide: bool,
    },
    Arithmetic {
        op: Arithmetic,
        to: u8,
        from: Value,
        wide: bool,
    },
    /// Shift left (positive) or right (negative) by a constant.
    Shift {
        to: u8,
        by: i8,
        wide: bool,
    },
    /// Sets the flags as subtraction (compare) or and (test) would.
    Compare {
        a: u8,
        b: Value,
        wide: bool,
        test: bool,
    },
    /// The same of the lowest bytes.
    CompareBytes {
        a: u8,
        b: Value,
        test: bool,
    },
    /// Moves the stack pointer by that many bytes (push, pop).
    Stack {
        by: i64,
        writes: Option<u8>,
    },
    Jump {
        to: u64,
    },
    Branch {
        condition: ConditionCode,
        to: u64,
    },
    /// Leaves straight-line code in a way that is not followed: call, return, indirect jump, trap.
    Leave,
    /// Anything else: what it writes becomes unknown.
    Other,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Op {
    /// Address in the module's own address space.
    pub ip: u64,
    pub operands: [Option<Operand>; 2],
    pub effect: Effect,
    /// What it does with its function's frame; the place is its first operand.
    pub slot: Option<SlotUse>,
    /// General registers it writes, as a mask.
    pub writes: u16,
    pub writes_flags: bool,
    /// First of a basic block: a branch target, or after anything that may not fall through.
    pub leader: bool,
    /// A repeated string instruction: interrupted half-way, the sample stands at the instruction itself.
    pub repeats: bool,
    /// `pause` and its kin: the thread waits for another one.
    pub waits: bool,
    /// In a loop that waits for another thread: index of its first instruction.
    pub spin: Option<u32>,
    /// A system call: what took the time is in the kernel.
    pub enters_kernel: bool,
    /// Where code goes on that is not followed; without meaning unless the effect is [`Effect::Leave`].
    pub leaves: Leaves,
}

/// How an instruction leaves straight-line code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// A call: goes on behind it. With the function's address if the instruction names it.
    Call(Option<u64>),
    /// A jump through a register or memory: a table of cases, or a tail call.
    Indirect,
    /// It does not come back: a return, a trap.
    End,
}

/// A decoded stretch of code: a function, or a window of unknown code.
#[derive(Debug)]
pub struct Code {
    /// In order of their addresses.
    pub ops: Vec<Op>,
    /// False for a window whose start alone is a known boundary: what comes before an instruction is not known.
    pub whole: bool,
    /// Of a run time of OpenMP, all of whose loops with a `pause` wait.
    pub is_run_time: bool,
}

impl Code {
    /// Decodes `bytes` at address `start`.
    pub fn decode(bytes: &[u8], start: u64, whole: bool) -> Self {
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        let mut instruction = Instruction::default();
        // Instructions are four bytes long on average. A list that has to grow is copied, and what it leaves is memory to clear.
        let (mut ops, mut targets) = (Vec::with_capacity(bytes.len() / 3 + 1), Vec::new());
        let mut leader = true;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() && !whole {
                break;
            }
            let op = lift(&instruction, &mut factory, leader);
            if let Effect::Jump { to } | Effect::Branch { to, .. } = op.effect {
                targets.push(to);
            }
            ops.push(op);
            leader = instruction.flow_control() != FlowControl::Next;
        }
        super::spin::mark(&mut ops, bytes, start);
        // It stays for the whole recording.
        ops.shrink_to_fit();
        let mut code = Self { ops, whole, is_run_time: false };
        for target in targets {
            if let Some(n) = code.index(target) {
                code.ops[n].leader = true;
            }
        }
        code
    }

    /// Decodes code of which only one boundary is known: `ip`. `bytes` begin at `start`, before it. Where a branch behind
    /// `ip` goes back to before it and decoding from there meets `ip` again, that is code too: the body of a loop.
    pub fn decode_round(bytes: &[u8], start: u64, ip: u64) -> Self {
        let at = |address: u64| bytes.get(address.checked_sub(start)? as usize..);
        let ahead = Self::decode(at(ip).unwrap_or_default(), ip, false);
        let targets = ahead.ops.iter().filter_map(|op| match op.effect {
            Effect::Jump { to } | Effect::Branch { to, .. } if to >= start && to < ip => Some(to),
            _ => None,
        });
        let mut heads: Vec<u64> = targets.collect();
        heads.sort_unstable();
        let round = heads.into_iter().find_map(|head| {
            let code = Self::decode(at(head)?, head, true);
            code.index(ip).is_some().then_some(code)
        });
        round.unwrap_or(ahead)
    }

    /// Index of the instruction at `ip`, if one begins there.
    pub fn index(&self, ip: u64) -> Option<usize> {
        self.ops.binary_search_by_key(&ip, |op| op.ip).ok()
    }

    /// True if what a sample at an instruction waited for may be memory or a branch gone wrong, rather than its turn: the
    /// instruction before loads, or it is where branches lead.
    pub fn may_have_stalled(&self, n: usize) -> bool {
        let loads = |op: &Op| op.operands.iter().flatten().any(|o| o.access as i32 & Access::Read as i32 != 0);
        n == 0 || self.ops[n].leader || loads(&self.ops[n - 1])
    }

    /// The basic block round an instruction: indices of its first and last one.
    pub fn block(&self, n: usize) -> (usize, usize) {
        let first = (0..=n).rev().find(|&i| self.ops[i].leader).unwrap_or(0);
        let last = (n + 1..self.ops.len()).find(|&i| self.ops[i].leader).unwrap_or(self.ops.len()) - 1;
        (first, last)
    }
}

/// An operand that is its displacement alone.
const NOTHING: Operand = Operand {
    base: None,
    index: None,
    scale: 1,
    displacement: 0,
    ip_relative: false,
    thread_relative: false,
    bytes: 0,
    access: Access::Unknown,
    implicit_stack: false,
    gather: false,
};

fn general(register: Register) -> Option<u8> {
    (register.is_gpr64() || register.is_gpr32() || register.is_gpr16()).then(|| register.number() as u8)
}

fn lift(i: &Instruction, factory: &mut InstructionInfoFactory, leader: bool) -> Op {
    let info = factory.info(i);
    let writes = info
        .used_registers()
        .iter()
        .filter(|r| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(r.access(), Write | CondWrite | ReadWrite | ReadCondWrite)
        })
        .map(|r| r.register().full_register())
        .filter(|r| r.is_gpr64())
        .fold(0_u16, |mask, r| mask | 1 << r.number());
    // lea computes, nop and prefetch touch nothing that could stall the program.
    let no_access = matches!(
        i.mnemonic(),
        Mnemonic::Lea
            | Mnemonic::Nop
            | Mnemonic::Endbr64
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw
    );
    let mut operands = [None; 2];
    if !no_access {
        // Data before implicit stack: the first operand is the one that rules ask for.
        let found = |implicit: bool| {
            info.used_memory().iter().filter_map(|m| operand(i, m)).filter(move |o| o.implicit_stack == implicit)
        };
        for (slot, operand) in operands.iter_mut().zip(found(false).chain(found(true))) {
            *slot = Some(operand);
        }
    }
    Op {
        ip: i.ip(),
        operands,
        effect: effect(i),
        slot: slot_use(i),
        writes,
        writes_flags: i.rflags_modified() != 0,
        leader,
        repeats: (i.has_rep_prefix() || i.has_repne_prefix()) && i.is_string_instruction(),
        enters_kernel: i.mnemonic() == Mnemonic::Syscall,
        spin: None,
        waits: matches!(i.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait | Mnemonic::Mwaitx),
        leaves: match i.flow_control() {
            FlowControl::Call => Leaves::Call(i.is_call_near().then(|| i.near_branch_target())),
            FlowControl::IndirectBranch => Leaves::Indirect,
            FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt => Leaves::End,
            // An indirect call; transactions go on as well.
            _ => Leaves::Call(None),
        },
    }
}

fn operand(i: &Instruction, m: &UsedMemory) -> Option<Operand> {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    let access = match m.access() {
        Read | CondRead => Access::Read,
        Write | CondWrite => Access::Write,
        ReadWrite | ReadCondWrite => Access::ReadWrite,
        _ => return None,
    };
    if m.address_size() == CodeSize::Code32 {
        return None;
    }
    // iced gives the operand without base and with the whole address; an implicit stack access has rsp.
    let ip_relative = i.is_ip_rel_memory_operand() && m.base() == Register::None && m.index() == Register::None;
    let gather = m.index().is_vector_register();
    let named = (0..i.op_count()).any(|o| i.op_kind(o) == OpKind::Memory)
        && i.memory_base() == m.base()
        && i.memory_displacement64() == m.displacement();
    Some(Operand {
        base: if ip_relative { None } else { general(m.base()) },
        index: if gather { None } else { general(m.index()) },
        scale: m.scale() as u8,
        displacement: m.displacement() as i64,
        ip_relative,
        thread_relative: matches!(m.segment(), Register::FS | Register::GS),
        bytes: m.memory_size().size() as u32,
        access,
        implicit_stack: i.is_stack_instruction() && m.base() == Register::RSP && !named,
        gather,
    })
}

fn effect(i: &Instruction) -> Effect {
    use Mnemonic as M;
    let first = |n: u32| general(i.op_register(n));
    let (to, wide) = if i.op_count() > 0 && i.op0_kind() == OpKind::Register {
        let r = i.op0_register();
        // Writes of 8 or 16 bits keep the rest of the register: left to `Other`.
        (if r.is_gpr64() || r.is_gpr32() { first(0) } else { None }, r.is_gpr64())
    } else {
        (None, false)
    };
    let second = || -> Option<Value> {
        if i.op_count() != 2 {
            return None;
        }
        if i.op1_kind() == OpKind::Register {
            let r = i.op1_register();
            return if r.is_gpr64() || r.is_gpr32() { first(1).map(Value::Register) } else { None };
        }
        i.try_immediate(1).ok().map(|v| Value::Immediate(v as i64))
    };
    let arithmetic = |op| {
        let (to, from) = (to?, second()?);
        Some(Effect::Arithmetic { op, to, from, wide })
    };
    let lifted = match i.mnemonic() {
        M::Mov => to.zip(second()).map(|(to, from)| Effect::Move { to, from, wide }),
        M::Movsxd | M::Movsx | M::Movzx if i.op1_kind() == OpKind::Register => {
            let (from, signed) = (i.op1_register(), i.mnemonic() != M::Movzx);
            // A signed extension to 32 bits clears the upper half: left to `Other`, as are ah, bh, ch and dh.
            let high = matches!(from, Register::AH | Register::BH | Register::CH | Register::DH);
            to.filter(|_| !high && (wide || !signed)).map(|to| Effect::Extend {
                to,
                from: from.full_register().number() as u8,
                bits: (from.size() * 8) as u8,
                signed,
            })
        }
        _ if is_conditional_move(i) && i.op1_kind() == OpKind::Register => {
            let condition = i.condition_code();
            to.zip(first(1)).map(|(to, from)| Effect::MoveIf { condition, to, from, wide })
        }
        M::Cdqe => Some(Effect::Extend { to: 0, from: 0, bits: 32, signed: true }),
        M::Imul if i.op_count() == 2 => arithmetic(Arithmetic::Multiply),
        M::Imul if i.op_count() == 3 && i.op1_kind() == OpKind::Register => {
            let by = i.try_immediate(2).ok().map(|v| v as i64);
            to.zip(first(1)).zip(by).map(|((to, from), by)| Effect::MultiplyBy { to, from, by, wide })
        }
        M::Div if i.op0_kind() == OpKind::Register => to.map(|by| Effect::Divide { by, wide }),
        M::Lea => to.zip(address(i)).map(|(to, operand)| Effect::Address { to, operand, wide }),
        M::Add => arithmetic(Arithmetic::Add),
        M::Sub => arithmetic(Arithmetic::Sub),
        M::And => arithmetic(Arithmetic::And),
        M::Or => arithmetic(Arithmetic::Or),
        M::Xor => arithmetic(Arithmetic::Xor),
        // They leave the carry flag alone, so an addition would tell branches the wrong thing.
        M::Inc | M::Dec => to.map(|to| {
            let displacement = if i.mnemonic() == M::Inc { 1 } else { -1 };
            Effect::Address { to, operand: Operand { base: Some(to), displacement, ..NOTHING }, wide }
        }),
        M::Shl | M::Shr => match (to, second()) {
            (Some(to), Some(Value::Immediate(n))) => {
                let n = (n & if wide { 63 } else { 31 }) as i8;
                Some(Effect::Shift { to, by: if i.mnemonic() == M::Shl { n } else { -n }, wide })
            }
            _ => None,
        },
        M::Cmp | M::Test if i.op0_kind() == OpKind::Register && i.op0_register().is_gpr8() => {
            let low = |r: Register| {
                let high = matches!(r, Register::AH | Register::BH | Register::CH | Register::DH);
                (r.is_gpr8() && !high).then(|| r.full_register().number() as u8)
            };
            let b = match i.op1_kind() {
                OpKind::Register => low(i.op1_register()).map(Value::Register),
                _ => i.try_immediate(1).ok().map(|v| Value::Immediate(v as i64)),
            };
            let test = i.mnemonic() == M::Test;
            low(i.op0_register()).zip(b).map(|(a, b)| Effect::CompareBytes { a, b, test })
        }
        M::Cmp | M::Test => {
            to.zip(second()).map(|(a, b)| Effect::Compare { a, b, wide, test: i.mnemonic() == M::Test })
        }
        M::Push => Some(Effect::Stack { by: i64::from(i.stack_pointer_increment()), writes: None }),
        M::Pop if i.op0_kind() == OpKind::Register => {
            Some(Effect::Stack { by: i64::from(i.stack_pointer_increment()), writes: to })
        }
        _ => None,
    };
    lifted.unwrap_or_else(|| match i.flow_control() {
        FlowControl::Next => Effect::Other,
        FlowControl::UnconditionalBranch => Effect::Jump { to: i.near_branch_target() },
        FlowControl::ConditionalBranch if i.is_jcc_short_or_near() => {
            Effect::Branch { condition: i.condition_code(), to: i.near_branch_target() }
        }
        _ => Effect::Leave,
    })
}

/// All others with a condition branch, or have one operand.
fn is_conditional_move(i: &Instruction) -> bool {
    i.condition_code() != ConditionCode::None && i.op_count() == 2 && i.flow_control() == FlowControl::Next
}

fn address(i: &Instruction) -> Option<Operand> {
    let ip_relative = i.is_ip_rel_memory_operand();
    let (base, index) = (i.memory_base(), i.memory_index());
    let unknown = |r: Register| r != Register::None && general(r).is_none();
    if !ip_relative && (unknown(base) || unknown(index)) {
        return None;
    }
    Some(Operand {
        base: if ip_relative { None } else { general(base) },
        index: general(index),
        scale: i.memory_index_scale() as u8,
        displacement: i.memory_displacement64() as i64,
        ip_relative,
        ..NOTHING
    })
}
