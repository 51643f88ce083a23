//! Executes what reads or writes registers that are neither general nor operands: control registers, segment bases, the clock.

use std::arch::x86_64::{__cpuid_count, __rdtscp, _rdtsc};

use crate::context::mxcsr_mask;
use crate::features::enabled_components;
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Kind, Op, RAX, RBX, RCX, RDX, Segment};
use crate::runner::Runner;
use crate::stop::{Fault, Stop};

impl<M: Memory + ?Sized, O: Observer + ?Sized> Runner<'_, M, O> {
    /// Executes; false if the instruction is not one of these.
    #[inline(never)]
    pub fn special(&mut self, op: &Op) -> Result<bool, Stop> {
        let half = u64::from(u32::MAX);
        match op.kind {
            Kind::ClearUpper => self.context.vectors[..16].iter_mut().for_each(|v| v.0[16..].fill(0)),
            Kind::ClearAll => self.context.vectors[..16].iter_mut().for_each(|v| v.0.fill(0)),
            Kind::LoadControl => {
                let address = self.address(op);
                let new = self.space.load(self.memory, address, 4)? as u32;
                if new & !mxcsr_mask() != 0 {
                    return Err(Stop::Fault(Fault::General));
                }
                self.tell(op, address, 4, false);
                self.context.mxcsr = new;
            }
            Kind::StoreControl => {
                let value = u64::from(self.context.mxcsr);
                self.write(op, op.a, 4, value)?;
            }
            Kind::ReadBase(segment) => {
                let base = self.segment_base(segment);
                self.set_register(op.a, op.width, base);
            }
            Kind::WriteBase(segment) => {
                let value = self.register(op.a) & if op.width == 4 { half } else { u64::MAX };
                // The kernel's half is refused too late for the instruction, but never of use.
                if value >> 56 != 0 {
                    return Err(Stop::Fault(Fault::General));
                }
                match segment {
                    Segment::Fs => self.context.fs_base = value,
                    _ => self.context.gs_base = value,
                }
            }
            Kind::Identify => {
                let answer = __cpuid_count(self.general(RAX) as u32, self.general(RCX) as u32);
                let words = [(RAX, answer.eax), (RBX, answer.ebx), (RCX, answer.ecx), (RDX, answer.edx)];
                for (register, word) in words {
                    self.context.general[register] = u64::from(word);
                }
            }
            Kind::ReadTime => {
                let mut processor = 0;
                // SAFETY: the processor has the instruction (`features::has`), and programs may execute it: this one just did.
                let time = unsafe { if op.narrow == 1 { __rdtscp(&raw mut processor) } else { _rdtsc() } };
                self.context.general[RAX] = time & half;
                self.context.general[RDX] = time >> 32;
                if op.narrow == 1 {
                    self.context.general[RCX] = u64::from(processor);
                }
            }
            Kind::ReadComponents => {
                // Of the other register that there may be, the value is the thread's own.
                if self.general(RCX) as u32 != 0 {
                    return Err(Stop::Fault(Fault::General));
                }
                let components = enabled_components();
                self.context.general[RAX] = components & half;
                self.context.general[RDX] = components >> 32;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
