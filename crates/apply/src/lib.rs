//! Runs a program under a placement plan and reads back where its memory lies.
//!
//! ```text
//!   Plan -> Placement (compiled, shared with the program) -> the library in the program asks the kernel
//!                      |                                              |
//!                      +-> Watch: pages of what is placed, <- list ---+--> counters: pages of what is gone
//!                          at intervals                                        |
//!                              +----------------> Achieved <-------------------+
//! ```
#![forbid(unsafe_code)]

mod achieved;
mod error;
mod marker;
mod phases;
mod placement;
mod readback;
mod text;
mod trial;

pub use achieved::{Achieved, PageSizes, Pages, RuleAchieved};
pub use error::ApplyError;
pub use placement::{Outcome, Placement, apply, compile_elsewhere};
pub use readback::Watch;
pub use text::render;
pub use trial::{Candidate, Interval, Tried, try_all};
