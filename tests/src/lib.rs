//! End-to-end tests with the real binary on real programs, and what they share.
//!
//! - [`build`]: where `numamma` and the workloads are, built when they are missing;
//! - [`run`]: a command with a time limit, its output and its end;
//! - [`place`]: a folder for one test, and what is compiled, run and recorded in it;
//! - [`turns`]: one measurement at a time on a machine of two cores;
//! - [`report`]: the stable core of the JSON report, read without the project's own types, so that a renamed field is seen;
//! - [`comparison`]: the same for `numamma compare`; [`interval`]: recordings at growing sampling intervals;
//! - [`truth`] and [`verdict`]: what a recording of a workload must show, and whether it does;
//! - [`addresses`] and [`traces`]: programs for exact recordings, whose accesses are known;
//! - [`recording`]: one that a whole test program looks at;
//! - [`guest`]: guests with several nodes; [`simulated`]: predictions against runs in them;
//! - [`programs`]: programs that nobody here wrote; [`random`]: programs that nobody wrote.
//!
//! Environment: `NUMAMMA_BIN` (the binary to test), `NUMAMMA_REQUIRE_PROGRAMS=1` (a missing program fails its test),
//! `NUMAMMA_TEST_SECONDS` (length of a workload's run, a factor), `NUMAMMA_TEST_SORT_MB` (what `sort` sorts).

pub mod addresses;
pub mod build;
pub mod comparison;
pub mod guest;
pub mod interval;
pub mod place;
pub mod programs;
pub mod random;
pub mod recording;
pub mod report;
pub mod run;
pub mod simulated;
pub mod skip;
pub mod traces;
pub mod truth;
pub mod turns;
pub mod validation;
pub mod variation;
pub mod verdict;

pub use place::Place;
pub use run::{Outcome, Run};
