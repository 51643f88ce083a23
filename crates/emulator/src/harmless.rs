//! Which instructions the processor may execute for the thread in our own process, and what it takes to do so.

use iced_x86::{CpuidFeature, EncodingKind, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::decode::{Conditional, usual};

/// What is to be known of an instruction before code for it can be written.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Registers that it reads or writes, by their numbers: general, vector, mask.
    pub general: u16,
    pub vectors: u32,
    pub masks: u8,
    /// The one of them that stands for the stack pointer.
    pub stack: Option<u8>,
    /// And those of them that it writes.
    pub writes_general: u16,
    pub writes_vectors: u32,
    pub writes_masks: u8,
    /// Reads flags, or leaves some as they are.
    pub takes_flags: bool,
    pub gives_flags: bool,
    /// Depends on the rounding mode, or sets sticky exceptions.
    pub control: bool,
    /// Works on the x87 registers.
    pub x87: bool,
    /// Saves the x87's environment: with it the last instruction, which is one of ours.
    pub environment: bool,
    pub operand: Option<Operand>,
}

/// An instruction's operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub size: u16,
    /// Bytes of one element, of those that a mask chooses from.
    pub element: u8,
    pub reads: bool,
    pub writes: bool,
    /// Elements of the registers, which a mask chooses from where they are not those in memory.
    pub lanes: u8,
    pub alignment: Alignment,
    pub mask: Mask,
}

/// Where an operand in memory may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    Any,
    /// At a multiple of its size.
    Needed,
    /// The manuals say so, and not all processors do.
    Unknown,
}

/// What chooses elements of an operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    Whole,
    /// A mask register. `exact`: elements that it does not choose are not accessed, and those it does are in place.
    Register {
        number: u8,
        exact: bool,
    },
    /// As many elements from the first on as bits are set.
    Packed {
        number: u8,
    },
    /// The highest bits of a vector register's elements.
    Vector {
        number: u8,
    },
}

/// The instruction with another register in the place of the stack pointer, which is ours, and that register's number.
pub fn without_stack(i: &Instruction) -> (Instruction, Option<u8>) {
    let registers = || (0..i.op_count()).filter(|&n| i.op_kind(n) == OpKind::Register).map(|n| (n, i.op_register(n)));
    let is_stack = |r: Register| r.is_gpr() && r.full_register() == Register::RSP;
    if !registers().any(|(_, r)| is_stack(r)) {
        return (*i, None);
    }
    // No operand that is not named is one of these.
    let free = (8..16).find(|&n| registers().all(|(_, r)| !r.is_gpr() || r.full_register().number() != n)).unwrap_or(8);
    let mut other = *i;
    for (n, register) in registers().filter(|&(_, r)| is_stack(r)) {
        let first = match register.size() {
            1 => Register::R8L,
            2 => Register::R8W,
            4 => Register::R8D,
            _ => Register::R8,
        };
        other.set_op_register(n, first + (free as u32 - 8));
    }
    (other, Some(free as u8))
}

/// What is needed to execute the instruction natively; none: it must not be.
pub fn needs(i: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Needs> {
    if refused(i) {
        return None;
    }
    // With the address's registers out of the way: it is replaced by one of ours.
    let mut plain = *i;
    let explicit = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    if explicit {
        plain.set_memory_base(Register::RSP);
        plain.set_memory_index(Register::None);
    }
    let info = factory.info(&plain);
    let features = i.cpuid_features();
    let mut needs = Needs {
        general: 0,
        vectors: 0,
        masks: 0,
        stack: None,
        writes_general: 0,
        writes_vectors: 0,
        writes_masks: 0,
        takes_flags: i.rflags_read() != 0 || i.rflags_modified() != 0,
        gives_flags: i.rflags_modified() != 0,
        control: uses_control(i.mnemonic()),
        x87: features
            .iter()
            .any(|f| matches!(f, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387 | CpuidFeature::MMX))
            || i.mnemonic() == Mnemonic::Wait,
        environment: matches!(i.mnemonic(), Mnemonic::Fnstenv | Mnemonic::Fstenv | Mnemonic::Fnsave | Mnemonic::Fsave),
        operand: None,
    };
    for used in info.used_registers() {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        let register = used.register();
        let writes = matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite);
        let number = register.number();
        if register.is_vector_register() {
            needs.vectors |= 1 << number;
            needs.writes_vectors |= if writes { 1 << number } else { 0 };
        } else if register.is_k() {
            needs.masks |= 1 << number;
            needs.writes_masks |= if writes { 1 << number } else { 0 };
        } else if register.is_gpr() {
            let number = register.full_register().number();
            if register.full_register() == Register::RSP {
                continue;
            }
            needs.general |= 1 << number;
            needs.writes_general |= if writes { 1 << number } else { 0 };
        } else if register.is_st() || register.is_mm() {
            needs.x87 = true;
        } else if !register.is_segment_register() || writes {
            return None;
        }
    }
    let memory = info.used_memory();
    if memory.len() != usize::from(explicit) {
        // An operand in memory that is not accessed is an address; of the others, more is touched than is named.
        return None;
    }
    if explicit {
        let access = memory[0].access();
        use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
        let size = i.memory_size().size();
        if size == 0 || size > 128 {
            return None;
        }
        needs.operand = Some(Operand {
            size: size as u16,
            element: i.memory_size().element_size() as u8,
            reads: matches!(access, Read | CondRead | ReadWrite | ReadCondWrite),
            writes: matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite),
            lanes: lanes(i),
            alignment: alignment(i, size),
            mask: mask(i),
        });
    }
    Some(needs)
}

