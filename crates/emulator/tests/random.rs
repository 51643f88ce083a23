//! Code that nobody wrote: the two ways of executing an instruction agree, and nothing that a program may contain does harm.

mod chance;

use chance::{Random, any, has_undefined_result, undefined, varies};
use iced_x86::Decoder;
use numamma_emulator::{Access, Emulator, Observer, PAGE, Rights, State, Stop, Unsupported};

const CODE: u64 = 0x40_0000;
const STACK: u64 = 0x7000_0000;

fn times(usual: u64) -> u64 {
    let factor = std::env::var("NUMAMMA_EMULATOR_TIMES").ok().and_then(|text| text.parse().ok());
    usual * factor.unwrap_or(1)
}

fn state(random: &mut Random) -> State {
    let mut state = State::new();
    state.ip = CODE;
    for register in &mut state.general {
        *register = random.value();
    }
    state.general[4] = STACK;
    state.flags = 0x202 | random.next() & 0x8d5;
    (state.fs_base, state.gs_base) = (random.next() & 0xffff_ffff, random.next() & 0xffff_ffff);
    let bytes = &mut state.extended.0;
    // SSE and what is behind it; nothing that makes exceptions signals.
    for byte in &mut bytes[160..416] {
        *byte = random.byte();
    }
    for at in (576..bytes.len()).step_by(8) {
        bytes[at..at + 8].copy_from_slice(&random.next().to_le_bytes());
    }
    bytes[512] = 0xe7;
    if random.below(2) == 0 {
        bytes[25] = 0x1f | (random.byte() & 0xe0);
    }
    state
}

/// Pages made up from their addresses, but for one of code. Of some there are none.
struct Pages {
    code: [u8; PAGE],
    holes: bool,
}

impl numamma_emulator::Memory for Pages {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        if address == CODE {
            *page = self.code;
            return Some(Rights { write: false, execute: true });
        }
        let mut random = Random(address | 1);
        if self.holes && address != STACK && address != STACK - PAGE as u64 && random.next().is_multiple_of(4) {
            return None;
        }
        for word in page.chunks_exact_mut(8) {
            word.copy_from_slice(&random.value().to_le_bytes());
        }
        Some(Rights { write: !self.holes || !random.next().is_multiple_of(4), execute: self.holes })
    }
}

#[derive(Default, PartialEq, Debug)]
struct Accesses(Vec<Access>);

impl Observer for Accesses {
    fn instruction(&mut self, _ip: u64) {}
    fn access(&mut self, access: Access) {
        self.0.push(access);
    }
}

/// An instruction on general registers, most of the time.
fn integer(random: &mut Random) -> Vec<u8> {
    const ONE: [u8; 47] = [
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x08, 0x0b, 0x10, 0x11, 0x13, 0x18, 0x1b, 0x21, 0x23, 0x29, 0x2b, 0x31,
        0x33, 0x38, 0x3b, 0x3d, 0x63, 0x69, 0x6b, 0x80, 0x81, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x8b, 0x8d, 0x98,
        0x99, 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3, 0xf6, 0xf7, 0xfe, 0xff,
    ];
    const TWO: [u8; 32] = [
        0x40, 0x42, 0x44, 0x47, 0x4c, 0x4f, 0x90, 0x92, 0x97, 0x9c, 0x9f, 0xa3, 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xaf,
        0xb0, 0xb1, 0xb3, 0xb6, 0xb7, 0xb8, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1,
    ];
    let mut code = Vec::new();
    if random.below(8) == 0 {
        // BMI: three operands.
        let last = random.below(4) as u8;
        code.extend([
            0xc4,
            0xe0 | (2 + random.below(2) as u8),
            (random.byte() & 0xf8) | last,
            [0xf7, 0xf2, 0xf3, 0xf5, 0xf6, 0xf0][random.below(6) as usize],
        ]);
    } else {
        if random.below(5) == 0 {
            code.push([0x66, 0xf3, 0xf2, 0x65][random.below(4) as usize]);
        }
        if random.below(2) == 0 {
            code.push(0x40 | random.byte() & 0xf);
        }
        if random.below(2) == 0 {
            code.push(ONE[random.below(47) as usize]);
        } else {
            code.extend([0x0f, TWO[random.below(32) as usize]]);
        }
    }
    code.extend((0..12).map(|_| random.byte()));
    code
}

