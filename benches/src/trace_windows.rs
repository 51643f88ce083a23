//! Cost of trace windows (`record --windows`): wall time of loops of `benches/programs/ablation.c`, timed by
//! themselves, natively, recorded and recorded with trace windows in turn in each round.

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use crate::measure;
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured};

/// Loops, the arrays that they keep in the cache, and rounds that take two seconds or so.
const CASES: [(&str, &str, u64); 2] = [("streams", "-", 300_000_000), ("gathers", "-", 80_000_000)];

/// Wall seconds of the loop.
struct Round {
    native: f64,
    recorded: f64,
    followed: f64,
    /// Trace windows, and the part (0..1) of the loop's time that they say they took.
    taken: f64,
    stopped: f64,
}

pub fn run(bench: &Bench) -> Measured {
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for (name, near, count) in CASES {
        let count = if bench.quick { count / 4 } else { count };
        let command: Vec<OsString> =
            vec![bench.program("ablation").into(), name.into(), near.into(), count.to_string().into()];
        let rounds: Vec<Round> =
            (0..bench.rounds(9, 2)).map(|_| round(bench, &command)).collect::<Result<_, Failure>>()?;
        let percent = |value: fn(&Round) -> f64| Spread::over(&rounds, value).times(100.0);
        let line = |what: &str, reached: String| Line::beside(format!("trace windows, {name}: {what}"), reached);
        lines.push(line("recording, wall time", format!("{:+.1} %", percent(|r| r.recorded / r.native - 1.0))));
        lines
            .push(line("and trace windows beside it", format!("{:+.1} %", percent(|r| r.followed / r.recorded - 1.0))));
        let reached = format!("{:.0}, {:.1} % of the time", Spread::over(&rounds, |r| r.taken), percent(|r| r.stopped));
        lines.push(line("threads stopped", reached));
        let rounds: Vec<Value> = rounds
            .iter()
            .map(|r| json!({ "native_s": r.native, "recorded_s": r.recorded, "followed_s": r.followed, "taken": r.taken }))
            .collect();
        raw.insert(name.into(), rounds.into());
    }
    Ok((lines, Value::Object(raw)))
}

fn round(bench: &Bench, command: &[OsString]) -> Result<Round, Failure> {
    let dir = bench.scratch.path().join("trace_windows");
    let native = seconds(&measure::run(bench, None, command)?)?;
    let recorded = seconds(&measure::recorded(bench, &dir, &[], command)?)?;
    let followed = seconds(&measure::recorded(bench, &dir, &["--windows"], command)?)?;
    let whole = measure::meta(&dir)?;
    let trace_windows = &whole["sampler"]["trace_windows"];
    let of = |name: &str| {
        trace_windows[name].as_f64().ok_or_else(|| format!("meta.json has no sampler.trace_windows.{name}"))
    };
    let time = |name: &str| whole[name].as_f64().ok_or_else(|| format!("meta.json has no {name}"));
    Ok(Round {
        native,
        recorded,
        followed,
        taken: of("taken")?,
        stopped: of("stopped")? / (time("end")? - time("start")?),
    })
}

/// Wall time of the loop, as the program says it.
fn seconds(used: &measure::Used) -> Result<f64, Failure> {
    Ok(used.stdout.split_whitespace().next().ok_or("the program does not say its times")?.parse()?)
}
