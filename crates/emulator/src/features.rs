//! What this processor can execute.
//!
//! Code is executed in our own process for the thread, so an instruction that the processor lacks must be known beforehand. A
//! feature that is not in the list counts as lacking.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

use iced_x86::{CpuidFeature, Instruction};

use crate::state::{AVX, AVX512};

/// A register of what `cpuid` answers.
#[derive(Clone, Copy)]
enum Word {
    A,
    B,
    C,
    D,
}

/// What the kernel must save for a feature to be usable.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Avx,
    Avx512,
}

/// Leaf and part of it, register, bit.
const FEATURES: &[(CpuidFeature, u32, u32, Word, u32, Needs)] = {
    use CpuidFeature as F;
    use Needs::{Avx, Avx512, Nothing};
    use Word::{A, B, C, D};
    const MORE: u32 = 0x8000_0001;
    &[
        (F::FPU, 1, 0, D, 0, Nothing),
        (F::FPU287, 1, 0, D, 0, Nothing),
        (F::FPU387, 1, 0, D, 0, Nothing),
        (F::TSC, 1, 0, D, 4, Nothing),
        (F::CX8, 1, 0, D, 8, Nothing),
        (F::CMOV, 1, 0, D, 15, Nothing),
        (F::CLFSH, 1, 0, D, 19, Nothing),
        (F::MMX, 1, 0, D, 23, Nothing),
        (F::FXSR, 1, 0, D, 24, Nothing),
        (F::SSE, 1, 0, D, 25, Nothing),
        (F::SSE2, 1, 0, D, 26, Nothing),
        (F::SSE3, 1, 0, C, 0, Nothing),
        (F::PCLMULQDQ, 1, 0, C, 1, Nothing),
        (F::SSSE3, 1, 0, C, 9, Nothing),
        (F::FMA, 1, 0, C, 12, Avx),
        (F::CMPXCHG16B, 1, 0, C, 13, Nothing),
        (F::SSE4_1, 1, 0, C, 19, Nothing),
        (F::SSE4_2, 1, 0, C, 20, Nothing),
        (F::MOVBE, 1, 0, C, 22, Nothing),
        (F::POPCNT, 1, 0, C, 23, Nothing),
        (F::AES, 1, 0, C, 25, Nothing),
        (F::XSAVE, 1, 0, C, 27, Nothing),
        (F::AVX, 1, 0, C, 28, Avx),
        (F::F16C, 1, 0, C, 29, Avx),
        (F::RDRAND, 1, 0, C, 30, Nothing),
        (F::FSGSBASE, 7, 0, B, 0, Nothing),
        (F::BMI1, 7, 0, B, 3, Nothing),
        (F::AVX2, 7, 0, B, 5, Avx),
        (F::BMI2, 7, 0, B, 8, Nothing),
        (F::AVX512F, 7, 0, B, 16, Avx512),
        (F::AVX512DQ, 7, 0, B, 17, Avx512),
        (F::RDSEED, 7, 0, B, 18, Nothing),
        (F::ADX, 7, 0, B, 19, Nothing),
        (F::AVX512_IFMA, 7, 0, B, 21, Avx512),
        (F::CLFLUSHOPT, 7, 0, B, 23, Nothing),
        (F::CLWB, 7, 0, B, 24, Nothing),
        (F::AVX512CD, 7, 0, B, 28, Avx512),
        (F::SHA, 7, 0, B, 29, Nothing),
        (F::AVX512BW, 7, 0, B, 30, Avx512),
        (F::AVX512VL, 7, 0, B, 31, Avx512),
        (F::PREFETCHWT1, 7, 0, C, 0, Nothing),
        (F::AVX512_VBMI, 7, 0, C, 1, Avx512),
        (F::AVX512_VBMI2, 7, 0, C, 6, Avx512),
        (F::GFNI, 7, 0, C, 8, Nothing),
        (F::VAES, 7, 0, C, 9, Avx),
        (F::VPCLMULQDQ, 7, 0, C, 10, Avx),
        (F::AVX512_VNNI, 7, 0, C, 11, Avx512),
        (F::AVX512_BITALG, 7, 0, C, 12, Avx512),
        (F::AVX512_VPOPCNTDQ, 7, 0, C, 14, Avx512),
        (F::RDPID, 7, 0, C, 22, Nothing),
        (F::CLDEMOTE, 7, 0, C, 25, Nothing),
        (F::MOVDIRI, 7, 0, C, 27, Nothing),
        (F::AVX512_VP2INTERSECT, 7, 0, D, 8, Avx512),
        (F::SERIALIZE, 7, 0, D, 14, Nothing),
        (F::AVX512_FP16, 7, 0, D, 23, Avx512),
        (F::XSAVEOPT, 0xd, 1, A, 0, Nothing),
        (F::XSAVEC, 0xd, 1, A, 1, Nothing),
        (F::LZCNT, MORE, 0, C, 5, Nothing),
        (F::SSE4A, MORE, 0, C, 6, Nothing),
        (F::PREFETCHW, MORE, 0, C, 8, Nothing),
        (F::RDTSCP, MORE, 0, D, 27, Nothing),
    ]
};