/// Instructions that must not be executed in our process, or would not do there what they do in the thread's.
fn refused(i: &Instruction) -> bool {
    use Mnemonic as M;
    let operands = (0..i.op_count()).all(|n| match i.op_kind(n) {
        OpKind::Register => {
            let r = i.op_register(n);
            // The stack is ours; see `without_stack`.
            (r.is_gpr() && r.full_register() != Register::RSP)
                || r.is_vector_register()
                || r.is_k()
                || r.is_st()
                || r.is_mm()
        }
        OpKind::Memory => !i.is_vsib(),
        OpKind::Immediate8 | OpKind::Immediate16 | OpKind::Immediate32 | OpKind::Immediate64 => true,
        OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate32to64 => true,
        _ => false,
    });
    let system = i.is_privileged()
        || i.is_stack_instruction()
        || i.is_string_instruction()
        || i.is_save_restore_instruction()
        || i.flow_control() != iced_x86::FlowControl::Next;
    // Divisions fault by their operands. The others read or write system state, or more memory than they name.
    let listed = matches!(
        i.mnemonic(),
        M::Div
            | M::Idiv
            | M::Sldt
            | M::Str
            | M::Sgdt
            | M::Sidt
            | M::Smsw
            | M::Lar
            | M::Lsl
            | M::Verr
            | M::Verw
            | M::Rdpmc
            | M::Rdpkru
            | M::Wrpkru
            | M::Rdpru
            | M::Xlatb
            | M::Enqcmd
            | M::Movdir64b
            | M::Monitorx
            | M::Mwaitx
            | M::Umonitor
            | M::Umwait
            | M::Tpause
            | M::Clzero
            | M::Enter
    );
    // A bit of memory by its number in a register may be anywhere.
    let far_bit = matches!(i.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && i.op0_kind() == OpKind::Memory
        && i.op1_kind() == OpKind::Register;
    // Of the oldest instructions, which include all that have to do with segments, only these.
    let is_old = i.cpuid_features().iter().all(|f| {
        use CpuidFeature as F;
        matches!(f, F::INTEL8086 | F::INTEL186 | F::INTEL286 | F::INTEL386 | F::INTEL486 | F::X64)
    });
    let arithmetic = usual(i).is_some()
        || i.is_setcc()
        || matches!(
            i.mnemonic(),
            M::Wait
                | M::Rcl
                | M::Rcr
                | M::Bswap
                | M::Lea
                | M::Movzx
                | M::Movsx
                | M::Movsxd
                | M::Cbw
                | M::Cwde
                | M::Cdqe
                | M::Cwd
                | M::Cdq
                | M::Cqo
                | M::Clc
                | M::Stc
                | M::Cmc
                | M::Lahf
                | M::Sahf
        );
    !operands || system || listed || far_bit || is_old && !arithmetic
}

fn alignment(i: &Instruction, size: usize) -> Alignment {
    use Mnemonic as M;
    let needed = match i.encoding() {
        EncodingKind::Legacy => {
            let anywhere = matches!(
                i.mnemonic(),
                M::Movups
                    | M::Movupd
                    | M::Movdqu
                    | M::Lddqu
                    | M::Pcmpestri
                    | M::Pcmpestrm
                    | M::Pcmpistri
                    | M::Pcmpistrm
            );
            size == 16 && !anywhere
        }
        _ => matches!(
            i.mnemonic(),
            M::Vmovaps
                | M::Vmovapd
                | M::Vmovdqa
                | M::Vmovdqa32
                | M::Vmovdqa64
                | M::Vmovntps
                | M::Vmovntpd
                | M::Vmovntdq
                | M::Vmovntdqa
        ),
    };
    let lax = i.cpuid_features().contains(&CpuidFeature::SHA);
    match (needed, lax) {
        (false, _) => Alignment::Any,
        (true, false) => Alignment::Needed,
        (true, true) => Alignment::Unknown,
    }
}

/// Elements of the widest register; those that a mask of the instruction has bits for, or some more.
fn lanes(i: &Instruction) -> u8 {
    let name = format!("{:?}", i.mnemonic());
    if ["ss", "sd", "sh"].iter().any(|end| name.ends_with(end)) && i.memory_size().element_count() == 1 {
        return 1;
    }
    let registers = (0..i.op_count()).filter(|&n| i.op_kind(n) == OpKind::Register).map(|n| i.op_register(n));
    let widest = registers.filter(|r| r.is_vector_register()).map(|r| r.size()).max().unwrap_or(64);
    (widest / i.memory_size().element_size().max(1)) as u8
}

fn mask(i: &Instruction) -> Mask {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq => {
            return Mask::Vector { number: i.op1_register().number() as u8 };
        }
        _ => {}
    }
    if i.op_mask() == Register::None || i.encoding() != EncodingKind::EVEX {
        return Mask::Whole;
    }
    let number = i.op_mask().number() as u8;
    match i.mnemonic() {
        M::Vpcompressb | M::Vpcompressw | M::Vpcompressd | M::Vpcompressq | M::Vcompressps | M::Vcompresspd => {
            Mask::Packed { number }
        }
        M::Vpexpandb | M::Vpexpandw | M::Vpexpandd | M::Vpexpandq | M::Vexpandps | M::Vexpandpd => {
            Mask::Packed { number }
        }
        M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 | M::Vmovdqu64 | M::Vmovups | M::Vmovupd | M::Vmovss | M::Vmovsd => {
            Mask::Register { number, exact: true }
        }
        M::Vmovdqa32 | M::Vmovdqa64 | M::Vmovaps | M::Vmovapd => Mask::Register { number, exact: true },
        _ => Mask::Register { number, exact: false },
    }
}

