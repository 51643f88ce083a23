//! Placement plans: which memory of a program is to lie on which nodes, and where its threads are to run.
//!
//! ```text
//!   plan.toml -> text -> Plan -> resolve (machine, modules) -> Compiled -> bytes that the program maps
//!                          |
//!                          +-> snippet: the same as changes of the source
//! ```
//!
//! A [`Plan`] is what a person means: names, policies, "all nodes". A [`Compiled`] plan is the same for one machine and the files of
//! one program: addresses and node numbers only, so that the applier in the program parses nothing and looks nothing up.

#![forbid(unsafe_code)]

mod compiled;
mod error;
mod lay;
mod model;
mod places;
mod resolve;
mod sites;
mod size;
mod snippet;
mod text;
mod whole;

pub use compiled::{Compiled, Marker, RuleName};
pub use error::{Fault, PlanError};
pub use lay::{Run, lay};
pub use model::{Gather, InPhase, Nodes, Object, PageSize, Phase, Pin, Plan, Policy, Predicted, Site, Target};
pub use places::{Places, Unit};
pub use resolve::{Files, resolve};
pub use size::{format_size, parse_size};
pub use snippet::snippet;
pub use whole::{WHOLE_LEAST_BYTES, WHOLE_POLICIES};
