//! All registers of the thread as code that is executed for it loads and saves them.

use crate::state::{
    CONTROL_AT, EXTENDED_BYTES, Extended, HEADER, INITIAL_CONTROL, INITIAL_MXCSR, LEGACY, Layout, MXCSR_AT, SSE, State,
    X87, XMM_AT,
};

/// Where an instruction's operand in memory is for the time of its execution.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Scratch(pub [u8; 256]);

/// One vector register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Vector(pub [u8; 64]);

/// The x87 registers, in the format of XSAVE.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct X87Area(pub [u8; LEGACY + HEADER]);

/// Offsets of its fields are parts of the code that is written for instructions (`stub.rs`).
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Context {
    /// Those behind the sixteen registers stay zero: a register that an address does without is one of them.
    pub general: [u64; 32],
    pub flags: u64,
    pub mxcsr: u32,
    pub host_mxcsr: u32,
    pub host_control: u16,
    pub fs_base: u64,
    pub gs_base: u64,
    pub scratch: Scratch,
    pub vectors: [Vector; 32],
    pub masks: [u64; 8],
    pub x87: X87Area,
}

impl Context {
    pub fn new() -> Self {
        Self {
            general: [0; 32],
            flags: 0,
            mxcsr: INITIAL_MXCSR,
            host_mxcsr: 0,
            host_control: 0,
            fs_base: 0,
            gs_base: 0,
            scratch: Scratch([0; 256]),
            vectors: [Vector([0; 64]); 32],
            masks: [0; 8],
            x87: X87Area([0; LEGACY + HEADER]),
        }
    }

    /// Takes over a thread's registers. What XRSTOR would refuse is not taken over.
    pub fn load(&mut self, state: &State) {
        self.general[..16].copy_from_slice(&state.general);
        (self.fs_base, self.gs_base) = (state.fs_base, state.gs_base);
        self.load_extended(&state.extended, Layout::get().enabled);
    }

    /// Takes over `components` of the registers behind the general ones.
    pub fn load_extended(&mut self, from: &Extended, components: u64) {
        if components & (SSE | 4) != 0 {
            self.mxcsr = from.mxcsr() & mxcsr_mask();
        }
        let take = |bit: u64| components & bit != 0;
        for n in 0..32 {
            let all = from.vector(n);
            let to = &mut self.vectors[n].0;
            if n >= 16 {
                if take(0x80) {
                    *to = all;
                }
                continue;
            }
            for (bit, range) in [(SSE, 0..16), (4, 16..32), (0x40, 32..64)] {
                if take(bit) {
                    to[range.clone()].copy_from_slice(&all[range]);
                }
            }
        }
        if take(0x20) {
            for n in 0..8 {
                self.masks[n] = from.mask(n);
            }
        }
        if take(X87) {
            let area = &mut self.x87.0;
            area.fill(0);
            if from.in_use() & X87 != 0 {
                area[..XMM_AT].copy_from_slice(&from.0[..XMM_AT]);
            } else {
                area[CONTROL_AT..CONTROL_AT + 2].copy_from_slice(&INITIAL_CONTROL.to_le_bytes());
            }
            area[MXCSR_AT..MXCSR_AT + 4].copy_from_slice(&INITIAL_MXCSR.to_le_bytes());
            area[LEGACY] = X87 as u8;
        }
    }

    /// Gives the thread's registers, but for the next instruction and the flags.
    pub fn store(&self, state: &mut State) {
        state.general.copy_from_slice(&self.general[..16]);
        (state.fs_base, state.gs_base) = (self.fs_base, self.gs_base);
        self.store_extended(&mut state.extended);
    }

    pub fn store_extended(&self, to: &mut Extended) {
        let mask = to.0[MXCSR_AT + 4..MXCSR_AT + 8].to_vec();
        to.0[..XMM_AT].copy_from_slice(&self.x87.0[..XMM_AT]);
        to.0[MXCSR_AT..MXCSR_AT + 4].copy_from_slice(&self.mxcsr.to_le_bytes());
        to.0[MXCSR_AT + 4..MXCSR_AT + 8].copy_from_slice(&mask);
        for (n, vector) in self.vectors.iter().enumerate() {
            to.set_vector(n, &vector.0);
        }
        for (n, mask) in self.masks.iter().enumerate() {
            to.set_mask(n, *mask);
        }
        let stored = Layout::get().enabled & 0xe7;
        let used = to.in_use() | stored;
        to.0[LEGACY..LEGACY + 8].copy_from_slice(&used.to_le_bytes());
    }

    /// The x87 control word.
    pub fn control(&self) -> u16 {
        u16::from_le_bytes([self.x87.0[CONTROL_AT], self.x87.0[CONTROL_AT + 1]])
    }
}

/// Bits of MXCSR that this processor lets be set.
pub fn mxcsr_mask() -> u32 {
    use std::sync::OnceLock;
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        let mut area = Extended([0; EXTENDED_BYTES]);
        // SAFETY: the area is aligned and longer than the 512 bytes that are written.
        unsafe { std::arch::x86_64::_fxsave64(area.0.as_mut_ptr()) };
        let mask = u32::from_le_bytes(area.0[28..32].try_into().expect("four bytes"));
        // Where it is zero it stands for this one.
        if mask == 0 { 0xffbf } else { mask }
    })
}
