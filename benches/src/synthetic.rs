//! A recording of any length, written as the recorder writes it: parts, then merged.
//!
//! ```text
//!   16 threads at 1 kHz; every 20 s all of them go on to the next three arrays of 192 (4 to 32 MiB, 2.8 GiB in all)
//!     70 % of an array's accesses are of a thread to its own block, the rest anywhere
//!     90 % of the samples by rule 1, 8 % by rule 2, 2 % with no access
//!   each page is touched first by the owner of its block, and asked for its node once
//! ```
//!
//! Times and addresses have the entropy of real ones: microseconds of jitter, any element of a block.

use std::path::Path;
use std::time::Instant;

use numamma_trace::{
    ALL_TABLES, Access, BasisRow, CodeRow, DatasetWriter, FORMAT, FirstTouchRow, FrameRow, MarkerRow, Meta, ModuleRow,
    NONE, ObjectRow, PageNodeRow, ProcessRow, Rule, SampleRow, SamplerMeta, SiteRow, Table, ThreadRow, TraceError,
    TraceRow, UNKNOWN,
};

use crate::Failure;
use crate::attribution::Random;

const THREADS: u64 = 16;
const ARRAYS: u64 = 192;
const PERIOD: i64 = 1_009_000;
const PAGE: u64 = 4096;
/// Samples of a thread before it goes on to other arrays.
const PHASE: u64 = 20_000;
const PART_ROWS: usize = 500_000;
const CODE: i64 = 0x40_1000;
const MODULE: &str = "/opt/synthetic/bin/solver";

/// How much to write.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Samples.
    pub samples: u64,
    /// Rows with rule spread beside each.
    pub spread: u64,
}

impl Shape {
    pub fn name(self) -> String {
        let millions = self.samples / 1_000_000;
        match self.spread {
            0 => format!("{millions} M samples"),
            n => format!("{millions} M samples of {} rows", n + 1),
        }
    }

    pub fn rows(self) -> u64 {
        self.samples * (1 + self.spread)
    }
}

/// Writes it to `dir`; returns the seconds that took.
pub fn write(dir: &Path, shape: Shape) -> Result<f64, Failure> {
    let start = Instant::now();
    let writer = DatasetWriter::create(dir, true)?;
    let arrays = arrays();
    write_samples(&writer, &arrays, shape)?;
    write_touches(&writer, &arrays)?;
    write_names(&writer, &arrays, shape)?;
    let missing: Vec<&str> = ALL_TABLES.iter().map(|table| table.name).filter(|name| !is_written(dir, name)).collect();
    if !missing.is_empty() {
        return Err(format!("the synthetic recording lacks {}: write them here too", missing.join(", ")).into());
    }
    let end = (shape.samples / THREADS) as i64 * PERIOD;
    writer.write_meta(&Meta {
        format: FORMAT,
        written_by: env!("CARGO_PKG_VERSION").into(),
        complete: true,
        command: vec!["synthetic".into(), shape.name()],
        cpus: THREADS as u32,
        cpu_nodes: vec![0; THREADS as usize],
        nodes: 1,
        page_bytes: PAGE,
        clock: "monotonic".into(),
        end,
        exit: Some(0),
        sampler: SamplerMeta {
            kind: "clock".into(),
            period: PERIOD as u64,
            rate_hz: 1e9 / PERIOD as f64,
            ..Default::default()
        },
        ..Meta::default()
    })?;
    Ok(start.elapsed().as_secs_f64())
}

fn is_written(dir: &Path, table: &str) -> bool {
    dir.join(table).with_extension("parquet").exists()
}

/// Address and size.
type Array = (u64, u64);

fn arrays() -> Vec<Array> {
    let mut addr = 0x7f00_0000_0000;
    let place = |n| {
        let bytes = (4_u64 << 20) << (n % 4);
        let array = (addr, bytes);
        addr += bytes + PAGE;
        array
    };
    (0..ARRAYS).map(place).collect()
}

fn write_samples(writer: &DatasetWriter, arrays: &[Array], shape: Shape) -> Result<(), TraceError> {
    let mut random = Random(9);
    let mut rows = Vec::with_capacity(PART_ROWS + 64);
    let mut part = 0;
    for step in 0..shape.samples / THREADS {
        for thread in 0..THREADS {
            sample(&mut rows, arrays, shape, step, thread, &mut random);
        }
        if rows.len() >= PART_ROWS {
            writer.append(&rows, part)?;
            part += 1;
            rows.clear();
        }
    }
    writer.append(&rows, part)?;
    drop(rows);
    writer.merge::<SampleRow>(|| false, |rows| rows.sort_by_key(|row| (row.thread, row.time)))?;
    writer.remove_parts::<SampleRow>()
}

