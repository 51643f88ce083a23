//! Reports from large recordings: time, memory, and the size of the page.

use std::ffi::OsString;
use std::fs;

use serde_json::{Map, Value, json};

use crate::measure::{self, Used};
use crate::output::Line;
use crate::spread::Spread;
use crate::synthetic::{self, Shape};
use crate::{Bench, Measured};

const GIB: f64 = (1_u64 << 30) as f64;

pub fn run(bench: &Bench) -> Measured {
    let million = 1_000_000;
    let shapes = if bench.quick {
        vec![Shape { samples: million, spread: 0 }]
    } else {
        vec![
            Shape { samples: 10 * million, spread: 0 },
            Shape { samples: 10 * million, spread: 2 },
            Shape { samples: 100 * million, spread: 0 },
        ]
    };
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    for shape in shapes {
        let dir = bench.scratch.path().join("synthetic.numamma");
        let seconds = synthetic::write(&dir, shape)?;
        let name = shape.name();
        let file = fs::metadata(dir.join("samples.parquet"))?.len() as f64;
        eprintln!("{name}: written in {seconds:.0} s");
        let page = bench.scratch.path().join("page.html");
        let dir_arg = dir.clone().into_os_string();
        let report = command(bench, &["report".into(), dir_arg.clone()]);
        let object = command(bench, &["report".into(), dir_arg.clone(), "--object".into(), "#0".into()]);
        let plan = ["plan".into(), dir_arg.clone(), "--machine".into(), "amd-8x6".into()];
        let plan = command(bench, &[&plan[..], &["--format".into(), "json".into()]].concat());
        let html = command(bench, &["html".into(), dir_arg, "-o".into(), page.clone().into()]);
        let rounds = if shape.samples > 50 * million { 3 } else { bench.rounds(5, 1) };
        let (mut reports, mut objects, mut plans, mut pages) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            reports.push(measure::run(bench, None, &report)?);
            objects.push(measure::run(bench, None, &object)?);
            plans.push(measure::run(bench, None, &plan)?);
            pages.push(measure::run(bench, None, &html)?);
        }
        let (wall, peak) = (wall(&reports), peak(&reports));
        if shape.samples == 100 * million {
            lines.push(Line::budget(
                format!("report, {name}: time"),
                "<= 10 s",
                format!("{wall:.1} s, {:.1} s of CPU", cpu(&reports)),
                wall.median <= 10.0,
            ));
            let reached = format!("{:.2} GiB", peak / GIB);
            lines.push(Line::budget(format!("report, {name}: peak memory"), "<= 1 GiB", reached, peak <= GIB));
        } else {
            lines.push(beside(format!("report, {name}: time, CPU time, peak memory"), &reports));
        }
        lines.push(beside(format!("report of one object, {name}: time, CPU time, peak memory"), &objects));
        let planned = self::wall(&plans);
        lines.push(match shape.samples == 10 * million {
            true => Line::budget(
                format!("plan, {name}: time"),
                "<= 10 s",
                format!("{planned:.1} s, {:.1} s of CPU, {:.2} GiB", cpu(&plans), self::peak(&plans) / GIB),
                planned.median <= 10.0,
            ),
            false => beside(format!("plan, {name}: time, CPU time, peak memory"), &plans),
        });
        lines.push(beside(format!("page, {name}: time to write, CPU time, peak memory"), &pages));
        let size = fs::metadata(&page)?.len() as f64;
        lines.push(Line::beside(format!("page, {name}: size"), format!("{:.2} MB", size / 1e6)));
        let rows = shape.rows() as f64;
        let reached = format!("{:.1} bytes a sample, {:.1} a row", file / shape.samples as f64, file / rows);
        lines.push(Line::beside(format!("samples on disk, {name}"), reached));
        raw.insert(
            name,
            json!({
                "rows": shape.rows(), "samples_bytes": file, "write_s": seconds, "page_bytes": size,
                "report": used(&reports), "object": used(&objects), "plan": used(&plans), "html": used(&pages),
            }),
        );
        fs::remove_dir_all(&dir)?;
    }
    Ok((lines, Value::Object(raw)))
}

fn command(bench: &Bench, arguments: &[OsString]) -> Vec<OsString> {
    [&[bench.numamma().into()], arguments].concat()
}

fn wall(runs: &[Used]) -> Spread {
    Spread::over(runs, |used| used.wall)
}

fn cpu(runs: &[Used]) -> f64 {
    Spread::over(runs, |used| used.cpu).median
}

fn peak(runs: &[Used]) -> f64 {
    Spread::over(runs, |used| used.peak).max
}

fn beside(what: String, runs: &[Used]) -> Line {
    Line::beside(what, format!("{:.1} s, {:.1} s, {:.2} GiB", wall(runs), cpu(runs), peak(runs) / GIB))
}

/// Wall and CPU seconds and peak bytes of each run.
fn used(runs: &[Used]) -> Value {
    runs.iter().map(|used| json!([used.wall, used.cpu, used.peak])).collect()
}
