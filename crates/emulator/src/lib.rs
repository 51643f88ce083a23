//! Executes a thread's code without the thread: which instructions and accesses to memory come next.
//!
//! ```text
//!   registers ──> Emulator::run ──> registers after it, and why it ended
//!                   │      ^   └──> Observer: instructions, accesses
//!       code, data  │      │
//!                   v      │
//!   Memory: pages of the process, read once each; writes stay in copies of them
//! ```
//!
//! The thread is stopped, its process is never written. What is told is what the processor would have done from this state on
//! with nothing else happening: no other thread writes, no signal comes. Whatever is not known exactly ends the run and says
//! why: a system call, a fault, an instruction that is not emulated.
//!
//! - `code.rs` keeps decoded code (`decode.rs`, `op.rs`) by blocks, and looks once a run whether it is still there
//! - `step.rs` says what executes an instruction: `integer.rs`, `control.rs`, `strings.rs`, `lanes.rs`, `special.rs` execute what is frequent, or touches more than its operands;
//!   arithmetic by the processor's own instructions (`arithmetic.rs`), so that its flags are exact
//! - `harmless.rs` decides what else the processor may execute in our process; `native.rs` has it do so, by code that `stub.rs`
//!   writes into `arena.rs`
//!
//! Not exact: what `cpuid`, `rdtsc` and `rdrand` say is what they say now and here; the last instruction's address that the x87
//! keeps is not kept.
#![cfg(target_arch = "x86_64")]

mod arena;
mod arithmetic;
mod code;
mod context;
mod control;
mod decode;
mod emulator;
mod features;
mod flags;
mod harmless;
mod integer;
mod lanes;
mod memory;
mod native;
mod observe;
mod op;
mod runner;
mod save;
mod special;
mod state;
mod step;
mod stop;
mod strings;
mod stub;

pub use emulator::{Emulator, Limits, Place, Run};
pub use memory::{Memory, PAGE, Rights};
pub use observe::{Access, Observer};
pub use state::{EXTENDED_BYTES, Extended, State};
pub use stop::{Fault, Stop, Unsupported};
