//! Launches a program, samples it and writes the dataset.
//!
//! ```text
//!   probe (clock::tick) -> launch (suspended) -> perf rings + shared rings -> order by time -> Session -> Sink -> dataset
//! ```
//!
//! The program is never stopped, traced or signalled, unless trace windows are asked for (`trace_windows/`); nothing runs in it but the preloaded library, which writes events
//! into shared memory. If the recorder dies, the program goes on.

mod caller;
mod callsite;
mod clock;
mod code_places;
mod collect;
mod cost;
mod error;
pub mod exact;
mod filter;
mod finish;
mod frame_tree;
mod inside;
mod modules;
mod nodes;
mod notice;
mod objects;
mod perf;
mod probes;
mod progress;
mod recording;
mod session;
mod sink;
mod sites;
mod space;
mod tasks;
mod thinning;
mod timebase;
mod trace_windows;
mod tracked;
mod watched;
mod window;

pub use clock::tick::{measure_cost, rate_for};
pub use error::RecordError;
pub use progress::Progress;
pub use recording::{Options, Outcome, Sampler, record, try_events};
