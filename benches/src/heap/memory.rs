//! What many live allocations take: in the program beyond its own, and in the recorder.

use std::ffi::OsString;

use serde_json::json;

use super::{number, tools};
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured, measure};

/// Bytes, as benches/programs/many.c says them.
struct Memory {
    /// Of the program, without shared memory.
    own: f64,
    /// Shared memory of the program: the rings.
    shared: f64,
    /// Of the recorder, without shared memory.
    recorder: f64,
    lost: u64,
}

struct Round {
    native: Memory,
    recorded: Memory,
    /// As many allocations, but few live ones: what the recorder takes anyway.
    few: Memory,
}

const MIB: f64 = (1 << 20) as f64;

pub fn run(bench: &Bench) -> Measured {
    let (count, live) = if bench.quick { (1_000_000, 200_000) } else { (50_000_000, 20_000_000) };
    let mut rounds = Vec::new();
    for _ in 0..bench.rounds(3, 1) {
        rounds.push(Round {
            native: measured(bench, count, live, false)?,
            recorded: measured(bench, count, live, true)?,
            few: measured(bench, count, 1000, true)?,
        });
    }
    let title = format!("{} M allocations, {:.1} M live", count / 1_000_000, live as f64 / 1e6);
    let line = |what: &str, reached: String| Line::beside(format!("{title}: {what}"), reached);
    let budget = |what: &str, asked: &str, reached, met| Line::budget(format!("{title}: {what}"), asked, reached, met);
    let over = |value: fn(&Round) -> f64| Spread::over(&rounds, value);
    let beyond = over(|r| (r.recorded.own - r.native.own) / MIB);
    let each = Spread::over(&rounds, |r| (r.recorded.recorder - r.few.recorder) / live as f64);
    let lost: u64 = rounds.iter().map(|r| r.recorded.lost + r.few.lost).sum();
    let lines = vec![
        line("the program natively", format!("{:.1} MiB", over(|r| r.native.own / MIB))),
        budget("the program beyond that", "<= 4 MiB", format!("{:.1} MiB", beyond), beyond.median <= 4.0),
        line("shared rings", format!("{:.1} MiB", over(|r| r.recorded.shared / MIB))),
        line("the recorder", format!("{:.1} MiB", over(|r| r.recorded.recorder / MIB))),
        line("the recorder with 1000 live ones", format!("{:.1} MiB", over(|r| r.few.recorder / MIB))),
        budget("the recorder, each live allocation", "<= 64 bytes", format!("{each:.1} bytes"), each.median <= 64.0),
        Line::budget(format!("{title}: losses"), "none", lost.to_string(), lost == 0),
    ];
    let numbers = |m: &Memory| json!([m.own, m.shared, m.recorder, m.lost]);
    let raw: Vec<_> =
        rounds.iter().map(|r| json!([numbers(&r.native), numbers(&r.recorded), numbers(&r.few)])).collect();
    Ok((lines, json!({ "native_recorded_few_own_shared_recorder_lost": raw })))
}

fn measured(bench: &Bench, count: u64, live: u64, recorded: bool) -> Result<Memory, Failure> {
    let command: [OsString; 3] = [bench.program("many").into(), count.to_string().into(), live.to_string().into()];
    let dir = tools::dataset(bench);
    let used = match recorded {
        true => measure::recorded(bench, &dir, &[], &command)?,
        false => measure::run(bench, None, &command)?,
    };
    let lost = match recorded {
        true => measure::lost(&measure::meta(&dir)?).iter().map(|(_, count)| count).sum(),
        false => 0,
    };
    let of = |name| number(&used.stdout, name);
    Ok(Memory { own: of("own")?, shared: of("shared")?, recorder: of("parent")?, lost })
}
