//! Holds predictions against runs in the lab, for the documentation.
//!
//! `lab-table [--only NAME,NAME] [--lab NAME] [--repeat N] [--keep DIR [--again]]`
//!
//! Each program is recorded once for each guest, on this machine; its run under first touch in the guest calibrates, the others are predicted. `--again`
//! predicts for the recordings, runs and plans that an earlier call left in DIR.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use numamma_tests::random::Random;
use numamma_tests::simulated::{Lab, POLICIES, Predicted, Program, Reached, plan, predict};
use numamma_tests::validation::fixed_work;
use numamma_tests::{build, skip, turns};

const LABS: [Lab; 4] = [
    Lab { name: "flat 4", nodes: 4, distance: "flat", delay: 60_000, queue: 30_000 },
    Lab { name: "ring 4", nodes: 4, distance: "ring", delay: 60_000, queue: 30_000 },
    Lab { name: "asym 4", nodes: 4, distance: "asym", delay: 30_000, queue: 30_000 },
    Lab { name: "ring 8", nodes: 8, distance: "ring", delay: 30_000, queue: 30_000 },
];

/// Programs, and the labs in which each runs.
const WHERE: [(&str, &[usize]); 10] = [
    ("master_init", &[1, 3]),
    ("block", &[0, 2]),
    ("blockcyclic", &[0, 1]),
    ("triad", &[1, 2]),
    ("gather", &[0, 3]),
    ("kmeans", &[1, 2]),
    ("jacobi", &[0, 1]),
    ("pigz", &[1, 2]),
    ("xz", &[0, 2]),
    ("zstd", &[1, 3]),
];

/// Points of the remote share and of the time over first touch that a prediction may be off.
const REMOTE: f64 = 0.03;
const GAIN: f64 = 0.10;
/// Policies whose times differ by less have no order.
const APART: f64 = 0.05;

fn main() -> ExitCode {
    let (mut only, mut guest, mut repeat, mut keep, mut again) = (Vec::new(), None, 2, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--again" {
            again = true;
            continue;
        }
        match (argument.as_str(), arguments.next()) {
            ("--only", Some(names)) => only = names.split(',').map(String::from).collect(),
            ("--lab", Some(name)) => guest = Some(name),
            ("--repeat", Some(times)) => repeat = times.parse().unwrap_or(repeat),
            ("--keep", Some(dir)) => keep = Some(PathBuf::from(dir)),
            _ => {
                eprintln!("usage: lab-table [--only NAME,NAME] [--lab NAME] [--repeat N] [--keep DIR [--again]]");
                return ExitCode::from(2);
            }
        }
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let dir = keep.unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&dir).expect("a folder");
    let programs = programs(&dir);
    println!(
        "| program | lab | policy | remote predicted | lab | time over first touch predicted | lab | scatter | holds |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---|");
    let _turn = turns::alone();
    let mut score = Score::default();
    for (at, lab) in LABS.iter().enumerate().filter(|(_, lab)| guest.as_deref().is_none_or(|name| name == lab.name)) {
        let runs_here = |program: &&Program| {
            let is_wanted = only.is_empty() || only.contains(&program.name);
            is_wanted && WHERE.iter().any(|(name, labs)| *name == program.name && labs.contains(&at))
        };
        let machine = lab.machine(&dir);
        for program in programs.iter().filter(runs_here) {
            match measure(lab, program, &machine, repeat, again, &dir) {
                Ok(rows) => score.add(&rows),
                Err(why) => println!("| {} | {} | not run: {why} | | | | | | |", program.name, lab.name),
            }
        }
    }
    println!("\n{score}");
    ExitCode::SUCCESS
}

