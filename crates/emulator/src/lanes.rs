//! Gathers and scatters: each active lane of a vector of indices is an access of its own.

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind};

use crate::decode::segment;
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{NO_REGISTER, Op, Segment};
use crate::runner::Runner;
use crate::stop::Stop;

/// What chooses lanes, and is all zero afterwards.
#[derive(Clone, Copy, Debug)]
enum Chooses {
    Mask(usize),
    Vector(usize),
}

/// One gather or scatter.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    scatter: bool,
    count: usize,
    /// Bytes of an element and of an index.
    element: usize,
    index: usize,
    base: usize,
    indices: usize,
    scale: u64,
    displacement: u64,
    segment: Segment,
    register: usize,
    chooses: Chooses,
}

impl Lanes {
    /// None: it is no gather or scatter, or has an address of 32 bits.
    pub fn of(i: &Instruction) -> Option<Self> {
        use Mnemonic as M;
        let (scatter, index, element) = match i.mnemonic() {
            M::Vpgatherdd | M::Vgatherdps => (false, 4, 4),
            M::Vpgatherdq | M::Vgatherdpd => (false, 4, 8),
            M::Vpgatherqd | M::Vgatherqps => (false, 8, 4),
            M::Vpgatherqq | M::Vgatherqpd => (false, 8, 8),
            M::Vpscatterdd | M::Vscatterdps => (true, 4, 4),
            M::Vpscatterdq | M::Vscatterdpd => (true, 4, 8),
            M::Vpscatterqd | M::Vscatterqps => (true, 8, 4),
            M::Vpscatterqq | M::Vscatterqpd => (true, 8, 8),
            _ => return None,
        };
        let register = i.op_register(u32::from(scatter));
        let (base, indices) = (i.memory_base(), i.memory_index());
        if i.op_kind(u32::from(!scatter)) != OpKind::Memory || !indices.is_vector_register() || base.is_gpr32() {
            return None;
        }
        let chooses = match i.encoding() {
            EncodingKind::EVEX => Chooses::Mask(i.op_mask().number()),
            _ => Chooses::Vector(i.op2_register().number()),
        };
        Some(Self {
            scatter,
            count: (register.size() / element).min(indices.size() / index),
            element,
            index,
            base: if base.is_gpr64() { base.number() } else { usize::from(NO_REGISTER) },
            indices: indices.number(),
            scale: u64::from(i.memory_index_scale()),
            displacement: i.memory_displacement64(),
            segment: segment(i),
            register: register.number(),
            chooses,
        })
    }
}

fn element(register: &[u8; 64], n: usize, width: usize) -> u64 {
    let bytes = &register[n * width..(n + 1) * width];
    match width {
        4 => u64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes"))),
        _ => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
    }
}

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// Executes: all of it, or nothing where a lane cannot be accessed.
    #[inline(never)]
    pub fn lanes(&mut self, op: &Op, l: &Lanes) -> Result<(), Stop> {
        let base = self.general(l.base).wrapping_add(l.displacement).wrapping_add(self.segment_base(l.segment));
        let indices = self.context.vectors[l.indices].0;
        let active = |n: usize| match l.chooses {
            Chooses::Mask(k) => self.context.masks[k] >> n & 1 == 1,
            Chooses::Vector(v) => self.context.vectors[v].0[(n + 1) * l.element - 1] >> 7 == 1,
        };
        let address = |n: usize| {
            let index = element(&indices, n, l.index);
            let index = if l.index == 4 { index as i32 as u64 } else { index };
            base.wrapping_add(index.wrapping_mul(l.scale))
        };
        let (mut to, mut count) = ([(0, 0); 16], 0);
        for n in (0..l.count).filter(|&n| active(n)) {
            to[count] = (n, address(n));
            count += 1;
        }
        let mut register = self.context.vectors[l.register].0;
        let width = l.element as u8;
        for &(n, address) in &to[..count] {
            if l.scatter {
                self.space.check_write(self.memory, address, l.element)?;
            } else {
                let value = self.space.load(self.memory, address, width)?.to_le_bytes();
                register[n * l.element..(n + 1) * l.element].copy_from_slice(&value[..l.element]);
            }
        }
        for &(n, address) in &to[..count] {
            if l.scatter {
                self.space.store(self.memory, address, width, element(&register, n, l.element))?;
            }
            self.tell(op, address, u32::from(width), l.scatter);
        }
        if !l.scatter {
            register[l.count * l.element..].fill(0);
            self.context.vectors[l.register].0 = register;
        }
        match l.chooses {
            Chooses::Mask(k) => self.context.masks[k] = 0,
            Chooses::Vector(v) => self.context.vectors[v].0 = [0; 64],
        }
        Ok(())
    }
}
