//! How long a program takes whose accesses are all counted: by hooks of its own, and in the emulator.
//!
//! Loops of `benches/programs/ablation.c`, timed by themselves, as CPU time; natively, with hooks and emulated in turn in each round.

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use crate::measure;
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured};

/// A loop: its name in the program, the arrays that it keeps in the cache, what it is, and rounds that take a quarter of a second.
struct Case {
    name: &'static str,
    near: &'static str,
    what: &'static str,
    rounds: u64,
    /// Accesses in a round.
    accesses: u64,
}

const CASES: [Case; 3] = [
    Case { name: "streams", near: "abc", what: "three arrays in the cache", rounds: 150_000_000, accesses: 3 },
    Case { name: "streams", near: "-", what: "three arrays read in order", rounds: 40_000_000, accesses: 3 },
    Case { name: "gathers", near: "-", what: "two arrays read at random", rounds: 15_000_000, accesses: 2 },
];

/// CPU seconds of the loop.
struct Round {
    native: f64,
    hooks: f64,
    emulated: f64,
}

pub fn run(bench: &Bench) -> Measured {
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for case in &CASES {
        let rounds: Vec<Round> = (0..bench.rounds(7, 2)).map(|_| round(bench, case)).collect::<Result<_, Failure>>()?;
        let count = (case.rounds / if bench.quick { 4 } else { 1 } * case.accesses) as f64;
        let each = |value: fn(&Round) -> f64| Spread::over(&rounds, value).times(1e9 / count);
        let title = format!("every access counted, {} ({})", case.name, case.what);
        let line = |how: &str, seconds: fn(&Round) -> f64, times: fn(&Round) -> f64| {
            let times = Spread::over(&rounds, times);
            Line::beside(format!("{title}: {how}"), format!("{:.1} ns an access, {times:.1}x", each(seconds)))
        };
        lines.push(Line::beside(format!("{title}: native"), format!("{:.2} ns an access", each(|r| r.native))));
        lines.push(line("by hooks", |r| r.hooks, |r| r.hooks / r.native));
        lines.push(line("emulated", |r| r.emulated, |r| r.emulated / r.native));
        let rounds: Vec<Value> = rounds
            .iter()
            .map(|r| json!({ "native_s": r.native, "hooks_s": r.hooks, "emulated_s": r.emulated }))
            .collect();
        raw.insert(format!("{} {}", case.name, case.near), rounds.into());
    }
    Ok((lines, Value::Object(raw)))
}

fn round(bench: &Bench, case: &Case) -> Result<Round, Failure> {
    let rounds = if bench.quick { case.rounds / 4 } else { case.rounds };
    let command = |program: &str| -> Vec<OsString> {
        vec![bench.program(program).into(), case.name.into(), case.near.into(), rounds.to_string().into()]
    };
    let dir = bench.scratch.path().join("exact");
    let counted =
        |program: &str| measure::recorded(bench, &dir, &["--sampler", "exact"], &command(program)).and_then(seconds);
    Ok(Round {
        native: measure::run(bench, None, &command("ablation")).and_then(seconds)?,
        hooks: counted("ablation-hooks")?,
        emulated: counted("ablation")?,
    })
}

/// CPU time of the loop, as the program says it.
fn seconds(used: measure::Used) -> Result<f64, Failure> {
    Ok(used.stdout.split_whitespace().nth(1).ok_or("the program does not say its times")?.parse()?)
}
