//! What it costs to track every allocation of a program, here and with the other tools that do it.
//!
//! In each round every program runs natively and under each tool, one after the other, and the order moves on by one from
//! round to round. A ratio is of a run to the native run of the same round. A tool that is not installed has a line that says
//! so.

pub mod memory;
mod programs;
mod redis;
mod tools;

use serde_json::{Map, Value, json};

use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured, measure};
use programs::Program;
use tools::Tool;

/// Times native, of a pair of malloc and free.
const ASKED: f64 = 3.0;

pub fn run(bench: &Bench) -> Measured {
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    let (tools, missing) = tools::installed(bench)?;
    lines.extend(missing.into_iter().map(|name| Line::beside(name, "not installed: not measured".into())));
    for program in programs::all(bench)? {
        match program {
            Ok(program) => {
                let (of_program, numbers) = compare(bench, &program, &tools)?;
                // The whole takes long.
                of_program.iter().for_each(|line| eprintln!("  {}: {}", line.what, line.reached));
                lines.extend(of_program);
                raw.insert(program.name.into(), numbers);
            }
            Err(missing) => lines.push(Line::beside(missing, "not installed: not measured".into())),
        }
    }
    Ok((lines, Value::Object(raw)))
}

/// One program under all tools.
fn compare(bench: &Bench, program: &Program, tools: &[Tool]) -> Measured {
    let mut times = vec![Vec::new(); tools.len()];
    let mut lost = 0;
    for round in 0..bench.rounds(3, 1) {
        for turn in 0..tools.len() {
            let at = (turn + round) % tools.len();
            // What takes many times as long is known well enough from one round.
            if tools[at].slow && round > 0 {
                continue;
            }
            times[at].push(program.time(bench, &tools[at])?);
            if tools[at].is_ours() {
                lost +=
                    measure::lost(&measure::meta(&tools::dataset(bench))?).iter().map(|(_, count)| count).sum::<u64>();
            }
        }
    }
    let native = &times[0];
    let mut lines = vec![Line::beside(
        format!("{}: native", program.name),
        format!("{:.*} {}", program.digits, Spread::of(native), program.unit),
    )];
    let mut raw = Map::new();
    for (tool, times) in tools.iter().zip(&times) {
        raw.insert(tool.name.into(), json!(times));
        if std::ptr::eq(times, native) {
            continue;
        }
        let ratios: Vec<f64> = times.iter().zip(native).map(|(with, native)| with / native).collect();
        let ratio = Spread::of(&ratios);
        let what = format!("{}: {} / native", program.name, tool.name);
        lines.push(match tool.is_ours() && program.is_a_pair() {
            true => Line::budget(what, "<= 3x", format!("{ratio:.2}x"), ratio.median <= ASKED),
            false => Line::beside(what, format!("{ratio:.2}x")),
        });
    }
    lines.push(Line::budget(format!("{}: losses", program.name), "none", lost.to_string(), lost == 0));
    raw.insert("unit".into(), json!(program.unit));
    raw.insert("lost".into(), json!(lost));
    Ok((lines, Value::Object(raw)))
}

/// The number behind `name` on a line of a program's output.
fn number(text: &str, name: &str) -> Result<f64, Failure> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.ok_or_else(|| format!("the program does not say `{name}`"))?.trim().parse()?)
}
