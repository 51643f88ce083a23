//! The stable core of the JSON report, as a script that relies on it would read it.
//!
//! Deliberately not the project's own types: a field that is renamed there must fail here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Run;

/// The report.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Report {
    pub version: u32,
    pub run: RunInfo,
    pub sampler: Sampler,
    pub samples: Samples,
    pub losses: Vec<Loss>,
    pub objects: Vec<Object>,
    #[serde(default)]
    pub sites: Vec<SiteCount>,
    #[serde(default)]
    pub processes: Vec<Process>,
    #[serde(default)]
    pub threads: Vec<ThreadInfo>,
    #[serde(default)]
    pub lines: Vec<LineCost>,
    #[serde(default)]
    pub waiting: Option<Waiting>,
}

/// One thread of the run.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ThreadInfo {
    pub thread: u64,
    pub cost_s: f64,
    #[serde(default)]
    pub memory: Option<f64>,
}

/// One source line.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct LineCost {
    pub function: String,
    pub file: String,
    pub line: u32,
    pub module: String,
    pub cost: Cost,
}

/// Time in spin loops.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Waiting {
    pub seconds: f64,
    pub share: f64,
    pub places: Vec<WaitingPlace>,
}

/// One loop of one thread.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct WaitingPlace {
    pub thread: u64,
    pub function: String,
    pub file: String,
    pub line: u32,
    pub seconds: f64,
    pub share: f64,
}

/// The recorded run.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct RunInfo {
    pub command: Vec<String>,
    pub wall_s: f64,
    /// 0 where the table of threads is missing.
    #[serde(deserialize_with = "or_zero")]
    pub threads: usize,
    pub exit: Option<i32>,
}

fn or_zero<'de, D: serde::Deserializer<'de>>(number: D) -> Result<usize, D::Error> {
    Option::deserialize(number).map(Option::unwrap_or_default)
}

/// How it was sampled.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Sampler {
    pub kind: String,
    pub rate_hz: f64,
    #[serde(default)]
    pub hooks: bool,
    #[serde(default)]
    pub caches: Option<String>,
}

/// What became of the samples.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Samples {
    pub recorded: u64,
    pub attributed: u64,
    pub unattributed: BTreeMap<String, u64>,
    /// Those that are no data access at all; part of `unattributed`.
    #[serde(default)]
    pub without_access: u64,
}

/// One kind of loss.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Loss {
    pub kind: String,
    pub count: u64,
    pub remedy: String,
}

/// One call site, sampled or not.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct SiteCount {
    pub site: Site,
    pub count: u64,
    pub freed: u64,
}

/// One process.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Process {
    pub command: String,
    pub tracked: bool,
}

/// One object.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Object {
    pub id: u64,
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub module: Option<String>,
    pub site: Option<Site>,
    pub instances: u64,
    pub bytes: u64,
    pub pages: u64,
    pub samples: u64,
    pub cost: Cost,
    pub accesses: Accesses,
    #[serde(default)]
    pub memory: Option<Memory>,
    pub threads: Vec<ThreadShare>,
    pub first_touch: Vec<FirstTouch>,
    pub pattern: Pattern,
    #[serde(default)]
    pub instance_patterns: Vec<InstancePattern>,
    #[serde(default)]
    pub advice: Option<Advice>,
    #[serde(default)]
    pub line_sharing: Option<LineSharing>,
    #[serde(default)]
    pub instance_table: Vec<Instance>,
    #[serde(default)]
    pub page_bytes: Option<u64>,
    #[serde(default)]
    pub page_table: Option<Vec<Page>>,
}

/// Cache lines that several threads use.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct LineSharing {
    pub kind: String,
    pub lines: u64,
    pub threads: usize,
    pub writers: usize,
}

/// Where it was allocated.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Site {
    pub function: String,
    pub file: String,
    pub line: u32,
    #[serde(default)]
    pub via: String,
    pub stack: Vec<String>,
}

/// Time.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Cost {
    pub seconds: f64,
    pub share: f64,
    pub error: Option<f64>,
}

/// Accesses that reach memory.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Memory {
    pub reads: f64,
    pub writes: f64,
    pub total: f64,
    pub share: f64,
}

/// Counts.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Accesses {
    #[serde(deserialize_with = "number_if_stated")]
    pub reads: f64,
    #[serde(deserialize_with = "number_if_stated")]
    pub writes: f64,
    #[serde(deserialize_with = "number_if_stated")]
    pub share: f64,
    #[serde(default)]
    pub error: Option<f64>,
    #[serde(default)]
    pub basis: Option<f64>,
}

/// What is not stated is 0: a test that needs it fails.
pub fn number_if_stated<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(from).map(Option::unwrap_or_default)
}