#[test]
fn both_ways_of_executing_agree() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut by_hand, mut native) = (Emulator::new().expect("an emulator"), Emulator::new().expect("an emulator"));
    native.only_native(true);
    let mut compared = std::collections::BTreeMap::<String, u64>::new();
    let mut differ = 0;
    for n in 0..times(150_000) {
        if n % 10_000 == 0 {
            by_hand.forget();
            native.forget();
        }
        let bytes = integer(&mut random);
        let i = Decoder::with_ip(64, &bytes, CODE, 0).decode();
        if i.is_invalid() || varies(i.mnemonic()) {
            continue;
        }
        let mut pages = Pages { code: [0x90; PAGE], holes: false };
        pages.code[..bytes.len()].copy_from_slice(&bytes);
        let start = state(&mut random);
        let mut run = |emulator: &mut Emulator| {
            let (mut state, mut accesses) = (start.clone(), Accesses::default());
            let run = emulator.run(&mut state, &mut pages, &mut accesses, 1);
            let mut memory = Vec::new();
            for access in accesses.0.iter().filter(|a| a.write) {
                let mut bytes = vec![0; access.size as usize];
                assert!(emulator.memory_after(access.address, &mut bytes));
                memory.push(bytes);
            }
            (run, state, accesses, memory)
        };
        if has_undefined_result(&i, &start) {
            continue;
        }
        let (mut one, two) = (run(&mut by_hand), run(&mut native));
        let open = undefined(&i, &start);
        differ += u64::from((one.1.flags ^ two.1.flags) & open != 0);
        one.1.flags = one.1.flags & !open | two.1.flags & open;
        let shown = format!("{:?} {:02x?}", i.code(), &bytes[..i.len()]);
        assert_eq!(one.0, two.0, "{shown}");
        assert_eq!(one.1.general, two.1.general, "{shown}, from {:x?}", start.general);
        assert_eq!(one.1.flags, two.1.flags, "{shown}, from {:x?} {:x}", start.general, start.flags);
        assert!(one.1 == two.1, "{shown}: other registers");
        assert_eq!((one.2, one.3), (two.2, two.3), "{shown}");
        if one.0.stop == Stop::Limit {
            *compared.entry(format!("{:?}", i.mnemonic())).or_default() += 1;
        }
    }
    eprintln!("{} kinds of instructions; {differ} times other undefined flags: {compared:?}", compared.len());
    assert!(compared.len() > 70);
}

#[test]
fn no_code_does_harm() {
    let mut random = Random(0xfeed_beef_dead_f00d);
    let mut emulator = Emulator::new().expect("an emulator");
    let (mut executed, mut stops) = (0, std::collections::BTreeMap::<String, u64>::new());
    for _ in 0..times(4_000) {
        let mut pages = Pages { code: [0; PAGE], holes: true };
        any(&mut random, &mut pages.code);
        for _ in 0..25 {
            let mut state = state(&mut random);
            state.ip = CODE + random.below(PAGE as u64);
            for n in 0..16 {
                // Addresses that are of some page, and small numbers.
                state.general[n] &= [0xffff_ffff, 0xff_ffff, 0xff, u64::MAX][random.below(4) as usize];
            }
            let run = emulator.run(&mut state, &mut pages, &mut (), 1000);
            executed += run.executed;
            let name = match run.stop {
                Stop::Unreadable(_) => "unreadable".to_owned(),
                Stop::Unwritable(_) => "unwritable".to_owned(),
                Stop::NotExecutable(_) => "not executable".to_owned(),
                Stop::Unsupported(Unsupported::SelfModifying(_)) => "self-modifying".to_owned(),
                other => format!("{other:?}"),
            };
            *stops.entry(name).or_default() += 1;
        }
    }
    let mut stops: Vec<_> = stops.into_iter().collect();
    stops.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    eprintln!("{executed} instructions executed; {stops:?}");
    assert!(executed > 100_000);
}
