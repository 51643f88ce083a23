//! Real programs, executed by the emulator and, instruction by instruction, by the processor.

mod traced;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use numamma_emulator::{Access, Emulator, Observer, State, Stop};
use traced::Traced;

/// Arithmetic flags and the direction.
const FLAGS: u64 = 0xcd5;

/// Steps for each program, unless the environment says another number.
fn steps() -> usize {
    std::env::var("NUMAMMA_EMULATOR_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(6000)
}

#[derive(Default)]
struct Told {
    ips: Vec<u64>,
    accesses: Vec<Access>,
}

impl Observer for Told {
    fn instruction(&mut self, ip: u64) {
        self.ips.push(ip);
    }

    fn access(&mut self, access: Access) {
        self.accesses.push(access);
    }
}

/// What differs, if anything does.
fn difference(emulated: &State, real: &State) -> Option<String> {
    const NAMES: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let (e, r) = (emulated, real);
    if e.ip != r.ip {
        return Some(format!("ip {:#x}, really {:#x}", e.ip, r.ip));
    }
    for (n, name) in NAMES.iter().enumerate() {
        if e.general[n] != r.general[n] {
            return Some(format!("{name} {:#x}, really {:#x}", e.general[n], r.general[n]));
        }
    }
    if (e.flags ^ r.flags) & FLAGS != 0 {
        return Some(format!("flags {:#x}, really {:#x}", e.flags & FLAGS, r.flags & FLAGS));
    }
    if (e.fs_base, e.gs_base) != (r.fs_base, r.gs_base) {
        return Some(format!("segment bases {:#x} {:#x}", e.fs_base, e.gs_base));
    }
    let (e, r) = (&e.extended, &r.extended);
    for n in 0..32 {
        if e.vector(n) != r.vector(n) {
            return Some(format!("vector register {n} {:02x?}, really {:02x?}", e.vector(n), r.vector(n)));
        }
    }
    for n in 0..8 {
        if e.mask(n) != r.mask(n) {
            return Some(format!("mask register {n} {:#x}, really {:#x}", e.mask(n), r.mask(n)));
        }
    }
    if e.mxcsr() != r.mxcsr() {
        return Some(format!("mxcsr {:#x}, really {:#x}", e.mxcsr(), r.mxcsr()));
    }
    // Control, status, which registers are in use; not the last instruction and its operand.
    if e.0[..5] != r.0[..5] {
        return Some(format!("x87 state {:02x?}, really {:02x?}", &e.0[..5], &r.0[..5]));
    }
    for n in 0..8 {
        let at = 32 + 16 * n..32 + 16 * n + 10;
        if e.0[at.clone()] != r.0[at.clone()] {
            return Some(format!("st{n} {:02x?}, really {:02x?}", &e.0[at.clone()], &r.0[at]));
        }
    }
    None
}

/// What came of it.
#[derive(Default)]
struct Tally {
    compared: usize,
    in_runs: usize,
    accesses: usize,
    stops: BTreeMap<String, usize>,
}

/// Bytes of the instruction, and its name.
fn show(traced: &Traced, ip: u64) -> (String, iced_x86::Mnemonic) {
    let mut bytes = [0; 15];
    for n in 0..15 {
        traced.read(ip + n, &mut bytes[n as usize..=n as usize]);
    }
    let i = iced_x86::Decoder::with_ip(64, &bytes, ip, 0).decode();
    (format!("{:?} {:02x?}", i.code(), &bytes[..i.len().max(1)]), i.mnemonic())
}

/// What two executions need not agree about, and what a debugger's steps change.
fn is_particular(mnemonic: iced_x86::Mnemonic) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(mnemonic, M::Rdtsc | M::Rdtscp | M::Rdrand | M::Rdseed | M::Cpuid | M::Pushfq | M::Popfq | M::Rdpid)
}

fn same_memory(emulator: &mut Emulator, traced: &Traced, writes: &[Access]) -> Option<String> {
    for write in writes {
        let (mut ours, mut real) = (vec![0; write.size as usize], vec![0; write.size as usize]);
        if emulator.memory_after(write.address, &mut ours) && traced.read(write.address, &mut real) && ours != real {
            return Some(format!("memory {:#x}: {ours:02x?}, really {real:02x?}", write.address));
        }
    }
    None
}

