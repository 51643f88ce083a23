//! What runs tell, where they stop, and what they keep.

use iced_x86::Mnemonic;
use numamma_emulator::{
    Access, Emulator, Fault, Limits, Memory, Observer, PAGE, Place, Rights, Run, State, Stop, Unsupported,
};

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x50_0000;
const STACK: u64 = 0x60_0800;

/// Code, data and a stack; between them is nothing.
struct Pages {
    code: Vec<u8>,
    read: usize,
}

impl Pages {
    fn of(code: &[u8]) -> Self {
        Self { code: code.to_vec(), read: 0 }
    }
}

impl Memory for Pages {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        self.read += 1;
        page.fill(0);
        match address {
            CODE => {
                page[..self.code.len()].copy_from_slice(&self.code);
                Some(Rights::ALL)
            }
            DATA | 0x60_0000 => {
                for (n, byte) in page.iter_mut().enumerate() {
                    *byte = n as u8;
                }
                Some(Rights { write: true, execute: false })
            }
            0x70_0000 => Some(Rights { write: false, execute: false }),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Told {
    ips: Vec<u64>,
    accesses: Vec<(u64, u32, bool)>,
}

impl Observer for Told {
    fn instruction(&mut self, ip: u64) {
        self.ips.push(ip - CODE);
    }

    fn access(&mut self, access: Access) {
        assert_eq!(Some(access.ip - CODE), self.ips.last().copied(), "of the instruction that was told last");
        self.accesses.push((access.address, access.size, access.write));
    }
}

fn start() -> State {
    let mut state = State::new();
    state.ip = CODE;
    state.general[4] = STACK;
    // rsi, rdi
    (state.general[6], state.general[7]) = (DATA, DATA + 0x100);
    state
}

fn run_from(mut state: State, code: &[u8], limit: u64) -> (Run, State, Told, Emulator) {
    let mut emulator = Emulator::new().expect("an emulator");
    let mut told = Told::default();
    let run = emulator.run(&mut state, &mut Pages::of(code), &mut told, limit);
    (run, state, told, emulator)
}

const READ: bool = false;
const WRITE: bool = true;

#[test]
fn the_stack_counts_and_addresses_do_not() {
    // push rsi; call +0; pop rax; lea rcx, [rsi + 8]; prefetcht0 [rsi]; nop [rsi]; push [rsi]; syscall
    let code =
        [0x56, 0xe8, 0, 0, 0, 0, 0x58, 0x48, 0x8d, 0x4e, 8, 0x0f, 0x18, 0x0e, 0x0f, 0x1f, 0x06, 0xff, 0x36, 0x0f, 0x05];
    let (run, state, told, _) = run_from(start(), &code, 100);
    assert_eq!(run, Run { stop: Stop::SystemCall, executed: 7 });
    assert_eq!(state.ip, CODE + 19);
    assert_eq!(state.general[0], CODE + 6, "where the call returns to");
    let expected =
        [(STACK - 8, 8, WRITE), (STACK - 16, 8, WRITE), (STACK - 16, 8, READ), (DATA, 8, READ), (STACK - 16, 8, WRITE)];
    assert_eq!(told.accesses, expected);
    assert_eq!(told.ips.last(), Some(&19), "what it stops at is told too");
}

#[test]
fn changes_of_memory_are_two_accesses_and_stay_in_the_run() {
    // lock add dword [rsi], 1; mov eax, [rsi]; xchg [rsi], rax; cmp byte [rsi], 0; syscall
    let code = [0xf0, 0x83, 0x06, 1, 0x8b, 0x06, 0x48, 0x87, 0x06, 0x80, 0x3e, 0, 0x0f, 0x05];
    let (run, state, told, mut emulator) = run_from(start(), &code, 100);
    assert_eq!((run.stop, run.executed), (Stop::SystemCall, 4));
    assert_eq!(state.general[0], 0x0706_0504_0302_0101);
    let expected =
        [(DATA, 4, READ), (DATA, 4, WRITE), (DATA, 4, READ), (DATA, 8, READ), (DATA, 8, WRITE), (DATA, 1, READ)];
    assert_eq!(told.accesses, expected);
    let mut after = [0; 4];
    assert!(emulator.memory_after(DATA, &mut after));
    assert_eq!(after, [1, 1, 2, 3]);
}

#[test]
fn repetitions_are_accesses_of_their_own_and_count_against_the_limit() {
    // rep movsw; syscall
    let code = [0xf3, 0x66, 0xa5, 0x0f, 0x05];
    let mut state = start();
    state.general[1] = 3;
    let (run, after, told, _) = run_from(state.clone(), &code, 2);
    assert_eq!(run, Run { stop: Stop::Limit, executed: 2 });
    assert_eq!((after.ip, after.general[1], after.general[6]), (CODE, 1, DATA + 4));
    assert_eq!(told.ips, [0]);
    let expected = [(DATA, 2, READ), (DATA + 0x100, 2, WRITE), (DATA + 2, 2, READ), (DATA + 0x102, 2, WRITE)];
    assert_eq!(told.accesses, expected);
    let (run, after, ..) = run_from(state.clone(), &code, 9);
    assert_eq!(run, Run { stop: Stop::SystemCall, executed: 3 });
    assert_eq!((after.ip, after.general[1]), (CODE + 3, 0));
    // To the end of what is there.
    state.general[1] = 1 << 20;
    let (run, after, told, _) = run_from(state, &code, u64::MAX);
    assert_eq!(run, Run { stop: Stop::Unreadable(DATA + 0x1000), executed: 0xf00 / 2 });
    assert_eq!((after.ip, after.general[7]), (CODE, DATA + 0x1000));
    assert_eq!(told.accesses.len(), 0xf00);
}

/// A thread that an interrupt stops between two rounds has other flags than those of the last round on some processors. It goes on by
/// what rcx, rsi and rdi say.
#[test]
fn a_repeated_comparison_goes_on_whatever_the_flags_were() {
    const ARITHMETIC: u64 = 0x8d5;
    let flags = [0, 1 << 6, ARITHMETIC, 0x95, 0x44];
    let (repe, repne) = (0xf3, 0xf2);
    for opcode in [&[0xa6][..], &[0x66, 0xa7], &[0xa7], &[0x48, 0xa7], &[0xae], &[0x66, 0xaf], &[0xaf], &[0x48, 0xaf]] {
        for (prefix, count) in [(repe, 5), (repne, 5), (repe, 0), (repne, 0), (repe, 1), (repne, 1)] {
            let code = [&[prefix][..], opcode, &[0x0f, 0x05]].concat();
            for distance in 0..2 {
                let at = |flags: u64| {
                    let mut state = start();
                    // What is compared is the same for all rounds, or for none: memory there is zero, or counts up.
                    let place = if distance == 0 { CODE + 0x800 } else { DATA };
                    (state.general[1], state.general[6], state.general[7]) = (count, place, place + 8 * distance);
                    state.general[0] = 0;
                    state.flags = 0x202 | flags;
                    state
                };
                let (_, whole, told, _) = run_from(at(0), &code, 100);
                assert_eq!(whole.ip, CODE + code.len() as u64 - 2);
                for entry in flags {
                    let (_, again, told_again, _) = run_from(at(entry), &code, 100);
                    let expected = if count == 0 { 0x202 | entry } else { whole.flags };
                    assert_eq!((again.place(), again.flags), (whole.place(), expected), "{code:02x?} flags {entry:x}");
                    assert_eq!(told_again.accesses, told.accesses);
                    for rounds in 1..count {
                        let (run, mut midway, before, _) = run_from(at(0), &code, rounds);
                        if midway.ip != CODE {
                            break;
                        }
                        assert_eq!(run.stop, Stop::Limit);
                        // With the flag that says so: RF.
                        midway.flags = 0x1_0202 | entry;
                        let (_, end, after, _) = run_from(midway, &code, 100);
                        assert_eq!(end.place(), whole.place(), "{code:02x?} after {rounds}, flags {entry:x}");
                        assert_eq!(end.flags & ARITHMETIC, whole.flags & ARITHMETIC);
                        assert_eq!([before.accesses, after.accesses].concat(), told.accesses);
                    }
                }
            }
        }
    }
}

#[test]
fn a_run_ends_where_all_registers_are_as_they_are_to_be() {
    // inc eax; jmp -4
    let code = [0xff, 0xc0, 0xeb, 0xfc];
    let (mut emulator, mut pages, mut state) = (Emulator::new().expect("an emulator"), Pages::of(&code), start());
    let mut until = state.place();
    until.general[0] = 100;
    emulator.begin();
    let mut go_on = |state: &mut State, until: Place, instructions| {
        let mut told = Told::default();
        let limits = Limits { instructions, repetitions: None, until: [Some(until), None] };
        let run = emulator.go_on(state, &mut pages, &mut told, limits);
        assert_eq!(run.executed, told.ips.len() as u64, "what it ends at is not told");
        run
    };
    assert_eq!(go_on(&mut state, until, 1000), Run { stop: Stop::Place, executed: 200 });
    assert_eq!(state.place(), until);
    // Where it begins it does not end.
    assert_eq!(go_on(&mut state, until, 1000), Run { stop: Stop::Limit, executed: 1000 });
    until = Place { ip: CODE + 2, ..state.place() };
    until.general[0] += 1;
    assert_eq!(go_on(&mut state, until, 1000), Run { stop: Stop::Place, executed: 1 });
}

#[test]
fn nothing_is_told_or_done_of_what_cannot_be() {
    let stops = [
        // mov eax, [rax]
        (&[0x8b, 0x00][..], Stop::Unreadable(0)),
        // add [0x700000], eax
        (&[0x01, 0x04, 0x25, 0, 0, 0x70, 0], Stop::Unwritable(0x70_0000)),
        // push [rsi] with rsp nowhere
        (&[0x31, 0xe4, 0xff, 0x36], Stop::Unreadable(u64::MAX - 7)),
        // jmp rsi
        (&[0xff, 0xe6], Stop::NotExecutable(DATA)),
        // div eax
        (&[0xf7, 0xf0], Stop::Fault(Fault::Division)),
        (&[0x0f, 0x0b], Stop::Fault(Fault::Instruction)),
        // kandw k3, k10?, k0: there are eight of them, and some processors do not look at that bit
        (&[0xc5, 0x2c, 0x41, 0xd8], Stop::Unsupported(Unsupported::Instruction(Mnemonic::INVALID))),
        (&[0xcc], Stop::Fault(Fault::Breakpoint)),
        (&[0xf4], Stop::Fault(Fault::General)),
        // movaps xmm0, [rsi + 8]
        (&[0x0f, 0x28, 0x46, 8], Stop::Fault(Fault::Misaligned)),
        // mov [0x400000], al
        (&[0x88, 0x04, 0x25, 0, 0, 0x40, 0], Stop::Unsupported(Unsupported::SelfModifying(CODE))),
    ];
    for (code, stop) in stops {
        let (run, state, told, _) = run_from(start(), code, 100);
        assert_eq!(run.stop, stop, "{code:02x?}");
        assert_eq!(told.accesses, [], "{code:02x?}");
        let is_jump = code[0] == 0xff;
        assert_eq!(state.ip, if is_jump { DATA } else { CODE + 2 * run.executed }, "{code:02x?}");
    }
}

#[test]
fn signals_of_floating_point_are_not_ours() {
    let mut state = start();
    state.extended.0[24..28].copy_from_slice(&0x1e80_u32.to_le_bytes());
    state.extended.0[512] = 2;
    // addps xmm0, xmm1
    let (run, ..) = run_from(state.clone(), &[0x0f, 0x58, 0xc1], 1);
    assert_eq!(run.stop, Stop::Unsupported(Unsupported::Exceptions));
    // movaps xmm0, xmm1
    let (run, ..) = run_from(state, &[0x0f, 0x28, 0xc1], 1);
    assert_eq!(run.stop, Stop::Limit);
}

#[test]
fn code_is_what_is_there_now() {
    let mut emulator = Emulator::new().expect("an emulator");
    let mut pages = Pages::of(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05]);
    let mut go = |pages: &mut Pages| {
        let mut state = start();
        emulator.run(&mut state, pages, &mut (), 10);
        state.general[0]
    };
    assert_eq!(go(&mut pages), 1);
    pages.code[1] = 2;
    assert_eq!(go(&mut pages), 2);
    pages.read = 0;
    assert_eq!(go(&mut pages), 2);
    assert_eq!(pages.read, 1, "each page once a run");
}

#[test]
fn code_may_go_on_in_the_next_page_but_need_not() {
    // A jump to the page's last byte: a push there is whole, a prefix is not.
    let mut code = vec![0; PAGE];
    code[..5].copy_from_slice(&[0xe9, 0xfa, 0x0f, 0, 0]);
    code[PAGE - 1] = 0x56;
    let (run, state, ..) = run_from(start(), &code, 10);
    assert_eq!(run, Run { stop: Stop::Unreadable(CODE + PAGE as u64), executed: 2 });
    assert_eq!(state.ip, CODE + PAGE as u64);
    code[PAGE - 1] = 0x48;
    let (run, state, ..) = run_from(start(), &code, 10);
    assert_eq!(run, Run { stop: Stop::Unreadable(CODE + PAGE as u64), executed: 1 });
    assert_eq!(state.ip, CODE + PAGE as u64 - 1);
}

#[test]
fn a_mask_without_bits_is_no_access_and_lanes_are_each_one() {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return;
    }
    // kxorw k1, k1, k1; vmovdqu32 zmm1{k1}{z}, [rax] (nowhere); kxnorw k2, k2, k2; vmovdqu32 [rsi], zmm1;
    // vpxord zmm2, zmm2, zmm2; vpgatherdd zmm3{k2}, [rsi + zmm2 * 4]; syscall
    let code = [
        0xc5, 0xf4, 0x47, 0xc9, 0x62, 0xf1, 0x7e, 0xc9, 0x6f, 0x08, 0xc5, 0xec, 0x46, 0xd2, 0x62, 0xf1, 0x7e, 0x48,
        0x7f, 0x0e, 0x62, 0xf1, 0x6d, 0x48, 0xef, 0xd2, 0x62, 0xf2, 0x7d, 0x4a, 0x90, 0x1c, 0x96, 0x0f, 0x05,
    ];
    let (run, state, told, _) = run_from(start(), &code, 100);
    assert_eq!(run, Run { stop: Stop::SystemCall, executed: 6 });
    let mut expected = vec![(DATA, 64, WRITE)];
    expected.extend([(DATA, 4, READ); 16]);
    assert_eq!(told.accesses, expected);
    assert_eq!(state.extended.mask(2), 0);
}

