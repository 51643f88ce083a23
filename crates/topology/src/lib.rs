//! Nodes, CPUs and what the machine offers to a sampler.
//!
//! Everything is read from files below a root directory: `/` is this machine, any other
//! directory a copy of another machine's `/sys` and `/proc` (the convention of hwloc's
//! `HWLOC_FSROOT`). No system call beyond reading files is made, so a snapshot says as much as
//! the machine it was taken on, and every test runs on any host.
//!
//! Architecture invariant: reading never fails and never panics. A file that is absent,
//! unreadable or nonsense leaves its field empty; [`render_doctor`] and [`choose_sampler`] say what
//! follows from that.

#![forbid(unsafe_code)]

mod choose;
mod derive;
mod doctor;
pub mod hwloc;
pub mod list;
mod machine;
pub mod machines;
mod model;
pub mod picture;
mod probe;
mod refusal;
mod tree;

pub use choose::{Advice, Choice, Kind, Sampler, State, choose_sampler};
pub use derive::LatencyUnknown;
pub use doctor::{Doctor, TickCost, render_doctor};
pub use machine::{Cache, Cpu, Machine, Node, Performance};
pub use model::{Contention, MachineModel, ModelNode};
pub use probe::{Capabilities, Pmu, Probe, Trial};
pub use refusal::Refusal;
