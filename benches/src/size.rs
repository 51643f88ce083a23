//! Bytes on disk for each sample of real recordings.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use numamma_trace::{Dataset, Rule, SampleRow};
use serde_json::{Map, Value, json};

use crate::measure;
use crate::output::Line;
use crate::{Bench, Failure, Measured};

const ASKED: f64 = 8.0;

/// Enough samples that what each file costs by itself does not count, from programs of a few seconds.
const RATE: &str = "4000";

pub fn run(bench: &Bench) -> Measured {
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for (name, command) in programs(bench)? {
        let dir = bench.scratch.path().join("size");
        measure::recorded(bench, &dir, &["--rate", RATE], &command)?;
        let dataset = Dataset::open(&dir)?;
        let (mut rows, mut samples) = (0_u64, 0_u64);
        dataset.visit(|batch: &mut Vec<SampleRow>| {
            rows += batch.len() as u64;
            samples += batch.iter().filter(|row| row.rule != Rule::Spread as i32).count() as u64;
        })?;
        if samples == 0 {
            return Err(format!("{name}: no samples").into());
        }
        let bytes = fs::metadata(dir.join("samples.parquet"))?.len();
        let all = measure::bytes_in(&dir)?;
        let of = |bytes: u64, count: u64| bytes as f64 / count as f64;
        let each = of(bytes, samples);
        let reached = format!(
            "{each:.1} ({samples} samples of {:.1} rows; {:.1} a row; all tables {:.1} a sample)",
            of(rows, samples),
            of(bytes, rows),
            of(all, samples)
        );
        lines.push(Line::budget(format!("bytes of the samples on disk, each: {name}"), "<= 8", reached, each <= ASKED));
        let sizes = json!({
            "command": measure::shown(&command), "samples": samples, "rows": rows, "samples_bytes": bytes, "all_bytes": all,
        });
        raw.insert(name.into(), sizes);
    }
    raw.insert("rate_hz".into(), json!(RATE));
    Ok((lines, Value::Object(raw)))
}

/// Bundled workloads, and programs that are there.
fn programs(bench: &Bench) -> Result<Vec<(&'static str, Vec<OsString>)>, Failure> {
    let seconds = if bench.quick { "1" } else { "6" };
    let folder = PathBuf::from("workloads/build").canonicalize()?;
    let workload = |name: &'static str| (name, vec![folder.join(name).into(), seconds.into()]);
    let mut all = ["triad", "gather", "chase", "blockcyclic", "containers"].map(workload).to_vec();
    let text = bench.scratch.path().join("text");
    fs::write(&text, words(if bench.quick { 4 << 20 } else { 48 << 20 }))?;
    for (name, line) in [("xz", "xz -T2 -2 -k -c"), ("sort", "sort --parallel=2 -S 50% -o /dev/null")] {
        let mut command: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        command.push(text.clone().into());
        let there =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(name).exists());
        if there {
            // Its output is of no use to us.
            command.splice(0..0, ["sh".into(), "-c".into(), "exec \"$@\" > /dev/null".into(), "sh".into()]);
            all.push((name, command));
        }
    }
    Ok(all)
}

/// Lines of words that compress as text does.
fn words(bytes: usize) -> Vec<u8> {
    let mut random = crate::attribution::Random(3);
    let mut text = Vec::with_capacity(bytes + 64);
    while text.len() < bytes {
        for _ in 0..8 {
            text.extend(format!("{:x} ", random.below(1 << 20) * random.below(64)).bytes());
        }
        text.push(b'\n');
    }
    text
}