#[test]
fn the_stack_pointer_may_be_an_operand() {
    // movq xmm1, rsp; cvtsi2sd xmm2, rsp; crc32 rsp, rsp; movq rsp, xmm1; syscall
    let code = [
        0x66, 0x48, 0x0f, 0x6e, 0xcc, 0xf2, 0x48, 0x0f, 0x2a, 0xd4, 0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xe4, 0x66, 0x48,
        0x0f, 0x7e, 0xcc, 0x0f, 0x05,
    ];
    let mut state = start();
    state.general[8..].fill(7);
    let (run, after, ..) = run_from(state, &code, 100);
    assert_eq!(run, Run { stop: Stop::SystemCall, executed: 4 });
    assert_eq!(after.extended.vector(1)[..8], STACK.to_le_bytes());
    assert_eq!(after.extended.vector(2)[..8], (STACK as f64).to_le_bytes());
    assert_eq!((after.general[4], after.general[8]), (STACK, 7));
}

#[test]
fn flags_go_over_the_stack() {
    // stc; std; pushfq; clc; cld; popfq; syscall
    let code = [0xf9, 0xfd, 0x9c, 0xf8, 0xfc, 0x9d, 0x0f, 0x05];
    let (run, state, ..) = run_from(start(), &code, 100);
    assert_eq!(run.stop, Stop::SystemCall);
    assert_eq!(state.flags & 0xcd5, 0x401);
    // push 0x100; popfq
    let (run, ..) = run_from(start(), &[0x68, 0, 1, 0, 0, 0x9d], 100);
    assert_eq!(run.stop, Stop::Unsupported(Unsupported::Flags));
}
