//! What an object costs, by two means: the time that is saved when it stays in the first-level cache (ablation), and its share of
//! the cost in a recording.
//!
//! `benches/programs/ablation.c` has the loops. All variants of a case run in each round, one after the other, and differences are
//! of runs of one round. The recording keeps reads alone: the loops read, what comes before them writes.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::measure;
use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Failure, Measured};

/// A loop: its name in the program, what is special, its arrays, and rounds that take a second or so.
struct Case {
    name: &'static str,
    what: &'static str,
    objects: &'static [&'static str],
    rounds: u64,
}

const CASES: [Case; 5] = [
    Case { name: "streams", what: "three arrays read in order", objects: &["a", "b", "c"], rounds: 150_000_000 },
    Case { name: "chase", what: "each miss waits for the one before", objects: &["a", "b"], rounds: 2_000_000 },
    Case { name: "gathers", what: "two reads at random, which overlap", objects: &["a", "b"], rounds: 40_000_000 },
    Case { name: "hidden", what: "a is chased, reads of b overlap with it", objects: &["a", "b"], rounds: 4_000_000 },
    Case { name: "mixed", what: "a is read in order, b at random", objects: &["a", "b"], rounds: 60_000_000 },
];

/// One round of a case.
struct Round {
    /// CPU seconds of the loop.
    full: f64,
    /// With one object in the cache, by object.
    without: Vec<f64>,
    /// With all of them in it.
    least: f64,
    /// Shares of the cost (0..1) of the loop, by object.
    cost: Vec<f64>,
}

impl Round {
    /// What an object's place in memory costs, seconds.
    fn saved(&self, object: usize) -> f64 {
        self.full - self.without[object]
    }

    /// Of what the objects cost one by one.
    fn share(&self, object: usize) -> f64 {
        self.saved(object) / (0..self.without.len()).map(|object| self.saved(object)).sum::<f64>()
    }
}

pub fn run(bench: &Bench) -> Measured {
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for case in &CASES {
        let mut rounds = Vec::new();
        for _ in 0..bench.rounds(9, 2) {
            rounds.push(round(bench, case)?);
        }
        let title = format!("ablation, {} ({})", case.name, case.what);
        let percent = |value: &dyn Fn(&Round) -> f64| Spread::over(&rounds, value).times(100.0);
        let alone: f64 = (0..case.objects.len()).map(|object| percent(&|r| r.saved(object) / r.full).median).sum();
        let reached = format!(
            "{:.2} s; all arrays in the cache save {:.0} %, one by one they save {alone:.0} %",
            Spread::over(&rounds, |r| r.full),
            percent(&|r| 1.0 - r.least / r.full)
        );
        lines.push(Line::beside(format!("{title}: CPU time"), reached));
        for (n, object) in case.objects.iter().enumerate() {
            let (share, cost) = (percent(&|r| r.share(n)), percent(&|r| r.cost[n]));
            let reached = format!(
                "saves {:.1} %, which is {share:.1} % of their sum; cost share {cost:.1} %: {:+.1} points",
                percent(&|r| r.saved(n) / r.full),
                cost.median - share.median
            );
            lines.push(Line::beside(format!("{title}: {object}"), reached));
        }
        let rounds: Vec<Value> = rounds
            .iter()
            .map(|r| json!({ "full_s": r.full, "without_s": r.without, "least_s": r.least, "cost_shares": r.cost }))
            .collect();
        raw.insert(case.name.into(), rounds.into());
    }
    Ok((lines, Value::Object(raw)))
}

fn round(bench: &Bench, case: &Case) -> Result<Round, Failure> {
    let rounds = if bench.quick { case.rounds / 4 } else { case.rounds };
    let command = |near: &str| -> Vec<OsString> {
        vec![bench.program("ablation").into(), case.name.into(), near.into(), rounds.to_string().into()]
    };
    let seconds = |near: &str| -> Result<f64, Failure> {
        let used = measure::run(bench, None, &command(near))?;
        Ok(used.stdout.split_whitespace().nth(1).ok_or("the program does not say its times")?.parse()?)
    };
    let dir = bench.scratch.path().join("ablation");
    measure::recorded(bench, &dir, &["--only", "read"], &command("-"))?;
    let full = seconds("-")?;
    let without = case.objects.iter().map(|object| seconds(object)).collect::<Result<_, _>>()?;
    Ok(Round { full, without, least: seconds(&case.objects.concat())?, cost: cost_shares(bench, &dir, case)? })
}

/// By object, of what all of them have.
fn cost_shares(bench: &Bench, dir: &Path, case: &Case) -> Result<Vec<f64>, Failure> {
    let report = [bench.numamma().into(), "report".into(), "--format".into(), "json".into(), dir.into()];
    let report: Value = serde_json::from_str(&measure::run(bench, None, &report)?.stdout)?;
    let shares = case.objects.iter().map(|name| -> Result<f64, Failure> {
        let objects = report["objects"].as_array().into_iter().flatten();
        let object = objects.into_iter().find(|object| object["name"] == *name);
        let seconds = object.and_then(|object| object["cost"]["seconds"].as_f64());
        Ok(seconds.ok_or_else(|| format!("{name} is not in the report"))?)
    });
    let seconds: Vec<f64> = shares.collect::<Result<_, _>>()?;
    let all: f64 = seconds.iter().sum();
    Ok(seconds.into_iter().map(|of| of / all).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_objects_save_one_by_one() {
        let round = Round { full: 10.0, without: vec![4.0, 8.0], least: 1.0, cost: vec![0.7, 0.3] };
        assert_eq!((round.saved(0), round.share(0), round.share(1)), (6.0, 0.75, 0.25));
    }
}
