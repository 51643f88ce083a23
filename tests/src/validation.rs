//! Estimated counts against exact ones: the same work is recorded by the emulator, which counts every access, and by the clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::comparison::Comparison;
use crate::variation::{Counts, Variation, variation};
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
    /// Options of the recording by the clock.
    pub options: &'static [&'static str],
}

/// How far the estimate is off.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Total variation between the shares of accesses.
    pub off: Variation,
    /// The same by object if the share of time were taken for the share of accesses, which needs no estimate.
    pub cost: f64,
    /// Samples at data accesses.
    pub samples: u64,
    /// Objects that are not small.
    pub objects: usize,
    /// Those of them whose share the report states: the others have no basis for a number ("cost only").
    pub stated: usize,
    /// Those of the stated ones whose exact share lies within the stated interval.
    pub within: usize,
    /// The half-widths of these intervals.
    pub widths: Vec<f64>,
    /// The part of the samples whose counts have a basis.
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

/// The emulated processor lacks these: the C library would copy and compare memory by other code there, with other accesses.
const SAME_LIBC: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-ERMS,-FSRM,-RTM";

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
        let run = run.env("GLIBC_TUNABLES", SAME_LIBC);
        (dataset, run.limit(900).run())
    };
    let (exact, outcome) = record("exact", &["--sampler", "exact"]);
    if outcome.status.code() != Some(0) {
        return Err(outcome.err().lines().last().unwrap_or_default().to_owned());
    }
    let (clock, outcome) = record("clock", case.options);
    outcome.success();
    let comparison = Comparison::of(&exact, &clock, &["--reference", "a", "--top", "0"]);
    let meta: Meta = serde_json::from_slice(&fs::read(clock.join("meta.json")).expect("its meta")).expect("JSON");
    let off = variation(&Counts::of(&exact), &Counts::of(&clock), &comparison);
    Ok(score(&comparison, off, meta.sampler.counted))
}

fn score(comparison: &Comparison, off: Variation, counted: f64) -> Score {
    let mut score = Score { off, samples: comparison.b.data_samples, counted, ..Score::default() };
    for object in &comparison.objects {
        let share = object.accesses.share;
        score.cost += (object.cost.share.b - share.a).abs() / 2.0;
        score.object(share.a, share.b, object.accesses.basis.b, share.b_error);
    }
    for object in &comparison.only_a {
        score.cost += object.accesses.share / 2.0;
        // Nothing is stated of what was not found.
        score.objects += usize::from(object.accesses.share >= SMALL);
    }
    for object in &comparison.only_b {
        score.cost += object.cost.share / 2.0;
        score.object(0.0, object.accesses.share, object.accesses.basis, object.accesses.error);
    }
    score.owners = comparison.ownership.as_ref().and_then(|ownership| ownership.thread.accuracy);
    score
}

impl Score {
    /// Counts an object, if it is not small: its exact share of the accesses, and what is stated of it.
    fn object(&mut self, exact: f64, estimated: f64, basis: Option<f64>, error: Option<f64>) {
        if exact.max(estimated) < SMALL {
            return;
        }
        self.objects += 1;
        if let Some(error) = error.filter(|_| is_stated(basis)) {
            self.stated += 1;
            self.within += usize::from((estimated - exact).abs() <= error);
            self.widths.push(error);
        }
    }
}

/// True if a report states a count of which that part has a basis, as docs/REPORT.md promises.
fn is_stated(basis: Option<f64>) -> bool {
    basis.is_none_or(|basis| basis >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stated_is_no_claim() {
        let mut score = Score::default();
        score.object(0.5, 0.4, Some(0.9), Some(0.2));
        score.object(0.5, 0.4, Some(0.9), Some(0.05));
        // Cost only, and too small to tell.
        score.object(0.5, 0.1, Some(0.4), Some(0.2));
        score.object(0.004, 0.003, Some(1.0), Some(0.0));
        assert_eq!((score.objects, score.stated, score.within), (3, 2, 1));
        assert_eq!(score.widths, [0.2, 0.05]);
    }
}