/// Programs with their inputs; what is not installed is left out, and said.
fn programs(dir: &Path) -> Vec<Program> {
    let program = |name: &str, path: &Path, arguments: &str| Program {
        name: name.into(),
        command: [path.to_string_lossy().as_ref()]
            .into_iter()
            .chain(arguments.split_whitespace())
            .map(|argument| argument.replace("{DIR}", &dir.to_string_lossy()))
            .collect(),
    };
    let mut programs = Vec::new();
    for (name, seconds, parts) in [
        ("master_init", "0.035", 8),
        ("block", "0.015", 4),
        ("blockcyclic", "0.015", 4),
        ("triad", "0.015", 8),
        ("gather", "0.015", 8),
    ] {
        let binary = fixed_work(name, "gcc", &["-O2", &format!("-DWORKLOAD_PARTS={parts}")], dir).expect("gcc");
        programs.push(program(name, &binary, seconds));
    }
    for (name, rounds) in [("kmeans", "3"), ("jacobi", "6")] {
        let source = build::root().join("tests/helpers").join(name).with_extension("c");
        let binary = dir.join(name);
        let built = Command::new("gcc").args(["-O2", "-g", "-fopenmp", "-o"]).arg(&binary).arg(&source).status();
        assert!(built.is_ok_and(|status| status.success()), "cannot compile {}", source.display());
        programs.push(program(name, &binary, rounds));
    }
    inputs(dir);
    for (name, arguments) in [
        ("pigz", "-p {N} -b 128 -k -f {DIR}/numbers"),
        ("xz", "-T{N} -0 --block-size=32KiB -k -f {DIR}/short"),
        ("zstd", "-q -T{N} -3 -B64K -k -f {DIR}/short -o /dev/null"),
    ] {
        let path = Path::new("/usr/bin").join(name);
        if path.is_file() {
            programs.push(program(name, &path, arguments));
        } else {
            skip::skipped(name, "it is not installed");
        }
    }
    programs
}

/// Text that does not repeat itself, and a part of it.
fn inputs(dir: &Path) {
    let mut random = Random::new(0);
    let lines = (0..50_000).map(|_| format!("{} {:x}\n", random.below(1_000_000), random.bits() >> 40));
    let numbers = lines.collect::<String>();
    fs::write(dir.join("short"), &numbers[..1 << 17]).expect("write the input");
    fs::write(dir.join("numbers"), numbers).expect("write the input");
}

/// A program under a policy in a lab. Times are parts of that under first touch.
struct Row {
    policy: String,
    predicted: Predicted,
    reached: Reached,
    /// Largest distance between runs, as a part of the shortest.
    scatter: f64,
}

fn measure(
    lab: &Lab,
    program: &Program,
    machine: &Path,
    repeat: usize,
    again: bool,
    dir: &Path,
) -> Result<Vec<Row>, String> {
    let dir = &dir.join(format!("{}-{}", program.name, lab.name.replace(' ', "-")));
    fs::create_dir_all(dir).expect("a folder");
    let (dataset, plan) = (dir.join("recorded"), dir.join("plan.toml"));
    let runs = if again { kept(dir).ok_or("no runs were kept")? } else { run(lab, program, machine, repeat, dir)? };
    let objects = fs::read_to_string(&plan).map_or(0, |plan| plan.matches("[[object]]").count());
    let first_s = best(&runs[0]).seconds;
    let calibration = format!("first-touch={first_s}");
    let predicted = predict(&dataset, machine, &plan, &calibration);
    let mut rows = Vec::new();
    let names = POLICIES.map(|(name, _)| name).into_iter().chain((objects > 0).then_some("plan"));
    for (runs, name) in runs.iter().zip(names) {
        let mut predicted = predicted(name).ok_or("not predicted")?;
        let mut reached = best(runs);
        let times = runs.iter().map(|run| run.seconds);
        let scatter = (times.clone().fold(0.0, f64::max) - times.fold(f64::MAX, f64::min)) / reached.seconds;
        predicted.seconds.iter_mut().for_each(|seconds| *seconds /= first_s);
        reached.seconds /= first_s;
        let policy = if name == "plan" { format!("plan ({objects})") } else { name.to_owned() };
        rows.push(Row { policy, predicted, reached, scatter });
    }
    let faults: Vec<String> = (0..rows.len()).map(|at| faults(&rows, at).join(", ")).collect();
    for (row, faults) in rows.iter().zip(faults) {
        let percent = |part: f64| format!("{:.0}", 100.0 * part);
        let [time, low, high] = row.predicted.seconds.map(percent);
        println!(
            "| {} | {} | {} | {:.1} % | {:.1} % | {time} ({low}-{high}) % | {} % | {} % | {} |",
            program.name,
            lab.name,
            row.policy,
            100.0 * row.predicted.remote,
            100.0 * row.reached.remote,
            percent(row.reached.seconds),
            percent(row.scatter),
            if faults.is_empty() { "yes" } else { &faults },
        );
    }
    if objects == 0 {
        println!("| {} | {} | plan | leaves all to first touch | | | | | |", program.name, lab.name);
    }
    eprintln!("{} in {}: {first_s:.1} s under first touch", program.name, lab.name);
    Ok(rows)
}

