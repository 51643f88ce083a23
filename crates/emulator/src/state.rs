//! A thread's registers, as ptrace gives and takes them.

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use crate::emulator::Place;

/// Bytes of [`Extended`]: enough for AVX-512 where either maker's processors put it. What may follow (keys, tiles) is not kept.
pub const EXTENDED_BYTES: usize = 2816;

/// x87, SSE, AVX and AVX-512 registers in the standard format of XSAVE, as `PTRACE_GETREGSET` gives them for `NT_X86_XSTATE`.
#[derive(Clone, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Extended(pub [u8; EXTENDED_BYTES]);

/// Registers of a thread in user mode.
#[derive(Clone, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// In the processor's numbering: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub general: [u64; 16],
    /// The next instruction.
    pub ip: u64,
    /// All flags.
    pub flags: u64,
    /// Where the segment fs begins: the thread's own variables.
    pub fs_base: u64,
    /// Where the segment gs begins.
    pub gs_base: u64,
    /// All other registers.
    pub extended: Extended,
}

/// Where the standard format has what, in bytes; none: the processor or the kernel does without.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    /// Components that are enabled.
    pub enabled: u64,
    pub upper_128: Option<usize>,
    pub masks: Option<usize>,
    pub upper_256: Option<usize>,
    pub upper_registers: Option<usize>,
}

pub(crate) const X87: u64 = 1;
pub(crate) const SSE: u64 = 2;
pub(crate) const AVX: u64 = 4;
pub(crate) const AVX512: u64 = 0xe0;

/// Bytes of the part that FXSAVE knows, and of the header behind it.
pub(crate) const LEGACY: usize = 512;
pub(crate) const HEADER: usize = 64;
pub(crate) const CONTROL_AT: usize = 0;
pub(crate) const MXCSR_AT: usize = 24;
pub(crate) const XMM_AT: usize = 160;

/// What they are after a reset, and in every new thread.
pub(crate) const INITIAL_CONTROL: u16 = 0x37f;
pub(crate) const INITIAL_MXCSR: u32 = 0x1f80;

impl Layout {
    pub fn get() -> &'static Self {
        static LAYOUT: OnceLock<Layout> = OnceLock::new();
        LAYOUT.get_or_init(Self::read)
    }

    fn read() -> Self {
        let enabled = super::features::enabled_components();
        let at = |component: u32| {
            let (leaf, size) = (__cpuid_count(0xd, component), __cpuid_count(0xd, component).eax as usize);
            let at = leaf.ebx as usize;
            (enabled >> component & 1 == 1 && size > 0 && at + size <= EXTENDED_BYTES).then_some(at)
        };
        Self { enabled, upper_128: at(2), masks: at(5), upper_256: at(6), upper_registers: at(7) }
    }

    pub fn has_avx512(&self) -> bool {
        self.masks.is_some() && self.upper_256.is_some() && self.upper_registers.is_some()
    }
}

impl Extended {
    /// Registers of a new thread.
    pub const fn new() -> Self {
        let mut bytes = [0; EXTENDED_BYTES];
        let (control, mxcsr) = (INITIAL_CONTROL.to_le_bytes(), INITIAL_MXCSR.to_le_bytes());
        bytes[CONTROL_AT] = control[0];
        bytes[CONTROL_AT + 1] = control[1];
        bytes[MXCSR_AT] = mxcsr[0];
        bytes[MXCSR_AT + 1] = mxcsr[1];
        Self(bytes)
    }

    pub(crate) fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Components that are not as in a new thread (`XSTATE_BV`).
    pub(crate) fn in_use(&self) -> u64 {
        self.u64_at(LEGACY)
    }

    /// Vector register `n` of 0 to 31, whole; what the processor lacks is zero.
    pub fn vector(&self, n: usize) -> [u8; 64] {
        let (layout, used) = (Layout::get(), self.in_use());
        let mut all = [0; 64];
        let mut part = |to: usize, component: u64, at: Option<usize>, length: usize| {
            if let Some(at) = at
                && used & component != 0
            {
                all[to..to + length].copy_from_slice(&self.0[at..at + length]);
            }
        };
        if n < 16 {
            part(0, SSE, Some(XMM_AT + 16 * n), 16);
            part(16, AVX, layout.upper_128.map(|at| at + 16 * n), 16);
            part(32, 0x40, layout.upper_256.map(|at| at + 32 * n), 32);
        } else {
            part(0, 0x80, layout.upper_registers.map(|at| at + 64 * (n - 16)), 64);
        }
        all
    }

    /// Mask register `n` of AVX-512.
    pub fn mask(&self, n: usize) -> u64 {
        match Layout::get().masks {
            Some(at) if self.in_use() & 0x20 != 0 => self.u64_at(at + 8 * n),
            _ => 0,
        }
    }

    /// The control and status register of SSE.
    pub fn mxcsr(&self) -> u32 {
        self.u64_at(MXCSR_AT) as u32
    }

    pub(crate) fn set_vector(&mut self, n: usize, all: &[u8; 64]) {
        let layout = Layout::get();
        let mut part = |from: usize, at: Option<usize>, length: usize| {
            if let Some(at) = at {
                self.0[at..at + length].copy_from_slice(&all[from..from + length]);
            }
        };
        if n < 16 {
            part(0, Some(XMM_AT + 16 * n), 16);
            part(16, layout.upper_128.map(|at| at + 16 * n), 16);
            part(32, layout.upper_256.map(|at| at + 32 * n), 32);
        } else {
            part(0, layout.upper_registers.map(|at| at + 64 * (n - 16)), 64);
        }
    }

    pub(crate) fn set_mask(&mut self, n: usize, mask: u64) {
        if let Some(at) = Layout::get().masks {
            self.0[at + 8 * n..at + 8 * n + 8].copy_from_slice(&mask.to_le_bytes());
        }
    }
}

impl Default for Extended {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// All zero, but for what is not so in a new thread.
    pub const fn new() -> Self {
        Self { general: [0; 16], ip: 0, flags: 0x202, fs_base: 0, gs_base: 0, extended: Extended::new() }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place { ip: self.ip, general: self.general }
    }

    /// Takes over what `PTRACE_GETREGS` gave, and the bytes that `PTRACE_GETREGSET` gave for `NT_X86_XSTATE`.
    pub fn from_ptrace(registers: &libc::user_regs_struct, xsave: &[u8]) -> Self {
        let r = registers;
        let general = [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ];
        let mut state = Self::new();
        state.general = general;
        (state.ip, state.flags, state.fs_base, state.gs_base) = (r.rip, r.eflags, r.fs_base, r.gs_base);
        let length = xsave.len().min(EXTENDED_BYTES);
        state.extended.0[..length].copy_from_slice(&xsave[..length]);
        state
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