/// One thread's part.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ThreadShare {
    pub thread: usize,
    pub cost_share: f64,
    /// Known where accesses were counted one by one.
    pub access_share: Option<f64>,
}

/// Pages that one thread touched first at one line.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct FirstTouch {
    pub thread: usize,
    pub function: String,
    pub file: String,
    pub line: u32,
    #[serde(default)]
    pub via: String,
    pub pages: u64,
    #[serde(default)]
    pub recycled: bool,
}

/// How threads share it.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Pattern {
    pub kind: String,
    pub block_bytes: u64,
    pub period_bytes: u64,
    #[serde(default)]
    pub samples: u64,
}

/// Instances that threads share in one way.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct InstancePattern {
    pub kind: String,
    pub instances: u64,
    pub threads: u64,
    pub block_bytes: u64,
}

/// What to do about an object.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Advice {
    pub kind: String,
    pub text: String,
    pub thread: usize,
    pub line: u32,
    pub share: f64,
}

/// One instance of an object that was asked for.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Instance {
    pub instance: u64,
    pub bytes: u64,
    pub first_page: Option<u64>,
    pub threads: Vec<ThreadShare>,
    pub first_touch: Vec<FirstTouch>,
    pub pattern: Pattern,
}

/// One page of an object that was asked for.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Page {
    pub page: u64,
    #[serde(default)]
    pub instance: Option<u64>,
    pub node: Option<i32>,
    pub owner: Option<usize>,
    pub samples: u64,
    pub by_thread: BTreeMap<String, f64>,
    pub first_touch_thread: Option<usize>,
}

impl Report {
    /// The report of a recording.
    #[track_caller]
    pub fn of(dataset: &Path) -> Report {
        let run = Run::report(dataset).args(["--format", "json"]).run().success();
        serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("the JSON report: {e}\n{run}"))
    }

    /// The object of that name with its table of pages.
    #[track_caller]
    pub fn object_of(dataset: &Path, name: &str) -> Object {
        let run = Run::report(dataset).args(["--object", name, "--format", "json"]).run().success();
        let report: Report =
            serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("the JSON report: {e}\n{run}"));
        let found = report.objects.into_iter().find(|o| o.page_table.is_some() && o.name == name);
        found.unwrap_or_else(|| panic!("no object {name:?} with a page_table: {run}"))
    }

    /// How often a kind of loss was counted.
    pub fn lost(&self, kind: &str) -> u64 {
        self.losses.iter().filter(|loss| loss.kind == kind).map(|loss| loss.count).sum()
    }

    /// How many events about blocks were lost, for whatever reason.
    pub fn lost_of_heap(&self) -> u64 {
        self.losses.iter().filter(|loss| loss.kind.starts_with("heap_")).map(|loss| loss.count).sum()
    }

    /// Allocations and releases of the call site in `function`.
    pub fn counted(&self, function: &str) -> (u64, u64) {
        let sites = self.sites.iter().filter(|site| site.site.function == function);
        sites.fold((0, 0), |(made, freed), site| (made + site.count, freed + site.freed))
    }

    /// The object of that name, or the first one that begins with it as a word.
    #[track_caller]
    pub fn object(&self, name: &str) -> &Object {
        let named = |object: &&Object| object.name == name || object.name.starts_with(&format!("{name} "));
        let found = self.objects.iter().find(named);
        found.unwrap_or_else(|| {
            panic!("no object {name}: {:?}", self.objects.iter().map(|o| &o.name).collect::<Vec<_>>())
        })
    }

    /// Reads and writes of that object.
    #[track_caller]
    pub fn accesses_of(&self, name: &str) -> (f64, f64) {
        let accesses = &self.object(name).accesses;
        (accesses.reads, accesses.writes)
    }

    /// Reads and writes of all objects that a function made, for itself or for others.
    pub fn accesses_made_by(&self, function: &str) -> (f64, f64) {
        let made = |object: &&Object| object.site.as_ref().is_some_and(|s| s.function == function || s.via == function);
        let accesses = self.objects.iter().filter(made).map(|object| &object.accesses);
        accesses.fold((0.0, 0.0), |(reads, writes), of| (reads + of.reads, writes + of.writes))
    }

    /// Share of the samples at data accesses whose object is known.
    pub fn attributed_share(&self) -> f64 {
        let accesses = self.samples.recorded.saturating_sub(self.samples.without_access);
        if accesses == 0 { 0.0 } else { self.samples.attributed as f64 / accesses as f64 }
    }
}

/// The text report, for messages.
pub fn text(dataset: &Path) -> String {
    let run = Run::report(dataset).run();
    format!("{}{}", run.out(), run.err())
}
