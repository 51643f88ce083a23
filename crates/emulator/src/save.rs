//! Executes what saves and restores all registers at once: the loader does so round the resolution of a symbol.
//!
//! Which components a save leaves out because they are as in a new thread is the processor's own business; here it is those
//! that are.

use std::arch::x86_64::__cpuid_count;

use crate::context::mxcsr_mask;
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Op, RAX, RDX, Save};
use crate::runner::Runner;
use crate::state::{EXTENDED_BYTES, Extended, HEADER, LEGACY, Layout, MXCSR_AT, SSE, X87, XMM_AT};
use crate::stop::{Fault, Stop, Unsupported};

const AVX: u64 = 4;
const COMPACTED: u64 = 1 << 63;
/// All components that are kept.
const KEPT: u64 = 0xe7;
const FIRST_EXTENDED: u32 = 2;

/// Where a component is in the standard format, where in this image, and how long it is.
struct Part {
    bit: u64,
    standard: usize,
    here: usize,
    length: usize,
}

/// The parts behind the header. In the compacted format they follow each other.
fn parts(components: u64, compacted: bool) -> Vec<Part> {
    let mut next = LEGACY + HEADER;
    let mut parts = Vec::new();
    for n in (FIRST_EXTENDED..63).filter(|n| components >> n & 1 == 1) {
        let leaf = __cpuid_count(0xd, n);
        let (length, standard) = (leaf.eax as usize, leaf.ebx as usize);
        if leaf.ecx >> 1 & 1 == 1 {
            next = next.next_multiple_of(64);
        }
        parts.push(Part { bit: 1 << n, standard, here: if compacted { next } else { standard }, length });
        next += length;
    }
    parts
}

/// Those of the components that are not as in a new thread.
fn in_use(image: &Extended) -> u64 {
    let new = Extended::new();
    let differs = |from: usize, to: usize| image.0[from..to] != new.0[from..to];
    let x87 = differs(0, 8) || differs(32, XMM_AT);
    let sse = differs(XMM_AT, XMM_AT + 256) || differs(MXCSR_AT, MXCSR_AT + 4);
    let rest = parts(Layout::get().enabled & KEPT, false);
    let rest = rest.iter().filter(|p| differs(p.standard, p.standard + p.length)).fold(0, |all, p| all | p.bit);
    rest | if x87 { X87 } else { 0 } | if sse { SSE } else { 0 }
}

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// The components that are asked for.
    fn asked(&self, op: &Op, form: Save) -> Result<u64, Stop> {
        if form == Save::Legacy {
            return Ok(X87 | SSE);
        }
        let half = u64::from(u32::MAX);
        let asked = (self.general(RDX) << 32 | self.general(RAX) & half) & Layout::get().enabled;
        if asked & !KEPT == 0 {
            return Ok(asked);
        }
        Err(Stop::Unsupported(Unsupported::Instruction(op.mnemonic)))
    }

    fn area(&self, op: &Op, form: Save) -> Result<u64, Stop> {
        let (address, alignment) = (self.address(op), if form == Save::Legacy { 16 } else { 64 });
        if address % alignment == 0 { Ok(address) } else { Err(Stop::Fault(Fault::Misaligned)) }
    }

    #[inline(never)]
    pub fn save(&mut self, op: &Op, form: Save) -> Result<(), Stop> {
        let (address, asked) = (self.area(op, form)?, self.asked(op, form)?);
        let mut image = Extended::new();
        self.context.store_extended(&mut image);
        image.0[MXCSR_AT + 4..MXCSR_AT + 8].copy_from_slice(&mxcsr_mask().to_le_bytes());
        let used = in_use(&image);
        let sparing = matches!(form, Save::Compacted | Save::Optimised);
        let written = if sparing { asked & used } else { asked };
        let parts = parts(if form == Save::Legacy { 0 } else { asked }, form == Save::Compacted);
        let header = if form == Save::Legacy { 0 } else { HEADER };
        let length = parts.iter().map(|p| p.here + p.length).max().unwrap_or(LEGACY + header);
        self.space.check_write(self.memory, address, length)?;

        let mut put =
            |at: usize, bytes: &[u8]| self.space.copy_out(self.memory, address.wrapping_add(at as u64), bytes);
        if written & X87 != 0 {
            put(0, &image.0[..MXCSR_AT])?;
            put(32, &image.0[32..XMM_AT])?;
        }
        if written & SSE != 0 || asked & (SSE | AVX) != 0 && form != Save::Compacted {
            put(MXCSR_AT, &image.0[MXCSR_AT..MXCSR_AT + 8])?;
        }
        if written & SSE != 0 {
            put(XMM_AT, &image.0[XMM_AT..XMM_AT + 256])?;
        }
        for part in parts.iter().filter(|p| written & p.bit != 0) {
            put(part.here, &image.0[part.standard..part.standard + part.length])?;
        }
        match form {
            Save::Legacy => {}
            Save::Compacted => {
                put(LEGACY, &(used & asked).to_le_bytes())?;
                put(LEGACY + 8, &(COMPACTED | asked).to_le_bytes())?;
            }
            Save::Standard | Save::Optimised => {
                let at = address.wrapping_add(LEGACY as u64);
                let old = self.space.load(self.memory, at, 8)?;
                self.space.store(self.memory, at, 8, old & !asked | used & asked)?;
            }
        }
        self.tell(op, address, length as u32, true);
        Ok(())
    }

    #[inline(never)]
    pub fn restore(&mut self, op: &Op, form: Save) -> Result<(), Stop> {
        let (address, asked) = (self.area(op, form)?, self.asked(op, form)?);
        let mut image = Extended([0; EXTENDED_BYTES]);
        let mut get = |at: usize, to: &mut [u8]| self.space.copy_in(self.memory, address.wrapping_add(at as u64), to);
        let mut header = [0; HEADER];
        if form != Save::Legacy {
            get(LEGACY, &mut header)?;
        }
        let word = |n: usize| u64::from_le_bytes(header[8 * n..8 * n + 8].try_into().expect("eight bytes"));
        let (used, format) = if form == Save::Legacy { (X87 | SSE, 0) } else { (word(0), word(1)) };
        let compacted = format & COMPACTED != 0;
        let known = if compacted { format & !COMPACTED } else { Layout::get().enabled };
        let reserved = header[16..].iter().any(|&byte| byte != 0);
        if used & !known != 0 || known & !Layout::get().enabled != 0 || !compacted && format != 0 || reserved {
            return Err(Stop::Fault(Fault::General));
        }
        let taken = asked & used;
        get(0, &mut image.0[..LEGACY])?;
        let mut length = if form == Save::Legacy { LEGACY } else { LEGACY + HEADER };
        for part in parts(known, compacted).iter().filter(|p| taken & p.bit != 0) {
            get(part.here, &mut image.0[part.standard..part.standard + part.length])?;
            length = length.max(part.here + part.length);
        }
        let old = self.context.mxcsr;
        let stored = image.mxcsr();
        let new = match compacted {
            false if asked & (SSE | AVX) != 0 => stored,
            true if taken & SSE != 0 => stored,
            true if asked & SSE != 0 => crate::state::INITIAL_MXCSR,
            _ => old,
        };
        if new & !mxcsr_mask() != 0 {
            return Err(Stop::Fault(Fault::General));
        }
        image.0[MXCSR_AT..MXCSR_AT + 4].copy_from_slice(&new.to_le_bytes());
        image.0[LEGACY..LEGACY + 8].copy_from_slice(&taken.to_le_bytes());
        self.context.load_extended(&image, asked);
        self.tell(op, address, length as u32, false);
        Ok(())
    }
}
