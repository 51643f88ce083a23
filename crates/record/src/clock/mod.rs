//! The clock sampler: data addresses from timer interrupts, without a PMU.
//!
//! A sample is the register file at an instruction boundary. The code round it is decoded once per function ([`lift`]);
//! the rules then find the data accesses that the sample stands for ([`rules`]), by computing addresses from the registers,
//! stepping forward or undoing instructions ([`machine`]).
//!
//! ```text
//!   mov  rax, [rbx+8*rcx]   <- the access that stalled: rule "before", carries the cost
//! > add  rdx, rax           <- sampled instruction pointer (the skid is one instruction)
//!   mov  [rdi+8*rcx], rdx   <- the next access: rule "forward" when there is none before
//!   inc  rcx ; cmp ; jne       all accesses of the block: rule "spread", carry the counts
//! ```

mod choice;
pub mod code;
pub mod counts;
mod frame;
pub mod lift;
pub mod machine;
pub mod rules;
pub mod run_time;
mod spin;
pub mod tick;