/// True if MXCSR may matter. Moves, integers, logic and permutations do without it; in doubt it does.
fn uses_control(mnemonic: Mnemonic) -> bool {
    const WITHOUT: [&str; 30] = [
        "P",
        "Vp",
        "Mov",
        "Vmov",
        "And",
        "Vand",
        "Or",
        "Vor",
        "Xor",
        "Vxor",
        "Shuf",
        "Vshuf",
        "Unpck",
        "Vunpck",
        "Vbroadcast",
        "Vextract",
        "Vinsert",
        "Insert",
        "Extract",
        "K",
        "Aes",
        "Vaes",
        "Sha",
        "Blend",
        "Vblend",
        "Lddqu",
        "Vlddqu",
        "Vcompress",
        "Vexpand",
        "Valign",
    ];
    let name = format!("{mnemonic:?}");
    !WITHOUT.iter().any(|start| name.starts_with(start)) && !INTEGER.contains(&mnemonic)
}

/// Instructions on general registers alone, which may come here too.
const INTEGER: [Mnemonic; 24] = {
    use Mnemonic as M;
    [
        M::Andn,
        M::Bextr,
        M::Blsi,
        M::Blsmsk,
        M::Blsr,
        M::Bzhi,
        M::Mulx,
        M::Adcx,
        M::Adox,
        M::Crc32,
        M::Bswap,
        M::Rdrand,
        M::Rdseed,
        M::Rdpid,
        M::Add,
        M::Adc,
        M::Sub,
        M::Sbb,
        M::Cmp,
        M::Test,
        M::Imul,
        M::Mul,
        M::Shl,
        M::Shr,
    ]
};
