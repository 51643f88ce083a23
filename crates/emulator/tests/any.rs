//! Instructions of all kinds at random, executed by the emulator and by the processor: what they do, and whether they fault.

mod chance;
mod traced;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use chance::{Random, any, undefined, varies};
use iced_x86::{Decoder, Instruction, Mnemonic, Register};
use numamma_emulator::{Access, Emulator, Fault, Observer, PAGE, State, Stop, Unsupported};
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
    for at in (160..416).chain(576..2432).step_by(8) {
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
        let open = undefined(&i);
        differ += u64::from((emulated.flags ^ real.flags) & open != 0);
        emulated.flags = emulated.flags & !open | real.flags & open;
        let writes: Vec<_> = accesses.0.iter().filter(|a| a.write).copied().collect();
        let different = difference(&emulated, &real).or_else(|| same_memory(&mut emulator, &traced, &writes));
        assert_eq!(different, None, "{shown} from {:x?}, flags {:x}", start.general, start.flags);
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
