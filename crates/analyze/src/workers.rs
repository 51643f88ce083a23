//! Threads that come one after the other as one worker: a program that creates its threads anew for each parallel part has as many
//! workers as threads at a time.
//!
//! ```text
//!   thread  0 ────────────────────────   worker 0
//!           1 ───── 3 ─────  5 ─────     worker 1
//!           2 ────  4 ──────  6 ───      worker 2
//! ```
//!
//! `numamma apply` numbers the threads that it pins alike (`inject/preload/place/pin.c`).

use numamma_trace::ThreadRow;
use rustc_hash::FxHashMap;

/// The kernel tells of a thread's end some time after who waits for it goes on, and may have created the next one. Nanoseconds.
const LATE: i64 = 1_000_000;

/// The worker of each thread, in the order of the rows: the lowest number that is free in its process when it starts.
fn workers(threads: &[ThreadRow]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|&n| (threads[n].start_time, threads[n].thread));
    // By process: when each worker's last thread ended.
    let mut ended: FxHashMap<i32, Vec<i64>> = FxHashMap::default();
    let mut workers = vec![0; threads.len()];
    for n in order {
        let row = &threads[n];
        let ended = ended.entry(row.process).or_default();
        let free = ended.iter().position(|end| end.saturating_sub(LATE) <= row.start_time).unwrap_or(ended.len());
        match ended.get_mut(free) {
            Some(end) => *end = row.end_time,
            None => ended.push(row.end_time),
        }
        workers[n] = free;
    }
    workers
}

/// By thread: the first thread that is the same worker of the same process.
pub fn first_threads(threads: &[ThreadRow]) -> Vec<i32> {
    let mut first = FxHashMap::default();
    let of = |(row, worker): (&ThreadRow, usize)| *first.entry((row.process, worker)).or_insert(row.thread);
    threads.iter().zip(workers(threads)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(process: i32, start_time: i64, end_time: i64) -> ThreadRow {
        ThreadRow {
            thread: 0,
            process,
            pid: 0,
            tid: 0,
            name: String::new(),
            start_time,
            end_time,
            stack_low: 0,
            stack_high: 0,
            tls_low: 0,
            tls_high: 0,
            samples: 0,
        }
    }

    #[test]
    fn generations_of_threads_are_the_same_workers() {
        let ms = 1_000_000;
        let threads = [
            thread(0, 0, i64::MAX),
            thread(0, ms, 5 * ms),
            thread(0, ms + 1, 6 * ms),
            // Created before the kernel told of the ends.
            thread(0, 6 * ms - 10, 9 * ms),
            thread(0, 6 * ms - 5, 12 * ms),
            thread(0, 10 * ms, 11 * ms),
            // Another process.
            thread(1, 2 * ms, 3 * ms),
        ];
        assert_eq!(workers(&threads), [0, 1, 2, 1, 2, 1, 0]);
        let numbered: Vec<ThreadRow> =
            threads.into_iter().zip(0..).map(|(row, thread)| ThreadRow { thread, ..row }).collect();
        assert_eq!(first_threads(&numbered), [0, 1, 2, 1, 2, 1, 6]);
    }
}
