//! Where objects and threads should be, and why: the result of `numamma plan`.

use serde::{Deserialize, Serialize};

use crate::Prediction;

/// A plan with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanFindings {
    /// [`crate::PLACEMENT_VERSION`].
    pub version: u32,
    /// The machine that it is for.
    pub machine: String,
    /// The text of the plan, with reasons as comments.
    pub toml: String,
    /// Objects with accesses to memory, most costly first.
    pub objects: Vec<ObjectAdvice>,
    /// The run without the plan.
    pub now: Prediction,
    /// The run under the plan.
    pub planned: Prediction,
    /// True if times hold memory accesses alone.
    pub memory_only: bool,
    /// Part of the threads' CPU time that loads wait for memory, 0..1: only that part depends on the placement; `None` where times are not known.
    #[serde(default)]
    pub waiting_share: Option<f64>,
    /// Facts to know before anything else, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Assumptions in place of unknown numbers, one sentence each.
    pub assumptions: Vec<String>,
}

/// Verdict on an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The plan places it.
    Advised,
    /// The plan places it, but the samples could also call for another policy.
    Weak,
    /// It stays, and at least 90 % of its accesses to memory are local.
    #[default]
    Right,
    /// It stays, for no other place makes the run 1 % faster, but fewer of its accesses are local.
    NoGain,
    /// Under 1 % of the accesses to memory.
    Cold,
    /// So small that caches hold it.
    Small,
    /// Too few samples.
    Unknown,
    /// Memory that no plan places: stacks and thread-local memory.
    Unplaceable,
}

/// Advice about one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectAdvice {
    /// Id in [`crate::Findings::objects`].
    pub id: usize,
    /// Name in reports.
    pub name: String,
    /// Verdict.
    pub verdict: Verdict,
    /// The reason, in one sentence.
    pub diagnosis: String,
    /// The policy as plans write it; empty if the plan does not place it.
    pub policy: String,
    /// Share of all accesses to memory: of the time that loads wait for it where these are not counted.
    pub memory_share: f64,
    /// Half-width of its 95 % interval; `None` where all are counted.
    #[serde(default)]
    pub memory_error: Option<f64>,
    /// Samples of its accesses to memory.
    pub samples: u64,
    /// Local accesses to memory where it lies without the plan, 0..1.
    pub local_now: f64,
    /// The same if each page lies with its main user.
    pub local_by_owner: f64,
    /// The same if it is interleaved.
    pub local_interleaved: f64,
    /// Share of resamplings of the samples in which the same policy is chosen, 0..1.
    pub confidence: f64,
    /// Policies that other resamplings choose, most frequent first.
    pub alternatives: Vec<String>,
    /// Every policy that was compared, best first.
    pub candidates: Vec<PolicyCost>,
    /// The line to change instead, if it is known.
    pub line: Option<LineToChange>,
}

/// One policy for one object, all others as planned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyCost {
    /// The policy as plans write it.
    pub policy: String,
    /// Predicted time of the run, seconds.
    pub time_s: f64,
    /// Local accesses of the object to memory, 0..1.
    pub local_share: f64,
}

/// A line of the program, and what to do there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineToChange {
    /// Function.
    pub function: String,
    /// Source file.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Change to make.
    pub change: String,
}
