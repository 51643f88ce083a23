//! Estimated counts against exact ones: the same work is recorded by the emulator, which counts every access, and by the clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::comparison::Comparison;
use crate::{Run, build};

/// Objects with less than this part of the accesses, in both recordings, say nothing about intervals.
const SMALL: f64 = 0.005;

/// What is recorded twice.
#[derive(Clone, Debug)]
pub struct Case {
    /// A line of the table.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<PathBuf>,
    /// OpenMP threads.
    pub threads: u32,
}

/// How far the estimate is off.
#[derive(Clone, Debug)]
pub struct Score {
    /// Total variation between the shares of accesses by object (0..1).
    pub accesses: f64,
    /// The same of the shares of cost, which time samples give without an estimate.
    pub cost: f64,
    /// Objects that are not small.
    pub stated: usize,
    /// Those of them whose exact share lies within the stated interval.
    pub within: usize,
    /// The part of the samples whose counts have a ground.
    pub counted: f64,
    /// The part of the pages that have the owner that exact counts give, of those that have one.
    pub owners: Option<f64>,
}

/// Builds `workloads/NAME` with those flags so that its work does not depend on its speed: each reading of the clock is `READING`
/// seconds. `None` if the compiler is not there or does not know a flag.
pub fn fixed_work(name: &str, compiler: &str, flags: &[&str], dir: &Path) -> Option<PathBuf> {
    let sources = build::root().join("workloads");
    let source =
        ["c", "cpp"].iter().map(|ending| sources.join(name).with_extension(ending)).find(|file| file.is_file())?;
    let compiler = match (compiler, source.extension()?.to_str()?) {
        ("gcc", "cpp") => "g++",
        ("clang", "cpp") => "clang++",
        (other, _) => other,
    };
    let binary = dir.join(format!("{name}-{compiler}{}", flags.concat()));
    let reading = format!("-DWORKLOAD_READING={READING}");
    let built = Command::new(compiler)
        .args(["-g", "-fopenmp", &reading])
        .args(flags)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output();
    built.is_ok_and(|output| output.status.success()).then_some(binary)
}

/// Seconds that a reading of the clock takes in [`fixed_work`].
pub const READING: f64 = 0.01;

#[derive(Deserialize)]
struct Meta {
    sampler: SamplerMeta,
}

#[derive(Deserialize)]
struct SamplerMeta {
    #[serde(default)]
    counted: f64,
}

/// Records a case both ways and compares. `Err`: why it cannot be recorded exactly.
pub fn measure(case: &Case, dir: &Path) -> Result<Score, String> {
    let record = |name: &str, options: &[&str]| {
        let dataset = dir.join(name).with_extension("numamma");
        let run =
            Run::numamma().args(["record", "--force", "-o"]).arg(&dataset).args(options).arg("--").args(&case.command);
        let run = run.env("OMP_NUM_THREADS", case.threads.to_string()).env("OMP_WAIT_POLICY", "passive");
        (dataset, run.limit(900).run())
    };
    let (exact, outcome) = record("exact", &["--sampler", "exact"]);
    if outcome.status.code() != Some(0) {
        return Err(outcome.err().lines().last().unwrap_or_default().to_owned());
    }
    let (clock, outcome) = record("clock", &[]);
    outcome.success();
    let comparison = Comparison::of(&exact, &clock, &["--reference", "a", "--top", "0"]);
    let meta: Meta = serde_json::from_slice(&fs::read(clock.join("meta.json")).expect("its meta")).expect("JSON");
    Ok(score(&comparison, meta.sampler.counted))
}

fn score(comparison: &Comparison, counted: f64) -> Score {
    let mut score = Score { accesses: 0.0, cost: 0.0, stated: 0, within: 0, counted, owners: None };
    for object in &comparison.objects {
        let share = object.accesses.share;
        score.accesses += (share.b - share.a).abs() / 2.0;
        score.cost += (object.cost.share.b - share.a).abs() / 2.0;
        if share.a.max(share.b) >= SMALL
            && let Some(error) = share.b_error
        {
            score.stated += 1;
            score.within += usize::from((share.b - share.a).abs() <= error);
        }
    }
    for object in &comparison.only_a {
        score.accesses += object.accesses.share / 2.0;
        score.cost += object.accesses.share / 2.0;
    }
    for object in &comparison.only_b {
        score.accesses += object.accesses.share / 2.0;
        score.cost += object.cost.share / 2.0;
    }
    score.owners = comparison.ownership.as_ref().and_then(|ownership| ownership.thread.accuracy_by_accesses);
    score
}
