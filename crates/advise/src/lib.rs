//! Predicted cost of placements on a machine, and the best placement. Pure: the use of memory in a run and a machine in, numbers and a plan out.
//!
//! ```text
//!   Usage ── demand ──> misses, compute time          machine ── latencies ──> idle latencies, queues
//!                │                                                  │
//!   layout: node of each page, thread ── traffic ──> phases x threads x nodes ── time ──> seconds
//!                                                                                 │
//!                                             interval <── what is not known ─────┘
//! ```
//!
//! `docs/MODEL.md` has the formulas and what they assume.
#![forbid(unsafe_code)]

mod blocks;
mod calibrate;
mod choose;
mod demand;
mod diagnose;
mod error;
mod evidence;
mod extrapolate;
mod interval;
mod latencies;
mod layout;
mod locality;
mod model;
mod options;
mod page_map;
mod plan;
mod planned;
mod policy;
mod predict;
mod proposals;
mod random;
mod runs;
mod stability;
mod target;
mod text;
mod threads;
mod time;
mod traffic;
mod weights;

pub use calibrate::{Calibration, calibrate, calibrate_by_name};
pub use error::AdviseError;
pub use layout::Layout;
pub use options::{Affinity, Options, Pages, ThreadPlacement};
pub use plan::{PlanAdvice, plan};
pub use predict::{Candidate, Layouts, predict};
