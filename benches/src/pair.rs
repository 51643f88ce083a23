//! What a malloc and its free cost when both are recorded with the full call stack.

use std::ffi::OsString;

use serde_json::json;

use crate::measure;
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured};

/// Nanoseconds of a pair, the best of the program's own seven turns.
struct Round {
    native: f64,
    /// With the library, drained by the least possible recorder.
    library: f64,
    /// Under `numamma record`.
    recorded: f64,
    /// Under `numamma apply`, with a plan that is about larger objects.
    placed: f64,
    lost: u64,
}

pub fn run(bench: &Bench) -> Measured {
    let mut rounds = Vec::new();
    for _ in 0..bench.rounds(11, 2) {
        rounds.push(round(bench)?);
    }
    let library = Spread::over(&rounds, |r| r.library / r.native);
    let recorded = Spread::over(&rounds, |r| r.recorded / r.native);
    let placed = Spread::over(&rounds, |r| r.placed / r.native);
    let lost: u64 = rounds.iter().map(|r| r.lost).sum();
    let lines = vec![
        Line::budget(
            "malloc and free, 13 frames deep: library / native",
            "<= 3x",
            format!("{library:.2}x"),
            library.median <= 3.0,
        ),
        Line::budget(
            "malloc and free, 13 frames deep: recorded / native",
            "<= 3x",
            format!("{recorded:.2}x"),
            recorded.median <= 3.0,
        ),
        Line::budget(
            "malloc and free under a plan without a match / native",
            "<= 1.3x",
            format!("{placed:.2}x"),
            placed.median <= 1.3,
        ),
        Line::budget("malloc and free: losses", "none", lost.to_string(), lost == 0),
        Line::beside("malloc and free: native", format!("{:.1} ns", Spread::over(&rounds, |r| r.native))),
        Line::beside("malloc and free: with the library", format!("{:.1} ns", Spread::over(&rounds, |r| r.library))),
        Line::beside("malloc and free: recorded", format!("{:.1} ns", Spread::over(&rounds, |r| r.recorded))),
    ];
    let raw: Vec<_> = rounds.iter().map(|r| json!([r.native, r.library, r.recorded, r.placed, r.lost])).collect();
    Ok((lines, json!({ "native_library_recorded_placed_ns_lost": raw })))
}

fn round(bench: &Bench) -> Result<Round, Failure> {
    let pair: [OsString; 1] = [bench.program("pair").into()];
    let drained = [bench.built("examples/record").into(), pair[0].clone()];
    let dir = bench.scratch.path().join("pair");
    let native = nanoseconds(&measure::run(bench, None, &pair)?.stdout)?;
    let library = nanoseconds(&measure::run(bench, None, &drained)?.stdout)?;
    let recorded = nanoseconds(&measure::recorded(bench, &dir, &[], &pair)?.stdout)?;
    let lost = measure::lost(&measure::meta(&dir)?).iter().map(|(_, count)| count).sum();
    let apply =
        [bench.numamma().into(), "apply".into(), "--quiet".into(), "--policy".into(), "block".into(), "--".into()];
    let placed = [&apply[..], &pair].concat();
    let placed = nanoseconds(&measure::run(bench, None, &placed)?.stdout)?;
    Ok(Round { native, library, recorded, placed, lost })
}

/// `12.3 ns per pair`
fn nanoseconds(text: &str) -> Result<f64, Failure> {
    let number = text.split_whitespace().next().ok_or("the program says nothing")?;
    Ok(number.parse()?)
}
