//! The kernel's side of a recording: events and their records.
//!
//! One ring per CPU carries everything, so that the records of a CPU are in order:
//!
//! ```text
//!   CPU n:  clock (registers) --+
//!           page faults --------+--> ring n --> Rings::run (a thread) --> bytes --> decode --> Record
//!           mmap/comm/task -----+    (of the clock event; the others are redirected into it)
//! ```

pub mod decode;
pub mod events;
pub mod glances;
pub mod rings;
