//! What a recording has cost, by part.

use std::time::Duration;

use numamma_trace::{Cost, Meta};

use crate::clock::tick;

/// Nanoseconds of a run that is long enough for a second look at the cost of a sample.
const LONG: i64 = 2_000_000_000;

/// Of a recording whose threads ran for `thread_time` nanoseconds; `before`: our own CPU time when it began.
pub fn of(meta: &Meta, thread_time: u64, before: Duration) -> Cost {
    let recorder = own_cpu_time().saturating_sub(before).as_nanos() as u64;
    let sampler = &meta.sampler;
    // The machine was less busy at the start, or more.
    let again = if meta.end - meta.start > LONG { tick::measure_cost().ok() } else { None };
    let tick = again.map_or(sampler.tick_cost, |again| (again + sampler.tick_cost) / 2.0);
    let trace_windows = sampler.trace_windows.unwrap_or_default();
    let ticks = thread_time as f64 / sampler.period.max(1) as f64 * tick;
    Cost { thread_time, ticks: ticks as u64 + trace_windows.sampled, held: trace_windows.stopped, recorder }
}

/// CPU time of this process.
pub fn own_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
