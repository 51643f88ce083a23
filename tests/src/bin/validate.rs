//! Prints how far estimated counts are off exact ones, for the documentation.
//!
//! `cargo run -p numamma-tests --bin validate -- [--quick] [--only NAME,NAME] [--flags FLAGS] [--threads N] [--longer N] [--windows]`
//!
//! Workloads are built in many ways and do the same work each time; ordinary programs run on files made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use numamma_tests::turns;
use numamma_tests::validation::{Case, READING, Score, fixed_work, measure};

/// Workloads, and how often each reads its clock: a second or so natively.
const WORKLOADS: [(&str, u32); 8] = [
    ("triad", 100),
    ("gather", 60),
    ("chase", 4),
    ("block", 150),
    ("blockcyclic", 80),
    ("master_init", 300),
    ("containers", 2000),
    ("pointers", 2000),
];

/// Flags of compilers. QEMU knows no AVX-512, so the last is the most that it can run.
const FLAGS: [&[&str]; 4] = [&["-O0"], &["-O2"], &["-O3"], &["-O3", "-march=x86-64-v3"]];

fn main() -> ExitCode {
    let (mut quick, mut only, mut with) = (false, Vec::new(), With::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.len()) {
            ("--quick", _) => quick = true,
            ("--windows", _) => with.trace_windows = true,
            ("--flags", 1..) => with.flags = arguments.next(),
            ("--threads", 1..) => with.threads = arguments.next().and_then(|text| text.parse().ok()),
            ("--longer", 1..) => with.longer = arguments.next().and_then(|text| text.parse().ok()),
            ("--only", 1..) => only = arguments.next().unwrap_or_default().split(',').map(String::from).collect(),
            _ => {
                eprintln!(
                    "usage: validate [--quick] [--only NAME,NAME] [--flags FLAGS] [--threads N] [--longer N] [--windows]"
                );
                return ExitCode::from(2);
            }
        }
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    println!(
        "| program | samples | off by | by thread | by range | by cost alone | stated | intervals that hold | half-width | counted | owners |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let built = workloads(quick, &with, &wanted, place.path());
    let built = run(&built, place.path());
    let ordinary = run(&ordinary(&wanted, place.path()), place.path());
    println!();
    summary("workloads", &built);
    summary("ordinary programs", &ordinary);
    ExitCode::SUCCESS
}

/// Ways to build and run workloads, if not all.
#[derive(Default)]
struct With {
    flags: Option<String>,
    threads: Option<u32>,
    /// So many times the work.
    longer: Option<u32>,
    /// Trace windows for workloads, too.
    trace_windows: bool,
}

fn workloads(quick: bool, with: &With, wanted: &dyn Fn(&str) -> bool, dir: &Path) -> Vec<Case> {
    let compilers: &[&str] = if quick { &["gcc"] } else { &["gcc", "clang"] };
    let flags: &[&[&str]] = if quick && with.flags.is_none() { &FLAGS[1..2] } else { &FLAGS };
    let threads = with.threads.map_or(if quick { vec![2] } else { vec![1, 2, 4] }, |threads| vec![threads]);
    let mut cases = Vec::new();
    for (name, readings) in WORKLOADS.into_iter().filter(|(name, _)| wanted(name)) {
        for compiler in compilers {
            for flags in flags.iter().filter(|flags| with.flags.as_ref().is_none_or(|only| *only == flags.join(" "))) {
                let Some(binary) = fixed_work(name, compiler, flags, dir) else {
                    eprintln!("{name}: not built by {compiler} {}", flags.join(" "));
                    continue;
                };
                for &threads in &threads {
                    let seconds = PathBuf::from((f64::from(readings * with.longer.unwrap_or(1)) * READING).to_string());
                    let command = vec![binary.clone(), seconds];
                    let title = format!("{name}, {compiler} {}, {threads} threads", flags.join(" "));
                    let options: &[&str] = if with.trace_windows { &["--windows"] } else { &[] };
                    cases.push(Case { name: title, command, threads, options });
                }
            }
        }
    }
    cases
}

/// Programs that every system has, on text that does not repeat itself.
fn ordinary(wanted: &dyn Fn(&str) -> bool, dir: &Path) -> Vec<Case> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut numbers = String::new();
    let (text, short) = (dir.join("numbers"), dir.join("few-numbers"));
    for n in 0..2_400_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers += &format!("{} {:x}\n", state % 1_000_000, state >> 40);
        if n == 400_000 {
            fs::write(&short, &numbers).expect("write the input");
        }
    }
    fs::write(&text, numbers).expect("write the input");
    let source = dir.join("source.c");
    let functions = (0..300).map(|n| {
        format!(
            "int f{n}(int *p, int n) {{ int s = {n}; for (int i = 0; i < n; i++) s += p[i] * (s % {}); return s; }}\n",
            n + 2
        )
    });
    fs::write(&source, functions.collect::<String>()).expect("write the source");
    let (text, short) = (text.to_string_lossy().into_owned(), short.to_string_lossy().into_owned());
    let source = source.to_string_lossy().into_owned();
    let python = "d = {}\nfor i in range(6000000):\n    d[i * 7919 % 100003] = d.get(i % 1000, 0) + i\nprint(len(d))";
    let sql = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000000) \
               insert into t select i, i * 7919 % 100003 from n; select sum(x.b) from t x where x.b in (select a from t);";
    let compiler = std::process::Command::new("gcc").arg("-print-prog-name=cc1").output().ok();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let commands: [(&str, Vec<&str>); 6] = [
        ("xz", vec!["xz", "-2", "-k", "-f", "-T1", &short]),
        ("gzip", vec!["gzip", "-k", "-f", &text]),
        ("sort", vec!["sort", "--parallel=1", &text]),
        ("python3", vec!["/usr/bin/python3", "-c", python]),
        ("sqlite3", vec!["sqlite3", ":memory:", sql]),
        ("gcc", vec![&compiler, "-quiet", "-O2", "-o", "/dev/null", &source]),
    ];
    let wanted = commands.into_iter().filter(|(name, _)| wanted(name));
    let case = |(name, command): (&str, Vec<&str>)| Case {
        name: name.into(),
        command: command.into_iter().map(PathBuf::from).collect(),
        threads: 1,
        options: &["--windows"],
    };
    wanted.map(case).collect()
}

