//! Instructions of all kinds at random, executed by the emulator and by the processor: what they do, and whether they fault.

mod chance;
mod traced;

use std::arch::x86_64::__cpuid_count;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use chance::{ARITHMETIC, Random, any, has_undefined_result, take_over_free_flags, undefined, varies};
use iced_x86::{Decoder, Instruction, Mnemonic, Register};
use numamma_emulator::{Access, EXTENDED_BYTES, Emulator, Fault, Observer, PAGE, Rights, State, Stop, Unsupported};
use traced::{Traced, difference, same_memory};

const STACK: u64 = 16 << 10;

#[derive(Default)]
struct Accesses(Vec<Access>);

impl Observer for Accesses {
    fn instruction(&mut self, _ip: u64) {}
    fn access(&mut self, access: Access) {
        self.0.push(access);
    }
}

fn times() -> u64 {
    let factor = std::env::var("NUMAMMA_EMULATOR_TIMES").ok().and_then(|text| text.parse::<u64>().ok());
    30_000 * factor.unwrap_or(1)
}

/// Where the vector and mask registers are in the image. Processors have other components in between, as keys of pages, without which
/// the program cannot access its memory.
fn vector_registers() -> impl Iterator<Item = std::ops::Range<usize>> {
    let components = [2, 5, 6, 7].into_iter().map(|component| {
        let leaf = __cpuid_count(0xd, component);
        leaf.ebx as usize..(leaf.ebx + leaf.eax) as usize
    });
    std::iter::once(160..416).chain(components).filter(|part| part.end <= EXTENDED_BYTES)
}