/// Emulates `count` instructions at once, then each by itself, beside the processor's steps. False if the program ended.
fn compare(traced: &mut Traced, whole: &mut Emulator, single: &mut Emulator, count: usize, tally: &mut Tally) -> bool {
    let start = traced.state().expect("its registers");
    let mut at_once = start.clone();
    let mut told = Told::default();
    let run = whole.run(&mut at_once, &mut traced.pages(), &mut told, count as u64);
    tally.accesses += told.accesses.len();
    let mut particular = false;
    let mut before = start;
    for step in 0..=count {
        if step as u64 == run.executed && !particular {
            let different = difference(&at_once, &before);
            let different = different.or_else(|| {
                let writes: Vec<_> = told.accesses.iter().filter(|a| a.write).copied().collect();
                same_memory(whole, traced, &writes)
            });
            assert_eq!(different, None, "after {step} instructions at once, at {:#x} ({})", before.ip, run.stop);
            tally.in_runs += step;
        }
        if step == count || step as u64 > run.executed {
            break;
        }
        let mut alone = before.clone();
        let mut told_alone = Told::default();
        let run_alone = single.run(&mut alone, &mut traced.pages(), &mut told_alone, 1);
        let (shown, mnemonic) = show(traced, before.ip);
        if !traced.step() {
            return false;
        }
        let real = traced.state().expect("its registers");
        if traced.is_signalled() {
            return true;
        }
        particular |= is_particular(mnemonic);
        if run_alone.stop == Stop::Limit {
            if !is_particular(mnemonic) {
                let different = difference(&alone, &real);
                let writes: Vec<_> = told_alone.accesses.iter().filter(|a| a.write).copied().collect();
                let different = different.or_else(|| same_memory(single, traced, &writes));
                assert_eq!(different, None, "at {:#x}: {shown}", before.ip);
                tally.compared += 1;
            }
        } else {
            let what = if run_alone.stop == Stop::SystemCall { String::new() } else { format!(": {shown}") };
            *tally.stops.entry(format!("{}{what}", run_alone.stop)).or_default() += 1;
        }
        before = real;
    }
    true
}

fn follow(name: &str, command: &mut Command) {
    if !Path::new(command.get_program()).exists() {
        eprintln!("{name}: is not there");
        return;
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut traced = Traced::start(command).expect("a program under ptrace");
    let (mut whole, mut single) = (Emulator::new().expect("an emulator"), Emulator::new().expect("an emulator"));
    let mut tally = Tally::default();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let budget = steps();
    let mut round = 0;
    let mut steps = 0;
    while steps < budget {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let count = 200 + (random % 800) as usize;
        steps += count;
        round += 1;
        if !compare(&mut traced, &mut whole, &mut single, count, &mut tally) {
            break;
        }
        // At first in the loader, then all over the program.
        if round > 2 && !traced.go_on(Duration::from_micros(200 + random % 20_000)) {
            break;
        }
    }
    eprintln!(
        "{name}: {} instructions one by one, {} of them in runs, {} accesses",
        tally.compared, tally.in_runs, tally.accesses
    );
    for (stop, count) in &tally.stops {
        eprintln!("{name}: {count} times {stop}");
    }
    assert!(tally.compared > 100, "{name}: next to nothing was compared");
    let unsupported: usize = tally.stops.iter().filter(|(stop, _)| stop.contains("not emulated")).map(|(_, n)| n).sum();
    assert!(unsupported * 100 <= tally.compared, "{name}: {unsupported} instructions are not emulated");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Lines in no order.
fn text_file(folder: &Path) -> PathBuf {
    let path = folder.join("lines");
    let mut text = String::new();
    let mut n = 12_345_u32;
    for _ in 0..200_000 {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(&format!("{} line {:x} of {}\n", n >> 7, n, n % 97));
    }
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn ls() {
    follow("ls", Command::new("/bin/ls").args(["-laR", "/usr/lib"]));
}

#[test]
fn sort() {
    let folder = folder();
    follow("sort", Command::new("/usr/bin/sort").args(["--parallel=1", "-n"]).arg(text_file(folder.path())));
}

#[test]
fn gzip() {
    let folder = folder();
    follow("gzip", Command::new("/bin/gzip").args(["-9", "-c"]).arg(text_file(folder.path())));
}

#[test]
fn awk() {
    let folder = folder();
    let program = "{ n[$5 % 7] += length($0) * 1.5; s = s substr($0, 1, 1) } END { for (k in n) print k, n[k] }";
    follow("awk", Command::new("/usr/bin/awk").arg(program).arg(text_file(folder.path())));
}
