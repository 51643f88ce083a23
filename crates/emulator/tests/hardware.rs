//! Real programs, executed by the emulator and, instruction by instruction, by the processor.

mod chance;
mod traced;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use numamma_emulator::{Access, Emulator, Observer, Stop};
use traced::{Traced, difference, same_memory};

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

/// What came of it.
#[derive(Default)]
struct Tally {
    compared: usize,
    in_runs: usize,
    accesses: usize,
    /// Times that flags differed which the manuals leave undefined.
    undefined: usize,
    /// Times that flags were made those of before a round.
    kept: usize,
    stops: BTreeMap<String, usize>,
}

/// Bytes of the instruction, and its name.
fn show(traced: &Traced, ip: u64) -> (String, iced_x86::Instruction) {
    let mut bytes = [0; 15];
    for n in 0..15 {
        traced.read(ip + n, &mut bytes[n as usize..=n as usize]);
    }
    let i = iced_x86::Decoder::with_ip(64, &bytes, ip, 0).decode();
    (format!("{:?} {:02x?}", i.code(), &bytes[..i.len().max(1)]), i)
}

/// What two executions need not agree about, and what a debugger's steps change.
fn is_particular(mnemonic: iced_x86::Mnemonic) -> bool {
    use iced_x86::Mnemonic as M;
    let saves = matches!(
        mnemonic,
        M::Xsavec | M::Xsavec64 | M::Xsave | M::Xsave64 | M::Fxsave | M::Fxsave64 | M::Fnstenv | M::Fstenv | M::Fnsave
    );
    saves || matches!(mnemonic, M::Rdtsc | M::Rdtscp | M::Rdrand | M::Rdseed | M::Cpuid | M::Rdpid)
}

/// Emulates `count` instructions at once, then each by itself, beside the processor's steps. False if the program ended.
fn compare(
    traced: &mut Traced,
    emulators: &mut [Emulator; 2],
    keeps_flags: bool,
    count: usize,
    tally: &mut Tally,
) -> bool {
    let [whole, single] = emulators;
    let start = traced.state().expect("its registers");
    let mut at_once = start.clone();
    let mut told = Told::default();
    let mut maps = traced.maps();
    let run = whole.run(&mut at_once, &mut traced.pages(&maps), &mut told, count as u64);
    tally.accesses += told.accesses.len();
    let (mut particular, mut open) = (false, 0);
    let mut before = start;
    for step in 0..=count {
        if step as u64 == run.executed && !particular {
            at_once.flags = at_once.flags & !open | before.flags & open;
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
        let run_alone = single.run(&mut alone, &mut traced.pages(&maps), &mut told_alone, 1);
        let (shown, instruction) = show(traced, before.ip);
        let mnemonic = instruction.mnemonic();
        if !traced.step() {
            return false;
        }
        let mut real = traced.state().expect("its registers");
        if keeps_flags && chance::is_between_rounds(&instruction, &real) {
            real.flags = real.flags & !chance::ARITHMETIC | before.flags & chance::ARITHMETIC;
            traced.set_state(&real).expect("other flags");
            tally.kept += 1;
        }
        if mnemonic == iced_x86::Mnemonic::Pushfq {
            traced.clean_pushed_flags(real.general[4]);
        }
        if traced.is_signalled() {
            return true;
        }
        // What a flag is remains undefined until something else sets it.
        open = if instruction.rflags_modified() == 0 { open } else { chance::undefined(&instruction, &before) };
        if chance::is_between_rounds(&instruction, &real) {
            // Those of the round, or of before the first one.
            open |= chance::ARITHMETIC;
        }
        particular |= is_particular(mnemonic) || chance::has_undefined_result(&instruction, &before);
        if run_alone.stop == Stop::Limit {
            if !is_particular(mnemonic) && !chance::has_undefined_result(&instruction, &before) {
                let undefined = chance::undefined(&instruction, &before);
                tally.undefined += usize::from((alone.flags ^ real.flags) & undefined != 0);
                chance::take_over_free_flags(&instruction, &mut alone, &before, &real);
                let different = difference(&alone, &real);
                let writes: Vec<_> = told_alone.accesses.iter().filter(|a| a.write).copied().collect();
                let different = different.or_else(|| same_memory(single, traced, &writes));
                assert_eq!(different, None, "at {:#x}: {shown}", before.ip);
                tally.compared += 1;
            }
        } else {
            let what = if run_alone.stop == Stop::SystemCall { String::new() } else { format!(": {mnemonic:?}") };
            *tally.stops.entry(format!("{}{what}", run_alone.stop)).or_default() += 1;
        }
        if run_alone.stop == Stop::SystemCall {
            maps = traced.maps();
        }
        before = real;
    }
    true
}

/// Compares here and there in the program, with up to that many microseconds in between.
fn follow(name: &str, longest: u64, command: &mut Command) {
    follow_on(name, longest, command, false);
}

/// `keeps_flags`: the processor is made to look like one that keeps flags between two rounds of a repeated string instruction.
fn follow_on(name: &str, longest: u64, command: &mut Command, keeps_flags: bool) {
    if !Path::new(command.get_program()).exists() {
        eprintln!("{name}: is not there");
        return;
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut traced = Traced::start(command).expect("a program under ptrace");
    let mut emulators = [(), ()].map(|()| Emulator::new().expect("an emulator"));
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
        if !compare(&mut traced, &mut emulators, keeps_flags, count, &mut tally) {
            break;
        }
        // At first in the loader, then all over the program.
        if round > 2 && !traced.go_on(Duration::from_micros(50 + random % longest)) {
            break;
        }
    }
    eprintln!(
        "{name}: {} instructions one by one, {} of them in runs, {} accesses; {} times other undefined flags",
        tally.compared, tally.in_runs, tally.accesses, tally.undefined
    );
    for (stop, count) in &tally.stops {
        eprintln!("{name}: {count} times {stop}");
    }
    assert!(!keeps_flags || tally.kept > 0, "{name}: no repeated string instruction");
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
    follow("ls", 2000, Command::new("/bin/ls").args(["-laR", "/usr/lib"]));
}

#[test]
fn sort() {
    let folder = folder();
    follow("sort", 1500, Command::new("/usr/bin/sort").args(["--parallel=1", "-n"]).arg(text_file(folder.path())));
}

#[test]
fn gzip() {
    let folder = folder();
    follow("gzip", 5000, Command::new("/bin/gzip").args(["-9", "-c"]).arg(text_file(folder.path())));
}

#[test]
fn awk() {
    let folder = folder();
    let program = "{ n[$5 % 7] += length($0) * 1.5; s = s substr($0, 1, 1) } END { for (k in n) print k, n[k] }";
    follow("awk", 2000, Command::new("/usr/bin/awk").arg(program).arg(text_file(folder.path())));
}

#[test]
fn python() {
    let work = "import math, json\nn = 0\nwhile n < 9**9:\n n += 1; d = {str(k): math.sin(k) * n for k in range(99)}; s = json.dumps(d)\n";
    follow("python", 20000, Command::new("/usr/bin/python3").args(["-c", work]));
}

#[test]
fn perl() {
    let work = "for (;;) { my %h; $h{$_ % 97} .= sprintf('%d %g', $_, sqrt $_) for 1..999; my @s = sort values %h }";
    follow("perl", 20000, Command::new("/usr/bin/perl").args(["-e", work]));
}

#[test]
fn compiler() {
    let asked = Command::new("gcc").arg("-print-prog-name=cc1").output();
    let path = asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned()).unwrap_or_default();
    let folder = folder();
    let program = folder.path().join("variety.i");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/variety.c");
    let _ = Command::new("gcc").args(["-E", "-o"]).arg(&program).arg(source).output();
    follow(
        "cc1",
        4000,
        Command::new(path).args(["-quiet", "-O3", "-fpreprocessed", "-o"]).arg(folder.path().join("out")).arg(program),
    );
}

