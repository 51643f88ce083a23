//! What recording costs a program that runs on, at the default rate.
//!
//! Four variants in each round: native; `ticks`, with the kernel's timer sampling it into nothing, which is what the machine
//! charges for any sampler of that rate; recorded without allocations; recorded. The rate is the one that the recorder
//! chooses by itself, held for all rounds so that they can be compared.

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use crate::measure::{self, Used};
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured};

/// Share of the native time.
const ASKED: f64 = 0.03;

/// One run of a program.
#[derive(Clone, Debug)]
struct Run {
    /// Wall seconds of its work, as it says itself: without start and end.
    wall: f64,
    /// CPU seconds of its work.
    cpu: f64,
    /// Wall seconds of the whole command, the recorder's start and end included.
    whole: f64,
}

/// One of each.
#[derive(Clone, Debug)]
struct Round {
    native: Run,
    ticks: Run,
    no_heap: Run,
    recorded: Run,
    /// Everything that the two recordings lost.
    lost: u64,
}

pub fn run(bench: &Bench) -> Measured {
    let factor = if bench.quick { 1 } else { 3 };
    let programs = [
        ("triad, 2 OpenMP threads", vec![bench.program("triad").into(), (1000 * factor).to_string().into()]),
        ("hash table, 1 thread", vec![bench.program("lookup").into(), (15_000_000 * factor).to_string().into()]),
    ];
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for (name, command) in programs {
        let (chosen, tick_costs) = default_rates(bench, &command)?;
        let rate = Spread::of(&chosen).median;
        let mut rounds = Vec::new();
        for _ in 0..bench.rounds(15, 3) {
            rounds.push(round(bench, &command, rate)?);
        }
        let ratio = |of: fn(&Round) -> f64| Spread::over(&rounds, of);
        let beyond = ratio(|r| (r.recorded.wall - r.ticks.wall) / r.native.wall).times(100.0);
        // What disturbs a run makes it longer, never shorter: the least of each variant says what the median hides.
        let least = |of: fn(&Round) -> f64| Spread::over(&rounds, of).min;
        let (recorded, ticks) = (least(|r| r.recorded.wall), least(|r| r.ticks.wall));
        let undisturbed = (recorded - ticks) / least(|r| r.native.wall) * 100.0;
        let whole = ratio(|r| r.recorded.whole - r.native.whole - (r.recorded.wall - r.native.wall));
        let lost: u64 = rounds.iter().map(|r| r.lost).sum();
        let title = format!("recording, {name}");
        lines.extend([
            Line::budget(
                format!("{title}: wall time beyond the ticks' own"),
                "<= 3 %",
                format!("{beyond:.1} %"),
                beyond.median <= 100.0 * ASKED,
            ),
            Line::budget(format!("{title}: losses"), "none", lost.to_string(), lost == 0),
            Line::beside(
                format!("{title}: the same of each variant's least disturbed run"),
                format!("{undisturbed:.1} %"),
            ),
            Line::beside(
                format!("{title}: CPU time beyond the ticks' own"),
                format!("{:.1} %", ratio(|r| (r.recorded.cpu - r.ticks.cpu) / r.native.cpu).times(100.0)),
            ),
            Line::beside(
                format!("{title}: recorded / native"),
                format!("{:.3}", ratio(|r| r.recorded.wall / r.native.wall)),
            ),
            Line::beside(
                format!("{title}: wall time beyond the ticks' own, without allocations"),
                format!("{:.1} %", ratio(|r| (r.no_heap.wall - r.ticks.wall) / r.native.wall).times(100.0)),
            ),
            Line::beside(
                format!("{title}: recorded without allocations / native"),
                format!("{:.3}", ratio(|r| r.no_heap.wall / r.native.wall)),
            ),
            Line::beside(
                format!("{title}: ticks alone / native"),
                format!("{:.3}", ratio(|r| r.ticks.wall / r.native.wall)),
            ),
            Line::beside(
                format!("{title}: rate that the recorder chooses"),
                format!("{:.0} Hz, from a tick of {:.1} us", Spread::of(&chosen), Spread::of(&tick_costs).times(1e-3)),
            ),
            Line::beside(format!("{title}: start and end of the recorder"), format!("{whole:.2} s")),
        ]);
        raw.insert(
            name.into(),
            json!({
                "command": measure::shown(&command), "rate_hz": rate, "chosen_hz": chosen, "tick_cost_ns": tick_costs,
                "rounds": rounds.iter().map(Round::json).collect::<Vec<_>>(),
            }),
        );
    }
    Ok((lines, Value::Object(raw)))
}

/// Rates in Hz that the recorder chooses in several recordings, and the tick costs in nanoseconds that they come from.
fn default_rates(bench: &Bench, command: &[OsString]) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let dir = bench.scratch.path().join("rate");
    let short = [command[0].clone(), "1".into()];
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(9, 3) {
        measure::recorded(bench, &dir, &[], &short)?;
        let sampler = &measure::meta(&dir)?["sampler"];
        rates.extend(sampler["rate_hz"].as_f64());
        costs.extend(sampler["tick_cost"].as_f64());
    }
    if rates.is_empty() { Err("the recorder does not say its rate".into()) } else { Ok((rates, costs)) }
}

fn round(bench: &Bench, command: &[OsString], rate: f64) -> Result<Round, Failure> {
    let dir = bench.scratch.path().join("overhead");
    let rate_text = format!("{rate}");
    let mut lost = 0;
    let mut recorded = |options: &[&str]| -> Result<Run, Failure> {
        let used = measure::recorded(bench, &dir, options, command)?;
        lost += measure::lost(&measure::meta(&dir)?).iter().map(|(_, count)| count).sum::<u64>();
        Run::of(&used)
    };
    let recorded_run = recorded(&["--rate", &rate_text])?;
    let no_heap = recorded(&["--rate", &rate_text, "--no-heap"])?;
    let ticks = Run::of(&measure::run(bench, Some((1e9 / rate) as u64), command)?)?;
    let native = Run::of(&measure::run(bench, None, command)?)?;
    Ok(Round { native, ticks, no_heap, recorded: recorded_run, lost })
}

impl Run {
    fn of(used: &Used) -> Result<Self, Failure> {
        let numbers: Vec<f64> = used.stdout.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [wall, cpu] = numbers[..] else { return Err("the program does not say its times".into()) };
        Ok(Self { wall, cpu, whole: used.wall })
    }

    fn json(&self) -> Value {
        json!([self.wall, self.cpu, self.whole])
    }
}

impl Round {
    /// Each run as wall and CPU seconds of its work and wall seconds of the whole command.
    fn json(&self) -> Value {
        json!({
            "native": self.native.json(), "ticks": self.ticks.json(), "no_heap": self.no_heap.json(),
            "recorded": self.recorded.json(), "lost": self.lost,
        })
    }
}