/// Registers of which most are addresses in the stack or small, so that operands in memory are there.
fn registers(random: &mut Random, from: &State, top: u64) -> State {
    let mut state = from.clone();
    for register in &mut state.general {
        *register = match random.below(4) {
            0 => random.value(),
            1 => random.below(64),
            2 => (top - STACK / 2 + random.below(2048)) & !63,
            _ => top - STACK / 2 + random.below(2048),
        };
    }
    state.general[4] = top - 4096;
    state.flags = 0x202 | random.next() & 0x8d5;
    let bytes = &mut state.extended.0;
    for at in vector_registers().flat_map(|part| part.step_by(8)) {
        let value = match random.below(3) {
            // Indices of gathers; masks.
            0 => random.below(4096) | random.below(4096) << 32,
            // Numbers of either width.
            1 => (random.next() >> 8 | 0x3f80_0000_3f80_0000) & 0x40ff_ffff_43ff_ffff,
            _ => random.next(),
        };
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for register in 0..8 {
        let at = 32 + 16 * register;
        bytes[at..at + 8].copy_from_slice(&(random.next() | 1 << 63).to_le_bytes());
        bytes[at + 8..at + 10].copy_from_slice(&(0x3ff0 + random.below(32) as u16).to_le_bytes());
    }
    // Not always full: what does not fit sets other flags.
    bytes[4] = random.byte() | random.byte();
    bytes[512] = 0xe7;
    state
}

/// Sets the base of an operand in memory so that it is in the stack.
fn aim(random: &mut Random, state: &mut State, i: &Instruction, top: u64) {
    let (base, index) = (i.memory_base(), i.memory_index());
    if !base.is_gpr64() || base == Register::RSP || index == base {
        return;
    }
    let target = top - STACK / 2 + random.below(2048);
    let target = if random.below(2) == 0 { target & !63 } else { target };
    let part = if index.is_gpr64() { state.general[index.number()] } else { 0 };
    let part = part.wrapping_mul(u64::from(i.memory_index_scale())).wrapping_add(i.memory_displacement64());
    state.general[base.number()] = target.wrapping_sub(part);
}

/// What stepping executes otherwise, or what must not be tried with registers made up.
fn is_left_out(mnemonic: Mnemonic, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    let enters_kernel = bytes.windows(2).any(|two| matches!(two, [0x0f, 0x05 | 0x34] | [0xcd, _]));
    let of_steps = matches!(mnemonic, M::Popfq | M::Pushfq | M::Xgetbv);
    let images = format!("{mnemonic:?}").contains("save") || matches!(mnemonic, M::Fnstenv | M::Fstenv);
    let bases = matches!(mnemonic, M::Wrfsbase | M::Wrgsbase | M::Fxrstor | M::Fxrstor64);
    enters_kernel || of_steps || images || bases || varies(mnemonic)
}

#[test]
fn the_processor_does_the_same() {
    let mut command = Command::new("/bin/ls");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut traced = Traced::start(&mut command).expect("a program under ptrace");
    let first = traced.state().expect("its registers");
    let (code, top) = (first.ip & !(PAGE as u64 - 1), first.general[4] & !(PAGE as u64 - 1));
    let maps = traced.maps();
    let mut random = Random(0x0dd5_eed5_0f0d_d5ee);
    let noise: Vec<u8> = (0..STACK).map(|_| random.byte() & random.byte()).collect();
    traced.write(top - STACK, &noise).expect("its stack");
    let mut emulator = Emulator::new().expect("an emulator");
    let (mut compared, mut unsupported) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let (mut faults, mut differ, mut disagreed) = (0, 0, BTreeMap::<String, u64>::new());
    for n in 0..times() {
        if n % 5_000 == 0 {
            emulator.forget();
        }
        let mut bytes = [0; 16];
        any(&mut random, &mut bytes);
        let i = Decoder::with_ip(64, &bytes, code, 0).decode();
        if is_left_out(i.mnemonic(), &bytes) {
            continue;
        }
        traced.write(code, &bytes).expect("its code");
        let mut start = registers(&mut random, &first, top);
        start.ip = code;
        aim(&mut random, &mut start, &i, top);
        let shown = format!("{:?} {:02x?}", i.code(), &bytes[..i.len().max(1)]);
        traced.set_state(&start).unwrap_or_else(|error| panic!("{shown}: {error}"));
        let start = traced.state().expect("its registers");
        let (mut emulated, mut accesses) = (start.clone(), Accesses::default());
        let run = emulator.run(&mut emulated, &mut traced.pages(&maps), &mut accesses, 1);
        let name = format!("{:?}", i.mnemonic());
        if let Stop::Unsupported(why) = run.stop {
            if !matches!(why, Unsupported::Feature(_)) {
                let why = if why == Unsupported::Masked { format!("masked {name}") } else { name };
                *unsupported.entry(why).or_default() += 1;
            }
            continue;
        }
        if run.stop == Stop::SystemCall {
            continue;
        }
        assert!(traced.step(), "{shown}: it ended");
        let signal = traced.take_signal();
        let real = traced.state().expect("its registers");
        // A trap of an instruction's own looks like one of a step that does not get on.
        let faulted = signal != 0 || real.ip == code && run.stop != Stop::Limit;
        if run.stop != Stop::Limit {
            faults += 1;
            // Of a breakpoint the step tells no more than of any instruction; the stack grows where it is touched.
            let expected = matches!(run.stop, Stop::Fault(Fault::Breakpoint) | Stop::Unreadable(_));
            if !faulted && !expected {
                *disagreed.entry(format!("{name} executes, and {}", run.stop)).or_default() += 1;
            }
            continue;
        }
        if faulted {
            *disagreed.entry(format!("signal {signal}: {shown}")).or_default() += 1;
            continue;
        }
        if has_undefined_result(&i, &start) {
            continue;
        }
        differ += u64::from((emulated.flags ^ real.flags) & undefined(&i, &start) != 0);
        take_over_free_flags(&i, &mut emulated, &start, &real);
        let writes: Vec<_> = accesses.0.iter().filter(|a| a.write).copied().collect();
        let different = difference(&emulated, &real).or_else(|| same_memory(&mut emulator, &traced, &writes));
        if let Some(what) = different {
            let from = format!("{shown} from {:x?}, flags {:x}: {what}", start.general, start.flags);
            *disagreed.entry(from).or_default() += 1;
        }
        *compared.entry(name).or_default() += 1;
    }
    let total: u64 = compared.values().sum();
    eprintln!(
        "{total} instructions of {} kinds, {differ} times other undefined flags; {faults} faults",
        compared.len()
    );
    eprintln!("unsupported: {unsupported:?}");
    eprintln!("disagreed: {disagreed:#?}");
    assert!(disagreed.is_empty());
    assert!(total > 3_000);
}

/// What an Intel processor shows of a step, and what one of AMD does, is the same to the comparison, whichever this one is.
#[test]
fn a_step_between_two_rounds_has_flags_of_either_vendor() {
    // repne cmpsd, two rounds to go, the first of which finds nothing.
    let bytes = [0xf2, 0xa7];
    let (code, data) = (0x40_0000, 0x50_0000);
    let i = Decoder::with_ip(64, &bytes, code, 0).decode();
    let mut before = State::new();
    (before.ip, before.flags) = (code, 0x202 | 1 << 6 | 1 << 11);
    (before.general[1], before.general[6], before.general[7]) = (2, data, data + 4);
    let mut memory = |address: u64, page: &mut [u8; PAGE]| {
        page.fill(0);
        match address {
            0x40_0000 => page[..2].copy_from_slice(&bytes),
            0x50_0000 => page[..8].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]),
            _ => return None,
        }
        Some(Rights::ALL)
    };
    let mut round = before.clone();
    let run = Emulator::new().expect("an emulator").run(&mut round, &mut memory, &mut (), 1);
    assert_eq!((run.stop, round.ip, round.general[1]), (Stop::Limit, code, 1));
    // 1 - 2: carry, auxiliary carry, sign, parity.
    assert_eq!(round.flags & ARITHMETIC, 0x95);
    let agrees = |flags: u64| {
        let (mut emulated, mut real) = (round.clone(), round.clone());
        real.flags = real.flags & !ARITHMETIC | flags;
        take_over_free_flags(&i, &mut emulated, &before, &real);
        difference(&emulated, &real).is_none()
    };
    assert!(agrees(before.flags & ARITHMETIC), "as Intel has it");
    assert!(agrees(round.flags & ARITHMETIC), "as AMD has it");
    assert!(!agrees(0) && !agrees(0x95 | 1 << 6), "as nobody has it");
    // After the last round there is one answer.
    let (mut emulated, mut last) = (round.clone(), round.clone());
    (emulated.ip, last.ip) = (code + 2, code + 2);
    last.flags = before.flags;
    take_over_free_flags(&i, &mut emulated, &before, &last);
    assert!(difference(&emulated, &last).is_some());
}
