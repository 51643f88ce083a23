//! `meta.json`: what is known of a recording besides its tables.

use serde::{Deserialize, Serialize};

use crate::losses::Losses;

/// The recording as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the dataset's format.
    pub format: u32,
    /// Version of the program that wrote it.
    pub written_by: String,
    /// True if the recording was finished: the tables are whole and merged.
    pub complete: bool,
    /// The command line.
    pub command: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture.
    pub arch: String,
    /// CPUs online.
    pub cpus: u32,
    /// Node of each CPU: index is the CPU; -1 if unknown.
    pub cpu_nodes: Vec<i32>,
    /// NUMA nodes.
    pub nodes: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Name of the clock of all time columns.
    pub clock: String,
    /// Clock at the start of the recording, nanoseconds.
    pub start: i64,
    /// Clock at the end of the recording (so far), nanoseconds.
    pub end: i64,
    /// Wall clock at `start`, nanoseconds since 1970.
    pub started_unix: i64,
    /// Exit status of the program (128 + signal if one killed it); absent while it runs.
    pub exit: Option<i32>,
    /// True if allocations were to be seen; absent in older recordings.
    #[serde(default)]
    pub heap_tracked: Option<bool>,
    /// How it was sampled.
    pub sampler: SamplerMeta,
    /// What is missing.
    pub losses: Losses,
}

/// How a recording was sampled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SamplerMeta {
    /// `clock`, `pebs`, `ibs`, `spe`, `exact` or `import`.
    pub kind: String,
    /// Nanoseconds of thread time (clock) or events (hardware) between two samples.
    pub period: u64,
    /// Samples per second of thread time.
    pub rate_hz: f64,
    /// Cost of one sample, measured at start, nanoseconds.
    pub tick_cost: f64,
    /// Share of thread time that sampling costs: `tick_cost * rate_hz`.
    pub overhead: f64,
    /// `read` or `write` if only samples of such accesses were kept.
    #[serde(default)]
    pub only: Option<String>,
    /// The part of the samples at data accesses whose counts stand on a basis (0..1); absent where `samples.accesses` is in
    /// units of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<f64>,
    /// True if accesses were counted by the program's own hooks: those of code that was compiled without are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hooks: bool,
    /// The caches of the model that says which accesses reach memory, in the form of `--caches`; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<String>,
    /// Accesses in code that no sample was in, or at addresses that none told, as a standard error of their number; 0 where all
    /// accesses are known, and in older recordings.
    #[serde(default)]
    pub unseen: f64,
    /// Which part of the run was sampled.
    #[serde(default)]
    pub controls: Controls,
    /// What became of the trace windows; absent where none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_windows: Option<TraceWindows>,
    /// Accesses that were traced one by one; absent where none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// What recording has cost; absent where it was not measured, and until the program has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What recording has cost, in nanoseconds. What the library in the program took is told by samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Time that threads of the program ran while they were sampled, with all that recording took of it.
    pub thread_time: u64,
    /// Of that, what interrupts for samples took.
    pub ticks: u64,
    /// Time that threads were stopped for.
    pub held: u64,
    /// CPU time of the recorder, until the program ended.
    pub recorder: u64,
}

/// The part of a run whose accesses are in the table `trace` (`record --sampler exact --trace`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Most accesses that were wanted.
    pub most: u64,
    /// Accesses that were traced, of all threads.
    pub accesses: u64,
    /// True if as many were made as were wanted: there may have been more.
    pub used_up: bool,
    /// Nanoseconds from the start to when the first was wanted.
    pub after: u64,
    /// Nanoseconds from there to when no more were wanted; absent: to the end.
    #[serde(rename = "for")]
    pub lasting: Option<u64>,
}

/// Moments for which threads were followed instruction by instruction (`record --windows`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceWindows {
    /// How many.
    pub taken: u64,
    /// Instructions in all of them.
    pub instructions: u64,
    /// Those that ended before their time, at an instruction that could not be followed.
    pub unsupported: u64,
    /// Those before which it was measured how fast the thread went.
    pub timed: u64,
    /// Nanoseconds that threads were stopped for, in all.
    pub stopped: u64,
    /// Nanoseconds that samples took by which threads were timed and found.
    pub sampled: u64,
    /// The most instructions in a nanosecond that the processor retires, measured by code that waits for nothing; 0 if it was not.
    pub fastest: f64,
    /// How far the number of accesses that trace windows tell of may be off, because it is not known how fast code was executed: a standard error
    /// of its logarithm.
    pub error: Option<f64>,
    /// True if nothing told how fast instructions were executed: then numbers of accesses are ratios, of code that
    /// runs together.
    pub assumed: bool,
}

/// Which part of a run was sampled, and how densely in the end. All of it, unless asked otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Time from the start of the recording to the first sample, nanoseconds.
    pub after: u64,
    /// Time from there to the last sample, nanoseconds; absent: to the end.
    #[serde(rename = "for")]
    pub lasting: Option<u64>,
    /// True if samples were only taken where the program said that they are wanted.
    pub marked: bool,
    /// Functions inside which samples were taken; none: everywhere.
    #[serde(rename = "in")]
    pub functions: Vec<String>,
    /// Names of the objects whose samples were kept; none, and no ranges: all.
    pub objects: Vec<String>,
    /// Address ranges whose samples were kept, in hexadecimal, `LOW-HIGH`.
    pub ranges: Vec<String>,
    /// Samples that were left out because they are at none of these objects and ranges.
    pub left_out: u64,
    /// Most samples that the recording was to have; 0 if unknown.
    pub max_samples: u64,
    /// How many samples each one stands for: a power of two.
    pub thinned: u64,
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            after: 0,
            lasting: None,
            marked: false,
            functions: Vec::new(),
            objects: Vec::new(),
            ranges: Vec::new(),
            left_out: 0,
            max_samples: 0,
            thinned: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_meta_is_read() {
        let mut value = serde_json::to_value(Meta::default()).expect("plain data");
        value.as_object_mut().and_then(|meta| meta.remove("heap_tracked")).expect("it is written");
        value["sampler"].as_object_mut().and_then(|sampler| sampler.remove("only")).expect("it is written");
        value["sampler"].as_object_mut().and_then(|sampler| sampler.remove("controls")).expect("it is written");
        let meta: Meta = serde_json::from_value(value).expect("fields that were added are not needed");
        assert_eq!((meta.heap_tracked, meta.sampler.only), (None, None));
        assert_eq!((&meta.sampler.controls, meta.sampler.controls.thinned), (&Controls::default(), 1));
    }
}
