//! Which instructions leave a function.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use super::Exit;

/// The exits in a part of a function: `bytes` at `start`, addresses of the file. `parts` are all parts of the function.
pub fn exits(bytes: &[u8], start: u64, parts: &[Range<u64>]) -> Vec<(u64, Exit)> {
    let decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    decoder.into_iter().filter_map(|instruction| Some((instruction.ip(), exit(&instruction, parts)?))).collect()
}

fn exit(instruction: &Instruction, parts: &[Range<u64>]) -> Option<Exit> {
    let outside = |to: u64| !parts.iter().any(|part| part.contains(&to));
    match instruction.flow_control() {
        FlowControl::Return => Some(Exit::Always),
        FlowControl::UnconditionalBranch => outside(instruction.near_branch_target()).then_some(Exit::Always),
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            outside(instruction.near_branch_target()).then_some(Exit::If(instruction.condition_code()))
        }
        FlowControl::IndirectBranch => match instruction.op0_kind() {
            OpKind::Register => Some(Exit::To(instruction.op0_register().number() as u8)),
            // With an index it is the table of a switch; without, the pointer of a function.
            _ => (instruction.memory_index() == Register::None).then_some(Exit::Always),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::decode::{GENERAL, Registers};
    use crate::probes::{Probe, ProbeKind};

    /// Offsets of the exits of a function at 0x1000 with a cold part at 0x2000.
    fn exits_of(bytes: &[u8]) -> Vec<(u64, Exit)> {
        exits(bytes, 0x1000, &[0x1000..0x1000 + bytes.len() as u64, 0x2000..0x2100])
    }

    /// A probe at 0x1000.
    fn probe(exit: Exit) -> Probe {
        let parts = [0x1000..0x1010, 0x2000..0x2100].into();
        Probe { file: "f".into(), offset: 0, at: 0x1000, parts, function: 0, kind: ProbeKind::Leave(exit) }
    }

    fn registers(rax: u64, flags: u64) -> Registers {
        let mut general = [0; GENERAL];
        general[0] = rax;
        Registers { general, flags }
    }

    #[test]
    fn every_ret_and_every_jump_out_leaves() {
        // test eax,eax; je +1; ret; jmp 0x2000 (the cold part); jmp 0x3000
        let code = [0x85, 0xc0, 0x74, 0x01, 0xc3, 0xe9, 0xf6, 0x0f, 0, 0, 0xe9, 0xf1, 0x1f, 0, 0];
        let found = exits_of(&code);
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0x1004, 0x100a]);
        assert!(found.iter().all(|(_, exit)| matches!(exit, Exit::Always)));
    }

    #[test]
    fn a_branch_out_leaves_if_it_is_taken() {
        // je 0x3000; nop
        let found = exits_of(&[0x0f, 0x84, 0xfa, 0x1f, 0, 0, 0x90]);
        let [(0x1000, exit)] = &found[..] else { panic!("{found:?}") };
        const ZERO: u64 = 1 << 6;
        let probe = probe(exit.clone());
        assert!(probe.leaves(0, &registers(0, ZERO)) && !probe.leaves(0, &registers(0, 0)));
        assert!(probe.needs_registers());
    }

    #[test]
    fn a_jump_by_register_leaves_if_its_target_is_outside() {
        // jmp rax, in a module that is loaded at 0x5555_0000_0000
        let found = exits_of(&[0xff, 0xe0]);
        let [(0x1000, exit)] = &found[..] else { panic!("{found:?}") };
        let (probe, bias) = (probe(exit.clone()), 0x5555_0000_0000);
        assert!(probe.leaves(bias + 0x1000, &registers(bias + 0x3000, 0)));
        for inside in [0x1001, 0x2000] {
            assert!(!probe.leaves(bias + 0x1000, &registers(bias + inside, 0)), "{inside:x}");
        }
    }

    #[test]
    fn a_switch_stays_and_a_call_by_pointer_at_the_end_leaves() {
        // jmp [rax*8+0x404000]; jmp [rip+0x100]
        let found = exits_of(&[0xff, 0x24, 0xc5, 0, 0x40, 0x40, 0, 0xff, 0x25, 0, 1, 0, 0]);
        assert!(matches!(&found[..], [(0x1007, Exit::Always)]), "{found:?}");
    }

    #[test]
    fn calls_and_loops_stay() {
        // call 0x3000; dec ecx; jne 0x1000
        assert!(exits_of(&[0xe8, 0xfb, 0x1f, 0, 0, 0xff, 0xc9, 0x75, 0xf7]).is_empty());
    }
}
