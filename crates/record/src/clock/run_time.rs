//! Loops that wait in the run time of OpenMP.
//!
//! The loops of libgomp are recognised by what they do ([`super::spin`]). Those of LLVM's and Intel's run times do more: they ask an object
//! whether its flag is set, look for tasks, read the clock, and note what they do. All loops of these libraries that have a `pause` wait
//! for other threads (`__kmp_wait_template`, locks, barriers), so no more is asked. What such a loop calls that neither stores nor loops
//! is a part of it: the question for the flag, and the reading of the clock.

use numamma_trace::Access;

use super::lift::{Code, Effect, Leaves, Op, STACK_POINTER};
use super::spin::members;

/// Run times whose loops with a `pause` wait, by the beginning of their file name.
const LIBRARIES: [&str; 2] = ["libomp.so", "libiomp5.so"];

/// Instructions of the longest loop that is looked at: that of `__kmp_wait_template` has 138 in LLVM 14.
const MOST: usize = 512;
/// Instructions of the longest function that counts as a part of the loop that calls it: those of LLVM 14 have four and five.
const SHORT: usize = 16;

/// True for the path of such a library.
pub fn is_run_time(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// Marks the instructions of all loops with a `pause` with the index of the loop's first one.
pub fn mark(code: &mut Code) {
    code.is_run_time = true;
    let ops = &mut code.ops;
    for tail in 0..ops.len() {
        let (Effect::Jump { to } | Effect::Branch { to, .. }) = ops[tail].effect else { continue };
        let Ok(head) = ops[..=tail].binary_search_by_key(&to, |op| op.ip) else { continue };
        if tail - head >= MOST {
            continue;
        }
        let members = members(&ops[head..=tail]);
        let of_loop = || (head..=tail).filter(|n| members[n - head]);
        if of_loop().any(|n| ops[n].waits) {
            for n in of_loop().collect::<Vec<_>>() {
                ops[n].spin.get_or_insert(head as u32);
            }
        }
    }
}

/// True for a short function that neither stores nor loops nor calls, and whose return address is at the stack pointer.
pub fn is_a_question(code: &Code) -> bool {
    let is_plain = |op: &Op| {
        let stores = op.operands.iter().flatten().any(|operand| operand.access == Access::Write);
        let ahead = match op.effect {
            Effect::Jump { to } | Effect::Branch { to, .. } => to > op.ip,
            Effect::Stack { .. } => false,
            Effect::Leave => op.leaves == Leaves::End,
            _ => true,
        };
        let keeps_stack = op.effect == Effect::Leave || op.writes & 1 << STACK_POINTER == 0;
        !stores && ahead && keeps_stack && !op.repeats
    };
    code.whole && code.ops.len() <= SHORT && code.ops.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Code {
        Code::decode(bytes, 0x1000, true)
    }

    #[test]
    fn all_of_a_loop_with_a_pause_waits() {
        // mov [rdi],eax; call rax; pause; cmp [rdi],ecx; jne -8; ret
        let mut code = decode(&[0x89, 0x07, 0xff, 0xd0, 0xf3, 0x90, 0x39, 0x0f, 0x75, 0xf6, 0xc3]);
        assert!(code.ops.iter().all(|op| op.spin.is_none()), "it stores");
        mark(&mut code);
        let marked: Vec<_> = code.ops.iter().map(|op| op.spin).collect();
        assert_eq!(marked, [Some(0), Some(0), Some(0), Some(0), Some(0), None]);
        // The same without a pause.
        let mut code = decode(&[0x89, 0x07, 0xff, 0xd0, 0x90, 0x90, 0x39, 0x0f, 0x75, 0xf6, 0xc3]);
        mark(&mut code);
        assert!(code.ops.iter().all(|op| op.spin.is_none()));
    }

    #[test]
    fn questions_do_nothing_else() {
        // rdtsc; shl rdx,32; or rax,rdx; ret
        assert!(is_a_question(&decode(&[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3])));
        // mov rax,[rdi+0x28]; mov rax,[rax]; cmp rax,[rdi+0x30]; setne al; ret
        let flag = [0x48, 0x8b, 0x47, 0x28, 0x48, 0x8b, 0x00, 0x48, 0x3b, 0x47, 0x30, 0x0f, 0x95, 0xc0, 0xc3];
        assert!(is_a_question(&decode(&flag)));
        // mov [rdi],eax; ret: it stores. dec eax; jne -4; ret: it loops. call rax; ret: it calls.
        for code in [&[0x89, 0x07, 0xc3][..], &[0xff, 0xc8, 0x75, 0xfc, 0xc3], &[0xff, 0xd0, 0xc3]] {
            assert!(!is_a_question(&decode(code)), "{code:x?}");
        }
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        assert!(is_run_time("/usr/lib/llvm-14/lib/libomp.so.5") && is_run_time("/opt/intel/libiomp5.so"));
        assert!(!is_run_time("/usr/lib/libgomp.so.1") && !is_run_time("/home/libomp.so/program"));
    }
}
