//! Code that executes one instruction with the thread's registers.
//!
//! ```text
//!   rdi: the context          mov  base, rdi              a register that the instruction does without
//!                             load what it reads or writes: vector, mask, x87 registers, MXCSR, flags, general registers
//!                             the instruction; its operand in memory is the context's scratch
//!                             save what it writes
//!                             ret
//! ```

use std::arch::asm;
use std::mem::offset_of;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, OpKind, Register};

use crate::context::Context;
use crate::harmless::Needs;
use crate::op::RSP;
use crate::state::Layout;

const GENERAL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Registers that may hold the context, best first: an instruction with the second byte of a register cannot name a later one.
const BASES: [usize; 15] = [7, 6, 3, 5, 1, 2, 0, 8, 9, 10, 11, 12, 13, 14, 15];

/// How much of a vector register is loaded and saved.
#[derive(Clone, Copy)]
enum Width {
    Xmm,
    Ymm,
    Zmm,
}

impl Width {
    /// All that the processor has.
    fn get() -> Self {
        let layout = Layout::get();
        if layout.has_avx512() {
            Self::Zmm
        } else if layout.upper_128.is_some() {
            Self::Ymm
        } else {
            Self::Xmm
        }
    }

    fn load(self) -> (Code, Register) {
        match self {
            Self::Xmm => (Code::Movups_xmm_xmmm128, Register::XMM0),
            Self::Ymm => (Code::VEX_Vmovdqu_ymm_ymmm256, Register::YMM0),
            Self::Zmm => (Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, Register::ZMM0),
        }
    }

    fn save(self) -> Code {
        match self {
            Self::Xmm => Code::Movups_xmmm128_xmm,
            Self::Ymm => Code::VEX_Vmovdqu_ymmm256_ymm,
            Self::Zmm => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        }
    }
}

struct Writer {
    encoder: Encoder,
    base: Register,
}

impl Writer {
    fn put(&mut self, i: &Instruction) -> Option<()> {
        self.encoder.encode(i, 0).ok().map(|_| ())
    }

    fn at(&self, offset: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(self.base, offset as i64, 1)
    }

    fn memory(&mut self, code: Code, offset: usize) -> Option<()> {
        let i = Instruction::with1(code, self.at(offset)).ok()?;
        self.put(&i)
    }

    fn load(&mut self, code: Code, register: Register, offset: usize) -> Option<()> {
        let i = Instruction::with2(code, register, self.at(offset)).ok()?;
        self.put(&i)
    }

    fn save(&mut self, code: Code, offset: usize, register: Register) -> Option<()> {
        let i = Instruction::with2(code, self.at(offset), register).ok()?;
        self.put(&i)
    }

    fn plain(&mut self, code: Code) -> Option<()> {
        self.put(&Instruction::with(code))
    }

    /// Only the x87 registers of an area in the format of XSAVE.
    fn x87(&mut self, code: Code) -> Option<()> {
        self.put(&Instruction::with2(Code::Mov_r32_imm32, Register::EAX, 1_u32).ok()?)?;
        self.put(&Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX).ok()?)?;
        self.memory(code, offset_of!(Context, x87))
    }
}

fn bits(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |n| mask >> n & 1 == 1)
}

/// Code for the instruction; none: it cannot be written.
pub fn write(instruction: &Instruction, needs: &Needs) -> Option<Vec<u8>> {
    // x87 registers are loaded and saved by way of rax and rdx.
    let taken = needs.general | if needs.x87 { 0b101 } else { 0 };
    let base = BASES.into_iter().find(|&n| taken >> n & 1 == 0)?;
    let mut w = Writer { encoder: Encoder::new(64), base: GENERAL[base] };
    if base != 7 {
        w.put(&Instruction::with2(Code::Mov_r64_rm64, w.base, Register::RDI).ok()?)?;
    }
    load(&mut w, needs)?;
    w.put(&replaced(instruction, w.base))?;
    save(&mut w, needs)?;
    w.plain(Code::Retnq)?;
    Some(w.encoder.take_buffer())
}

/// The instruction with its operand in memory moved to the scratch.
fn replaced(instruction: &Instruction, base: Register) -> Instruction {
    let mut i = *instruction;
    if (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory) {
        i.set_memory_base(base);
        i.set_memory_index(Register::None);
        i.set_memory_index_scale(1);
        i.set_memory_displacement64(offset_of!(Context, scratch) as u64);
        i.set_memory_displ_size(1);
        i.set_segment_prefix(Register::None);
    }
    i
}

