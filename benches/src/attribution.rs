//! Samples per second that one core attributes, for indexes and orders of all kinds.

use std::hint::black_box;
use std::time::Instant;

use numamma_attribute::{Cursor, Index};
use numamma_trace::{NONE, ObjectKind, ObjectRow};
use serde_json::{Map, Value, json};

use crate::output::Line;
use crate::spread::Spread;
use crate::{Bench, Measured};

const ASKED: f64 = 50e6;
const THREADS: usize = 16;

/// Length of a recording, nanoseconds.
const END: i64 = 1_000_000_000_000;

struct Sample {
    addr: u64,
    time: i64,
    thread: usize,
}

pub fn run(bench: &Bench) -> Measured {
    let samples = if bench.quick { 200_000 } else { 2_000_000 };
    let mut random = Random(1);
    let (mut lines, mut raw) = (Vec::new(), Map::new());
    let mut worst = f64::INFINITY;
    for count in [100, 10_000, 1_000_000] {
        let (fresh, reused, mixed) = (objects(count, 1, false), objects(count, 10, false), objects(count, 1, true));
        let cases = [
            ("in order of addresses", &fresh, in_order(&fresh, samples)),
            ("threads that stay with an object for 256 samples", &fresh, staying(&fresh, samples, &mut random)),
            ("random", &fresh, scattered(&fresh, samples, &mut random)),
            ("random, each address used by 10 objects in turn", &reused, scattered(&reused, samples, &mut random)),
            ("random, objects of 5 kinds", &mixed, scattered(&mixed, samples, &mut random)),
        ];
        for (name, objects, samples) in cases {
            let index = Index::new(objects);
            let rates: Vec<f64> = (0..bench.rounds(7, 2)).map(|_| rate(&index, objects, &samples)).collect();
            let spread = Spread::of(&rates);
            worst = worst.min(spread.median);
            let what = format!("attribution, {count} objects, {name}");
            let reached = format!("{:.1} M/s", spread.times(1e-6));
            lines.push(Line::budget(what, ">= 50 M/s", reached, spread.median >= ASKED));
            let of = raw.entry(count.to_string()).or_insert_with(|| Value::Object(Map::new()));
            of[name] = json!(rates);
        }
    }
    raw.insert("samples".into(), json!(samples));
    raw.insert("worst_per_second".into(), json!(worst));
    Ok((lines, Value::Object(raw)))
}

/// Samples per second of one pass.
fn rate(index: &Index, objects: &[ObjectRow], samples: &[Sample]) -> f64 {
    let mut cursors = vec![Cursor::default(); THREADS];
    let (mut found, mut sum) = (0, 0);
    let start = Instant::now();
    for sample in samples {
        if let Some(object) = index.find(0, sample.addr, sample.time, &mut cursors[sample.thread]) {
            found += 1;
            sum += object;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    black_box(sum);
    assert!(found == samples.len() && !objects.is_empty(), "{found} of {} samples found", samples.len());
    samples.len() as f64 / seconds
}

/// `count` objects of 64 bytes to 64 MiB, 16 bytes apart; `lives` of them use the same addresses one after the other.
fn objects(count: usize, lives: usize, kinds: bool) -> Vec<ObjectRow> {
    const KINDS: [ObjectKind; 5] =
        [ObjectKind::Heap, ObjectKind::Tls, ObjectKind::Mmap, ObjectKind::Static, ObjectKind::Stack];
    let mut random = Random(count as u64);
    let mut addr = 0x1000_0000;
    let mut rows = Vec::with_capacity(count);
    for place in 0..count / lives {
        let bytes = 1 << (6 + random.below(21));
        let bytes = (bytes + random.below(bytes)) as i64 & !15;
        for life in 0..lives {
            rows.push(ObjectRow {
                object: rows.len() as i32,
                process: 0,
                kind: KINDS[if kinds { place % KINDS.len() } else { 0 }].name().into(),
                name: String::new(),
                site: 0,
                thread: NONE,
                addr,
                bytes,
                start_time: END / lives as i64 * life as i64,
                end_time: END / lives as i64 * (life as i64 + 1),
                module: String::new(),
                shared: NONE,
                shared_offset: 0,
                moved_from: numamma_trace::NONE,
            });
        }
        addr += bytes + 16;
    }
    rows
}

/// A random access to an object in its time.
fn access(object: &ObjectRow, thread: usize, random: &mut Random) -> Sample {
    let addr = object.addr as u64 + random.below(object.bytes as u64);
    Sample { addr, time: object.start_time + random.below((object.end_time - object.start_time) as u64) as i64, thread }
}

fn in_order(objects: &[ObjectRow], samples: usize) -> Vec<Sample> {
    let sample = |n: usize| {
        let at = n as f64 / samples as f64 * objects.len() as f64;
        let object = &objects[at as usize];
        let addr = object.addr as u64 + (at.fract() * object.bytes as f64) as u64;
        Sample { addr, time: n as i64, thread: 0 }
    };
    (0..samples).map(sample).collect()
}

fn staying(objects: &[ObjectRow], samples: usize, random: &mut Random) -> Vec<Sample> {
    let mut at = [0; THREADS];
    let mut all = Vec::with_capacity(samples);
    for n in 0..samples {
        let thread = n % THREADS;
        if (n / THREADS).is_multiple_of(256) {
            at[thread] = random.below(objects.len() as u64) as usize;
        }
        all.push(access(&objects[at[thread]], thread, random));
    }
    all
}

fn scattered(objects: &[ObjectRow], samples: usize, random: &mut Random) -> Vec<Sample> {
    let sample = |n: usize| {
        let object = random.below(objects.len() as u64) as usize;
        access(&objects[object], n % THREADS, random)
    };
    (0..samples).map(sample).collect()
}

/// A linear congruential generator (Knuth): the same numbers each time.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`; of a limit beyond 2^32, one of 2^32 numbers.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = self.0 >> 32;
        ((u128::from(high) * u128::from(limit)) >> 32) as u64
    }
}
