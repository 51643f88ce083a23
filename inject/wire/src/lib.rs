//! The contract between the library inside the recorded program and the recorder.
//!
//! `include/numamma_wire.h` is the single truth; this crate mirrors it ([`layout`]; a test compares the two field by
//! field) and is the recorder's side of it: it creates the [`Segment`], drains the [`Ring`]s into [`Event`]s and sleeps
//! until a writer rings the [`Bell`].
//!
//! Design constraints:
//! - The writers are other people's programs: they die in the middle of anything, and a stray pointer may scribble over
//!   the segment. Whatever is read is checked, and what makes no sense becomes a [`Malformed`], never a panic.
//! - Memory that the other side writes is only touched through atomics, so a hostile writer can confuse the recording
//!   but cannot cause undefined behaviour here.

mod bell;
mod event;
pub mod layout;
pub mod plan;
mod ring;
mod segment;
mod shared_plan;

pub use bell::{Bell, Woken};
pub use event::{AccessAt, Accessed, Api, Event, Malformed, Stamped, Unsupported, is_younger};
pub use ring::{Drained, Losses, Owner, Ring, RingState};
pub use segment::{Caches, Clock, ENVIRONMENT, Options, Segment};
pub use shared_plan::{SharedPlan, Tables};