fn run(cases: &[Case], dir: &Path) -> Vec<Score> {
    let _turn = turns::alone();
    let mut scores = Vec::new();
    for case in cases {
        match measure(case, dir) {
            Ok(score) => {
                let off = score.off;
                let points = [off.objects, off.threads, off.ranges, score.cost];
                println!(
                    "| {} | {} | {} | {} of {} | {} | {} | {:.0} % | {} |",
                    case.name,
                    score.samples,
                    points.map(|share| format!("{:.1}", share * 100.0)).join(" | "),
                    score.stated,
                    score.objects,
                    if score.stated == 0 { "-".into() } else { format!("{} of {}", score.within, score.stated) },
                    middle(&score.widths).map_or("-".into(), |width| format!("{:.1}", width * 100.0)),
                    score.counted * 100.0,
                    score.owners.map_or("-".into(), |owners| format!("{:.1} %", owners * 100.0))
                );
                scores.push(score);
            }
            Err(why) => println!("| {} | not run: {why} | | | | | | | | | |", case.name),
        }
    }
    scores
}

fn summary(what: &str, scores: &[Score]) {
    if scores.is_empty() {
        return;
    }
    let points = |of: fn(&Score) -> f64| {
        let off: Vec<f64> = scores.iter().map(|score| of(score) * 100.0).collect();
        format!("{:.1} / {:.1}", middle(&off).unwrap_or_default(), off.iter().copied().fold(0.0, f64::max))
    };
    let widths: Vec<f64> = scores.iter().flat_map(|score| score.widths.iter().copied()).collect();
    let sum = |of: fn(&Score) -> usize| scores.iter().map(of).sum::<usize>();
    println!(
        "{what}: {} cases, median / worst {} points by object, {} by thread, {} by range; {} of {} objects stated, \
         {} of {} intervals hold the exact share, median half-width {:.1}",
        scores.len(),
        points(|score| score.off.objects),
        points(|score| score.off.threads),
        points(|score| score.off.ranges),
        sum(|score| score.stated),
        sum(|score| score.objects),
        sum(|score| score.within),
        sum(|score| score.stated),
        middle(&widths).unwrap_or_default() * 100.0,
    );
}

/// The median; of an even number the upper one of the middle two.
fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