/// Where the context has what a general register is loaded with.
fn place(needs: &Needs, n: usize) -> usize {
    let stack = needs.stack.is_some_and(|stack| usize::from(stack) == n);
    offset_of!(Context, general) + 8 * if stack { RSP } else { n }
}

fn load(w: &mut Writer, needs: &Needs) -> Option<()> {
    let (code, first) = Width::get().load();
    for n in bits(needs.vectors) {
        w.load(code, first + n as u32, offset_of!(Context, vectors) + 64 * n)?;
    }
    for n in bits(u32::from(needs.masks)) {
        w.load(mask_codes().0, Register::K0 + n as u32, offset_of!(Context, masks) + 8 * n)?;
    }
    if needs.x87 {
        w.memory(Code::Fnstcw_m2byte, offset_of!(Context, host_control))?;
        w.x87(Code::Xrstor64_mem)?;
    }
    if needs.control {
        w.memory(Code::Stmxcsr_m32, offset_of!(Context, host_mxcsr))?;
        w.memory(Code::Ldmxcsr_m32, offset_of!(Context, mxcsr))?;
    }
    if needs.takes_flags {
        w.memory(Code::Push_rm64, offset_of!(Context, flags))?;
        w.plain(Code::Popfq)?;
    }
    for n in bits(u32::from(needs.general)) {
        w.load(Code::Mov_r64_rm64, GENERAL[n], place(needs, n))?;
    }
    Some(())
}

fn save(w: &mut Writer, needs: &Needs) -> Option<()> {
    for n in bits(u32::from(needs.writes_general)) {
        w.save(Code::Mov_rm64_r64, place(needs, n), GENERAL[n])?;
    }
    if needs.gives_flags {
        w.plain(Code::Pushfq)?;
        w.memory(Code::Pop_rm64, offset_of!(Context, flags))?;
    }
    if needs.control {
        w.memory(Code::Stmxcsr_m32, offset_of!(Context, mxcsr))?;
        w.memory(Code::Ldmxcsr_m32, offset_of!(Context, host_mxcsr))?;
    }
    if needs.x87 {
        w.x87(Code::Xsave64_mem)?;
        // Nothing of it is left for us, neither values nor sticky exceptions.
        w.plain(Code::Fninit)?;
        w.memory(Code::Fldcw_m2byte, offset_of!(Context, host_control))?;
    }
    let (code, (_, first)) = (Width::get().save(), Width::get().load());
    for n in bits(needs.writes_vectors) {
        w.save(code, offset_of!(Context, vectors) + 64 * n, first + n as u32)?;
    }
    for n in bits(u32::from(needs.writes_masks)) {
        w.save(mask_codes().1, offset_of!(Context, masks) + 8 * n, Register::K0 + n as u32)?;
    }
    if needs.vectors != 0 && !matches!(Width::get(), Width::Xmm) {
        w.plain(Code::VEX_Vzeroupper)?;
    }
    Some(())
}

/// Of 64 bits where the processor has masks that long; else of the 16 that there are.
fn mask_codes() -> (Code, Code) {
    let wide = std::arch::is_x86_feature_detected!("avx512bw");
    if wide {
        (Code::VEX_Kmovq_kr_km64, Code::VEX_Kmovq_m64_kr)
    } else {
        (Code::VEX_Kmovw_kr_km16, Code::VEX_Kmovw_m16_kr)
    }
}

/// Executes code that [`write`] has written.
///
/// # Safety
/// `entry` must be where such code is, in memory that may be executed, and the code's instruction must be one that
/// [`crate::harmless::needs`] has taken. What it may fault for (unmasked exceptions) must not be in the context.
#[inline(always)]
pub unsafe fn call(entry: *const u8, context: &mut Context) {
    // SAFETY: the code changes the context, registers that are declared, and rbx and rbp, which are kept here since they
    // cannot be; it leaves the stack, MXCSR, the x87 control word and the direction flag as they were.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "call rax",
            "pop rbp",
            "pop rbx",
            inout("rax") entry => _,
            inout("rdi") std::ptr::from_mut(context) => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}