/// Records the program, and runs it under each policy, and under its plan where that places anything.
fn run(lab: &Lab, program: &Program, machine: &Path, repeat: usize, dir: &Path) -> Result<Vec<Vec<Reached>>, String> {
    let dataset = lab.record(program, dir)?;
    let mut runs: Vec<Vec<Reached>> = vec![Vec::new(); POLICIES.len() + 1];
    for _ in 0..repeat {
        for (runs, (_, policy)) in runs.iter_mut().zip(POLICIES) {
            runs.push(lab.reach(program, &["--policy", policy], dir)?);
        }
    }
    let calibration = format!("first-touch={}", best(&runs[0]).seconds);
    let (plan, objects) = plan(&dataset, machine, program, &calibration, dir);
    if objects > 0 {
        for _ in 0..repeat {
            runs[POLICIES.len()].push(lab.reach(program, &[&plan.to_string_lossy()], dir)?);
        }
    }
    let line = |runs: &Vec<Reached>| {
        runs.iter().map(|run| format!("{} {}", run.remote, run.seconds)).collect::<Vec<_>>().join(" ")
    };
    fs::write(dir.join("runs"), runs.iter().map(line).collect::<Vec<_>>().join("\n")).expect("write the runs");
    Ok(runs)
}

/// What [`run`] left: for each placement a line, with the remote share and the seconds of each run.
fn kept(dir: &Path) -> Option<Vec<Vec<Reached>>> {
    let text = fs::read_to_string(dir.join("runs")).ok()?;
    let line = |line: &str| {
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.chunks_exact(2).map(|run| Reached { remote: run[0], seconds: run[1] }).collect()
    };
    Some(text.lines().map(line).collect())
}

/// The quickest run, as what else runs on the host only adds time, with the mean share of all.
fn best(runs: &[Reached]) -> Reached {
    let remote = runs.iter().map(|run| run.remote).sum::<f64>() / runs.len() as f64;
    Reached { remote, seconds: runs.iter().map(|run| run.seconds).fold(f64::MAX, f64::min) }
}

impl Row {
    fn is_remote_right(&self) -> bool {
        (self.predicted.remote - self.reached.remote).abs() <= REMOTE
    }

    fn is_gain_right(&self) -> bool {
        (self.predicted.seconds[0] - self.reached.seconds).abs() <= GAIN
    }

    fn is_within(&self) -> bool {
        (self.predicted.seconds[1]..=self.predicted.seconds[2]).contains(&self.reached.seconds)
    }

    /// True if the two come in the predicted order; `None` if they take about the same time.
    fn is_order_right(&self, other: &Row) -> Option<bool> {
        let (a, b) = (self.reached.seconds, other.reached.seconds);
        let least = APART.max(self.scatter).max(other.scatter) * a.min(b);
        let is_right = (a < b) == (self.predicted.seconds[0] < other.predicted.seconds[0]);
        ((a - b).abs() > least).then_some(is_right)
    }
}

/// What does not hold of the row; of the first one, which calibrates, only the remote share is predicted.
fn faults(rows: &[Row], at: usize) -> Vec<&'static str> {
    let row = &rows[at];
    let is_predicted = at > 0;
    let wrong_order = rows[..at].iter().any(|other| row.is_order_right(other) == Some(false));
    [
        (!row.is_remote_right(), "remote"),
        (is_predicted && !row.is_gain_right(), "time"),
        (is_predicted && !row.is_within(), "interval"),
        (wrong_order, "order"),
    ]
    .into_iter()
    .filter_map(|(is, fault)| is.then_some(fault))
    .collect()
}

/// How many statements were right, of how many.
#[derive(Default)]
struct Score {
    remote: (usize, usize),
    orders: (usize, usize),
    gains: (usize, usize),
    within: usize,
}

impl Score {
    fn add(&mut self, rows: &[Row]) {
        for (at, row) in rows.iter().enumerate() {
            count(&mut self.remote, row.is_remote_right());
            rows[..at].iter().filter_map(|other| row.is_order_right(other)).for_each(|is| count(&mut self.orders, is));
            if at > 0 {
                count(&mut self.gains, row.is_gain_right());
                self.within += usize::from(row.is_within());
            }
        }
    }
}

fn count((right, all): &mut (usize, usize), is_right: bool) {
    *right += usize::from(is_right);
    *all += 1;
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Score { remote, orders, gains, within } = self;
        write!(
            f,
            "{} of {} remote shares within 3 points; {} of {} orders right; ",
            remote.0, remote.1, orders.0, orders.1
        )?;
        write!(f, "{} of {} times within 10 points of first touch, {within} in their interval", gains.0, gains.1)
    }
}