/// Our own program, compiled with these options.
fn variety(name: &str, options: &[&str]) {
    let folder = folder();
    let (source, program) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/variety.c"), folder.path().join("variety"));
    let compiled = Command::new("gcc").args(options).arg(source).args(["-lm", "-o"]).arg(&program).output();
    match compiled {
        Ok(answer) if answer.status.success() => follow(name, 20_000, &mut Command::new(program)),
        other => eprintln!("{name}: cannot be compiled: {other:?}"),
    }
}

#[test]
fn variety_for_this_processor() {
    variety("variety -march=native", &["-O3", "-march=native", "-ffast-math"]);
}

#[test]
fn variety_with_the_widest_vectors() {
    variety("variety 512", &["-O3", "-march=native", "-mprefer-vector-width=512"]);
}

#[test]
fn variety_for_avx2() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    variety("variety avx2", &["-O3", "-march=haswell", "-mtune=haswell", "-ffast-math"]);
}

#[test]
fn variety_for_any_processor() {
    variety("variety", &["-O2"]);
}

#[test]
fn variety_not_optimised() {
    variety("variety -O0", &["-O0", "-static"]);
}

/// Repeated comparisons of strings and little else, on a processor of either vendor.
#[test]
fn flags_between_rounds_are_kept_or_not() {
    let source = r#"
        static unsigned char from[64], to[64];
        int main(void) {
            for (unsigned n = 0;; n++) {
                void *s = from, *d = to; unsigned long count = n % 40; unsigned char equal;
                from[n % 61] = n; to[n % 59] = n;
                __asm__ volatile("repe cmpsb; setz %0" : "=q"(equal), "+S"(s), "+D"(d), "+c"(count)::"memory", "cc");
                count = n % 7, d = to;
                __asm__ volatile("repne scasl; adcl $0, %k1" : "+D"(d), "+c"(count) : "a"(n) : "memory", "cc");
                from[equal] += count;
            }
        }"#;
    let folder = folder();
    let (file, program) = (folder.path().join("strings.c"), folder.path().join("strings"));
    std::fs::write(&file, source).expect("a file");
    let compiled = Command::new("gcc").arg("-O1").arg(&file).arg("-o").arg(&program).output();
    if !compiled.is_ok_and(|answer| answer.status.success()) {
        eprintln!("strings: cannot be compiled");
        return;
    }
    for keeps_flags in [false, true] {
        follow_on("strings", 20_000, &mut Command::new(&program), keeps_flags);
    }
}
