//! Threads that come one after the other do one thread's work: a program that starts four threads for each step has four workers.

use numamma_trace::ThreadRow;

/// The worker that each thread is, in the order of the table: the lowest number that is free in its process when the thread starts.
pub fn workers(threads: &[ThreadRow]) -> Vec<usize> {
    let mut by_start: Vec<usize> = (0..threads.len()).collect();
    by_start.sort_by_key(|&at| (threads[at].process, threads[at].start_time, threads[at].thread));
    let mut numbers = vec![0; threads.len()];
    // By worker: when its last thread ended.
    let (mut process, mut ends): (Option<i32>, Vec<i64>) = (None, Vec::new());
    for at in by_start {
        let row = &threads[at];
        if process.replace(row.process) != Some(row.process) {
            ends.clear();
        }
        let free = ends.iter().position(|&end| end <= row.start_time).unwrap_or(ends.len());
        ends.resize(ends.len().max(free + 1), 0);
        ends[free] = row.end_time;
        numbers[at] = free;
    }
    numbers
}

/// By thread: the first thread that is the same worker of the same process.
pub fn first_threads(threads: &[ThreadRow]) -> Vec<i32> {
    let numbers = workers(threads);
    let mut first = rustc_hash::FxHashMap::default();
    let of = |(row, &number): (&ThreadRow, &usize)| *first.entry((row.process, number)).or_insert(row.thread);
    threads.iter().zip(&numbers).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(times: &[(i32, i64, i64)]) -> Vec<ThreadRow> {
        let row = |(thread, &(process, start_time, end_time)): (usize, &(i32, i64, i64))| ThreadRow {
            thread: thread as i32,
            process,
            pid: 1,
            tid: 1,
            name: String::new(),
            start_time,
            end_time,
            stack_low: 0,
            stack_high: 0,
            tls_low: 0,
            tls_high: 0,
            samples: 0,
        };
        times.iter().enumerate().map(row).collect()
    }

    #[test]
    fn generations_of_threads_are_the_same_workers() {
        let never = i64::MAX;
        let threads = rows(&[(0, 0, never), (0, 1, 9), (0, 2, 8), (0, 10, 19), (0, 11, 15), (0, 12, 20)]);
        assert_eq!(workers(&threads), [0, 1, 2, 1, 2, 3]);
        assert_eq!(first_threads(&threads), [0, 1, 2, 1, 2, 5]);
    }

    #[test]
    fn each_process_has_its_own() {
        let threads = rows(&[(0, 0, 100), (1, 5, 50), (1, 6, 50), (0, 7, 60)]);
        assert_eq!(workers(&threads), [0, 0, 1, 1]);
        assert_eq!(first_threads(&threads), [0, 1, 2, 3]);
    }
}
