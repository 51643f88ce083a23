//! One workload recorded at growing sampling intervals, each recording compared with that of the shortest: what is lost is
//! how many pages have an owner, and not who it is.

use std::fs;
use std::path::Path;

use crate::comparison::Comparison;
use crate::{Run, build};

/// How a workload is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// CPU seconds of each thread.
    pub seconds: f64,
    /// Threads.
    pub threads: u32,
    /// The shortest interval, nanoseconds of thread time.
    pub period: u64,
}

/// Records `workload` once at the shortest interval and once at each of its multiples; compares each of these with the
/// first. One recording lies on disk beside the first at a time.
pub fn measure(workload: &str, setting: &Setting, factors: &[u64], dir: &Path) -> Vec<Comparison> {
    let record = |name: &str, period: u64| {
        let dataset = dir.join(format!("{workload}-{name}.numamma"));
        let program = build::workload(workload).unwrap_or_else(|| panic!("make did not build {workload}"));
        let run = Run::numamma().args(["record", "--force", "-o"]).arg(&dataset);
        let run = run.args(["--period", &period.to_string(), "--"]).arg(program).arg(setting.seconds.to_string());
        let threads = setting.threads.to_string();
        run.env("OMP_NUM_THREADS", threads).env("OMP_WAIT_POLICY", "passive").limit(300).run().success();
        dataset
    };
    let full = record("full", setting.period);
    let compare = |&factor: &u64| {
        let other = record("other", setting.period * factor);
        let comparison = Comparison::of(&full, &other, &["--reference", "a"]);
        fs::remove_dir_all(&other).expect("our own folder");
        comparison
    };
    let comparisons = factors.iter().map(compare).collect();
    fs::remove_dir_all(&full).expect("our own folder");
    comparisons
}
