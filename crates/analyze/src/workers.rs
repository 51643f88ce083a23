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

/// A thread that says that its work is done may end after the next one has started. Nanoseconds.
///
/// Measured with programs that start two or four threads anew after each 0.1 ms of work, 1000 to 6000 threads in all, on two CPUs with
/// other work on them, then beside two busy loops as well. The part of the threads that end later than this: `pthread_join` none;
/// `std::thread::scope` up to 0.1 %, with busy loops up to 1.1 %; nested parallel regions of libgomp up to 2.0 %, and 4.1 %. For
/// `scope`, two at a time: one in ten threads is late at all, one in a hundred by 0.15 ms, one in a thousand by 1 ms.
const LATE: i64 = 1_000_000;

/// The life of the earlier thread is divided by this: its end is not later by more. Without this limit the threads of these programs, all of
/// whose life is within [`LATE`], were one worker: 93 % of the threads of two at a time (`pthread_join`) had the same one, and have
/// 52 % now. In return, late threads that lived shorter get a worker of their own: 4.1 % of `scope`, 11.7 % with busy loops.
const LATE_PART: i64 = 2;

/// The worker of each thread, in the order of the rows: the lowest number that is free in its process when it starts.
fn workers(threads: &[ThreadRow]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|&n| (threads[n].start_time, threads[n].thread));
    // By process: the life of each worker's last thread.
    let mut last: FxHashMap<i32, Vec<(i64, i64)>> = FxHashMap::default();
    let mut workers = vec![0; threads.len()];
    for n in order {
        let row = &threads[n];
        let last = last.entry(row.process).or_default();
        let late = |start: i64, end: i64| LATE.min(end.saturating_sub(start) / LATE_PART);
        let has_ended = |&(start, end): &(i64, i64)| end.saturating_sub(late(start, end)) <= row.start_time;
        let free = last.iter().position(has_ended).unwrap_or(last.len());
        match last.get_mut(free) {
            Some(life) => *life = (row.start_time, row.end_time),
            None => last.push((row.start_time, row.end_time)),
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

    /// Two at a time, for 0.1 ms each: all were one worker.
    #[test]
    fn short_threads_at_once_are_workers_of_their_own() {
        let us = 1000;
        let two = |from: i64| [thread(0, from, from + 100 * us), thread(0, from + 25 * us, from + 120 * us)];
        let mut threads = vec![thread(0, 0, i64::MAX)];
        threads.extend((0..100).flat_map(|step| two(step * 150 * us)));
        let expected: Vec<usize> = std::iter::once(0).chain((0..100).flat_map(|_| [1, 2])).collect();
        assert_eq!(workers(&threads), expected);
    }
}