/// One sample: the access that is charged, and the others of its block.
fn sample(rows: &mut Vec<SampleRow>, arrays: &[Array], shape: Shape, step: u64, thread: u64, random: &mut Random) {
    let time = step as i64 * PERIOD + thread as i64 * 61_000 + random.below(2000) as i64;
    // Three arrays a phase, in a loop that reads two and writes the third.
    let first = step / PHASE * 3;
    let which = random.below(3);
    let (block, anywhere) = (random.below(1 << 32), random.below(10) >= 7);
    let rule = match random.below(100) {
        0..90 => Rule::Before,
        90..98 => Rule::Forward,
        _ => Rule::None,
    };
    let cpu = if random.below(100) == 0 { random.below(THREADS) } else { thread } as i32;
    for n in 0..=shape.spread {
        let of = (which + n) % 3;
        let number = (first + of) % ARRAYS;
        let (addr, bytes) = arrays[number as usize];
        let known = rule != Rule::None;
        let (low, span) = if anywhere { (0, bytes) } else { (bytes / THREADS * thread, bytes / THREADS) };
        let offset = ((u128::from(block) * u128::from(span)) >> 32) as u64 & !7;
        rows.push(SampleRow {
            time,
            thread: thread as i32,
            cpu,
            ip: CODE + (number * 64 + of * 8) as i64,
            addr: if known { (addr + low + offset) as i64 } else { 0 },
            bytes: if known { 8 } else { 0 },
            access: if !known {
                Access::Unknown
            } else if of == 2 {
                Access::Write
            } else {
                Access::Read
            } as i32,
            rule: if n > 0 { Rule::Spread } else { rule } as i32,
            cost: if n > 0 { 0 } else { PERIOD },
            accesses: if known { 1.0 / (1 + shape.spread) as f32 } else { 0.0 },
            basis: NONE,
            memory: UNKNOWN,
        });
        if !known {
            break;
        }
    }
}

/// First touches and nodes of all pages.
fn write_touches(writer: &DatasetWriter, arrays: &[Array]) -> Result<(), TraceError> {
    let (mut touches, mut nodes) = (Vec::new(), Vec::new());
    for &(addr, bytes) in arrays {
        for offset in (0..bytes).step_by(PAGE as usize) {
            let thread = (offset / (bytes / THREADS)) as i32;
            let time = touches.len() as i64 * 2000;
            let page = (addr + offset) as i64;
            touches.push(FirstTouchRow { time, thread, cpu: thread, ip: CODE, addr: page, access: 2, caller: 0 });
            nodes.push(PageNodeRow { process: 0, page, node: 0, time });
        }
    }
    writer.write_table(&touches)?;
    writer.write_table(&nodes)
}

fn write_names(writer: &DatasetWriter, arrays: &[Array], shape: Shape) -> Result<(), TraceError> {
    let file = || "/opt/synthetic/src/solver.c".to_owned();
    let each = |n: u64| (n, arrays[n as usize]);
    let call = |n: u64| CODE + 0x10_0000 + n as i64 * 16;
    let objects = (0..ARRAYS).map(each).map(|(n, (addr, bytes))| ObjectRow {
        object: n as i32,
        process: 0,
        kind: "heap".into(),
        name: String::new(),
        site: n as i32,
        thread: 0,
        addr: addr as i64,
        bytes: bytes as i64,
        start_time: 0,
        end_time: i64::MAX,
        module: String::new(),
        shared: -1,
        shared_offset: 0,
        moved_from: numamma_trace::NONE,
    });
    let sites = (0..ARRAYS).map(each).map(|(n, (_, bytes))| SiteRow {
        site: n as i32,
        process: 0,
        kind: "heap".into(),
        function: format!("make_field_{n}"),
        file: file(),
        line: 10 + n as i32,
        ip: call(n),
        depth: 0,
        via: String::new(),
        name: format!("field_{n}"),
        count: 1,
        bytes: bytes as i64,
        freed: 0,
        peak_bytes: bytes as i64,
        lifetime_min: 0,
        lifetime_max: 0,
        lifetime_total: 0,
    });
    let frames = (0..ARRAYS).map(|n| FrameRow { site: n as i32, depth: 0, ip: call(n) });
    let source = |ip: i64, function: String, line: u64| CodeRow {
        process: 0,
        ip,
        depth: 0,
        module: MODULE.into(),
        module_offset: ip - CODE,
        function,
        file: file(),
        line: line as i32,
    };
    let calls = (0..ARRAYS).map(|n| source(call(n), format!("make_field_{n}"), 10 + n));
    let accesses = (0..ARRAYS * 8).map(|n| source(CODE + n as i64 * 8, format!("update_{}", n / 24), 1000 + n));
    let code = accesses.chain(calls);
    let threads = (0..THREADS as i32).map(|n| ThreadRow {
        thread: n,
        process: 0,
        pid: 1000,
        tid: 1000 + n,
        name: "solver".into(),
        start_time: 0,
        end_time: i64::MAX,
        stack_low: 0,
        stack_high: 0,
        tls_low: 0,
        tls_high: 0,
        samples: (shape.samples / THREADS) as i64,
    });
    let process = ProcessRow {
        process: 0,
        pid: 1000,
        parent: 0,
        command: MODULE.into(),
        start_time: 0,
        end_time: i64::MAX,
        tracked: 1,
        samples: shape.samples as i64,
    };
    write_all(writer, objects)?;
    write_all(writer, sites)?;
    write_all(writer, frames)?;
    write_all(writer, code)?;
    write_all(writer, threads)?;
    writer.write_table(&[process])?;
    writer.write_table::<ModuleRow>(&[])?;
    writer.write_table::<BasisRow>(&[])?;
    writer.write_table::<TraceRow>(&[])?;
    writer.write_table::<MarkerRow>(&[])
}

fn write_all<T: Table>(writer: &DatasetWriter, rows: impl Iterator<Item = T>) -> Result<(), TraceError> {
    writer.write_table(&rows.collect::<Vec<_>>())
}
