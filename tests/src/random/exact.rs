//! Exact counts of a program, for any number of rounds.
//!
//! All rounds are alike, so that two short emulated runs tell of long ones: `first + (rounds - 1) * each`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Run;

/// The emulated processor lacks these: the C library would copy memory by other code there, with other accesses.
const SAME_LIBC: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-ERMS,-FSRM,-RTM";
/// Rounds of the two runs.
const ROUNDS: [f64; 2] = [1.0, 3.0];

/// Accesses of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub total: f64,
    /// By [`key`].
    pub objects: BTreeMap<String, Object>,
    /// By thread.
    pub threads: BTreeMap<u64, f64>,
}

/// Accesses to an object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Object {
    pub reads: f64,
    pub writes: f64,
    pub threads: BTreeMap<u64, f64>,
}

/// A recording as every recording here is made.
pub fn record(dataset: &Path, options: &[&str], binary: &Path, rounds: u64) -> Run {
    let run = Run::numamma().args(["record", "--force", "-o"]).arg(dataset).args(options).arg("--").arg(binary);
    let run = run.arg(rounds.to_string()).env("OMP_WAIT_POLICY", "passive").env("GLIBC_TUNABLES", SAME_LIBC);
    run.limit(600)
}

/// The report of a recording.
pub fn report(dataset: &Path) -> Value {
    let run = Run::report(dataset).args(["--format", "json", "--top", "0"]).limit(600).run().success();
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("the JSON report: {e}\n{run}"))
}

/// What an object is called in every recording of a program: its name without the place that tells it from another of that name, which
/// it has only where both were seen.
pub fn key(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let name = text("name");
    let name = name.split_once(" at ").map_or(name, |(name, _)| name);
    format!("{} {}", text("kind"), name.strip_prefix("arrays::").unwrap_or(name))
}

/// Both runs of a binary; `known` keeps them for as long as the source is the same.
pub fn count(binary: &Path, source: &str, known: &Path) -> [Counts; 2] {
    let kept = fs::read(known).ok().and_then(|bytes| serde_json::from_slice::<(String, [Counts; 2])>(&bytes).ok());
    if let Some((_, counts)) = kept.filter(|(of, _)| of == source) {
        return counts;
    }
    let counts = ROUNDS.map(|rounds| {
        let dataset = binary.with_extension("exact.numamma");
        record(&dataset, &["--sampler", "exact"], binary, rounds as u64).run().success();
        Counts::of(&report(&dataset))
    });
    let bytes = serde_json::to_vec(&(source, &counts)).expect("JSON");
    fs::write(known, bytes).unwrap_or_else(|e| panic!("{}: {e}", known.display()));
    counts
}

impl Counts {
    /// Those of a report of the exact sampler.
    pub fn of(report: &Value) -> Self {
        let mut counts = Self::default();
        for object in report["objects"].as_array().into_iter().flatten() {
            let number = |name: &str| object["accesses"][name].as_f64().unwrap_or_default();
            let (reads, writes) = (number("reads"), number("writes"));
            let threads = object["threads"].as_array().into_iter().flatten();
            let threads = threads
                .filter_map(|of| Some((of["thread"].as_u64()?, of["access_share"].as_f64()? * (reads + writes))));
            let of = Object { reads, writes, threads: threads.collect() };
            if number("share") > 0.0 {
                counts.total = counts.total.max((reads + writes) / number("share"));
            }
            counts.objects.insert(key(object), of);
        }
        for thread in report["threads"].as_array().into_iter().flatten() {
            let number = |name: &str| thread[name].as_f64().unwrap_or_default();
            counts.threads.insert(number("thread") as u64, number("reads") + number("writes"));
        }
        counts
    }

    /// Those of so many rounds, from two runs.
    pub fn at(runs: &[Self; 2], rounds: f64) -> Self {
        let line = |a: f64, b: f64| (a + (b - a) / (ROUNDS[1] - ROUNDS[0]) * (rounds - ROUNDS[0])).max(0.0);
        let threads = |a: &BTreeMap<u64, f64>, b: &BTreeMap<u64, f64>| {
            let of = |counts: &BTreeMap<u64, f64>, thread| counts.get(thread).copied().unwrap_or_default();
            a.keys().chain(b.keys()).map(|thread| (*thread, line(of(a, thread), of(b, thread)))).collect()
        };
        let [a, b] = runs;
        let none = Object::default();
        let objects = a.objects.keys().chain(b.objects.keys()).map(|name| {
            let [a, b] = [a, b].map(|counts| counts.objects.get(name).unwrap_or(&none));
            let of = Object {
                reads: line(a.reads, b.reads),
                writes: line(a.writes, b.writes),
                threads: threads(&a.threads, &b.threads),
            };
            (name.clone(), of)
        });
        Self { total: line(a.total, b.total), objects: objects.collect(), threads: threads(&a.threads, &b.threads) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_short_runs_tell_of_a_long_one() {
        let run = |reads: f64, by_second: f64| {
            let object = Object { reads, writes: 7.0, threads: [(1, by_second)].into() };
            Counts { total: reads + 7.0, objects: [("a".to_string(), object)].into(), threads: [(1, by_second)].into() }
        };
        let long = Counts::at(&[run(12.0, 5.0), run(32.0, 9.0)], 100.0);
        assert_eq!((long.objects["a"].reads, long.objects["a"].writes, long.total), (1002.0, 7.0, 1009.0));
        assert_eq!((long.objects["a"].threads[&1], long.threads[&1]), (203.0, 203.0));
    }
}
