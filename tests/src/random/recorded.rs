//! A random program, built, counted, recorded and judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::claims::{Claim, claims};
use super::exact::{Counts, count, record, report};
use super::program::{Language, Program};
use crate::Run;

/// Seconds of CPU time that a recorded program takes, about.
const SECONDS: f64 = 1.5;
/// Rounds that tell how long one takes.
const TRIAL: u64 = 4;

/// How a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mode {
    Default,
    TraceWindows,
}

impl Mode {
    /// Both.
    pub const ALL: [Mode; 2] = [Mode::Default, Mode::TraceWindows];

    /// As a word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TraceWindows => "windows",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::TraceWindows => &["--windows"],
        }
    }
}

/// Judges what is stated of a seed's program. Exact counts are kept in `dir` for the next time, and the recordings, which are not made anew
/// if `again`.
pub fn judge(program: &Program, mode: Mode, dir: &Path, again: bool) -> Vec<Claim> {
    let dir = dir.join(program.seed.to_string());
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let (source, binary) = build(program, &dir);
    let exact = count(&binary, &source, &dir.join("exact.json"));
    let dataset = dir.join(mode.name()).with_extension("numamma");
    let rounds = dir.join(format!("{}.rounds", mode.name()));
    let kept = fs::read_to_string(&rounds).ok().and_then(|text| text.parse().ok()).filter(|_| again);
    let made = kept.unwrap_or_else(|| {
        let number = rounds_of(&binary);
        record(&dataset, mode.options(), &binary, number).run().success();
        fs::write(&rounds, number.to_string()).expect("keep the number of rounds");
        number
    });
    claims(program, &report(&dataset), &Counts::at(&exact, made as f64))
}

/// Source and binary.
fn build(program: &Program, dir: &Path) -> (String, PathBuf) {
    let (ending, compiler) = match (program.language, program.clang) {
        (Language::C, false) => ("c", "gcc"),
        (Language::C, true) => ("c", "clang"),
        (Language::Cpp, false) => ("cpp", "g++"),
        (Language::Cpp, true) => ("cpp", "clang++"),
        (Language::Fortran, _) => ("f90", "gfortran"),
    };
    let (source, file, binary) = (program.source(), dir.join("program").with_extension(ending), dir.join("program"));
    if binary.is_file() && fs::read_to_string(&file).is_ok_and(|text| text == source) {
        return (source, binary);
    }
    fs::write(&file, &source).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let team = if program.openmp { "-fopenmp" } else { "-pthread" };
    // Where a compiler writes files of its own (Fortran's modules), they stay beside the program.
    let mut compile = Command::new(compiler);
    compile.args(["-g", "-w", program.level, team, "-o"]).arg(&binary).arg(&file).current_dir(dir);
    let built = compile.output();
    let built = built.unwrap_or_else(|e| panic!("{compiler}: {e}"));
    let message = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "seed {}: {}\n{message}\n{source}", program.seed, program.title());
    (source, binary)
}

/// As many rounds as take [`SECONDS`] of CPU time, whatever else the machine does.
fn rounds_of(binary: &Path) -> u64 {
    let seconds = |rounds: u64| -> f64 {
        let run = Run::new(binary).arg(rounds.to_string()).env("OMP_WAIT_POLICY", "passive").limit(300).run().success();
        run.out().split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
    };
    let (none, some) = (seconds(0), seconds(TRIAL));
    let each = ((some - none) / TRIAL as f64).max(1e-4);
    ((SECONDS / each).round() as u64).clamp(3, 20_000)
}