/// Those of leaf 7, part 1, in its eax.
const LATER: &[(CpuidFeature, u32, Needs)] = &[
    (CpuidFeature::AVX_VNNI, 4, Needs::Avx),
    (CpuidFeature::AVX512_BF16, 5, Needs::Avx512),
    (CpuidFeature::AVX_IFMA, 23, Needs::Avx),
];

/// In every processor of this architecture.
const ALWAYS: [CpuidFeature; 12] = {
    use CpuidFeature as F;
    [
        F::INTEL8086,
        F::INTEL186,
        F::INTEL286,
        F::INTEL386,
        F::INTEL486,
        F::X64,
        F::CPUID,
        F::SYSCALL,
        F::MULTIBYTENOP,
        F::PAUSE,
        // Where the processor does not know of them they are executed as no operation.
        F::CET_IBT,
        F::PREFETCHITI,
    ]
};

/// Which features there are, by their number.
struct Features([bool; 256]);

impl Features {
    fn get() -> &'static Self {
        static FEATURES: OnceLock<Features> = OnceLock::new();
        FEATURES.get_or_init(Self::read)
    }

    fn read() -> Self {
        let components = enabled_components();
        let usable = |needs: Needs| match needs {
            Needs::Nothing => true,
            Needs::Avx => components & AVX != 0,
            Needs::Avx512 => components & (AVX | AVX512) == AVX | AVX512,
        };
        let mut has = [false; 256];
        for feature in ALWAYS {
            has[feature as usize] = true;
        }
        for &(feature, leaf, part, word, bit, needs) in FEATURES {
            let known = __cpuid(leaf & 0x8000_0000).eax >= leaf;
            let answer = __cpuid_count(leaf, part);
            let word = match word {
                Word::A => answer.eax,
                Word::B => answer.ebx,
                Word::C => answer.ecx,
                Word::D => answer.edx,
            };
            has[feature as usize] = known && word >> bit & 1 == 1 && usable(needs);
        }
        let later = if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).eax >= 1 { __cpuid_count(7, 1).eax } else { 0 };
        for &(feature, bit, needs) in LATER {
            has[feature as usize] = later >> bit & 1 == 1 && usable(needs);
        }
        // SAFETY: getauxval has no preconditions.
        let hardware = unsafe { libc::getauxval(libc::AT_HWCAP2) };
        // The kernel must allow it.
        has[CpuidFeature::FSGSBASE as usize] &= hardware & 2 != 0;
        Self(has)
    }
}

/// True if this processor can execute the instruction.
pub fn has(instruction: &Instruction) -> bool {
    let features = Features::get();
    instruction.cpuid_features().iter().all(|&f| features.0.get(f as usize).copied().unwrap_or(false))
}

/// True if it is one of AMD: what prefixes mean to branches differs.
pub fn is_amd() -> bool {
    let maker = __cpuid(0);
    (maker.ebx, maker.edx, maker.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163)
        || (maker.ebx, maker.edx, maker.ecx) == (0x6f67_7948, 0x6e65_476e, 0x656e_6975)
}

/// Bits of the addresses that programs may have: more where the processor has five levels of page tables, and the kernel perhaps.
pub fn address_bits() -> u32 {
    let five_levels = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx >> 16 & 1 == 1;
    if five_levels { 56 } else { 47 }
}

/// True if XSAVE may be executed.
pub fn has_xsave() -> bool {
    __cpuid(1).ecx >> 27 & 1 == 1
}

/// Components of the extended state that the kernel has enabled; none where there is no XSAVE.
pub fn enabled_components() -> u64 {
    if !has_xsave() {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: the kernel has enabled XSAVE (checked above), and with it this instruction, which changes these two registers only.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}
