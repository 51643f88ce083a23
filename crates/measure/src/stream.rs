//! Bandwidth: threads that read, write or copy memory as fast as they can.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::system::{deep, run_on, thread_time};

/// Bytes between two looks at whether to stop: little also where each byte takes microseconds, as copies do in an emulator.
const BLOCK: usize = 4 << 10;

/// Access pattern of a thread: read, write or copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// From the first half of its memory to the second.
    Copy,
}

/// GB/s of all `cpus` together, each with its part of `memory`, for a window of `time`.
pub(crate) fn rate(kind: Kind, cpus: &[u32], memory: &mut [u64], time: Duration) -> f64 {
    let part = (memory.len() / cpus.len().max(1)).max(1);
    let (barrier, stop) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    let (barrier, stop) = (&barrier, &stop);
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .zip(memory.chunks_mut(part))
            .map(|(&cpu, memory)| {
                scope.spawn(move || {
                    let placed = run_on(cpu).is_ok();
                    deep(|| {
                        barrier.wait();
                        if placed { work(kind, memory, stop) } else { 0.0 }
                    })
                })
            })
            .collect();
        barrier.wait();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// GB/s of one thread until it is stopped, for the time that it runs.
fn work(kind: Kind, memory: &mut [u64], stop: &AtomicBool) -> f64 {
    let begin = thread_time();
    let mut bytes = 0usize;
    let block = BLOCK / size_of::<u64>();
    let (source, target) = match kind {
        Kind::Copy => memory.split_at_mut(memory.len() / 2),
        _ => memory.split_at_mut(0),
    };
    'all: loop {
        match kind {
            Kind::Read => {
                for block in target.chunks(block) {
                    black_box(sum(block));
                    bytes += size_of_val(block);
                    if stop.load(Ordering::Relaxed) {
                        break 'all;
                    }
                }
            }
            Kind::Write => {
                for block in target.chunks_mut(block) {
                    black_box(&mut *block).fill(bytes as u64);
                    bytes += size_of_val(block);
                    if stop.load(Ordering::Relaxed) {
                        break 'all;
                    }
                }
            }
            Kind::Copy => {
                for (from, to) in source.chunks(block).zip(target.chunks_mut(block)) {
                    black_box(&mut to[..from.len()]).copy_from_slice(black_box(from));
                    bytes += 2 * size_of_val(from);
                    if stop.load(Ordering::Relaxed) {
                        break 'all;
                    }
                }
            }
        }
    }
    let took = thread_time().saturating_sub(begin);
    bytes as f64 / 1e9 / took.as_secs_f64().max(1e-9)
}

/// Adds all words up in several sums, which do not wait for each other.
fn sum(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<16>();
    let mut sums = [0u64; 16];
    for block in blocks {
        sums.iter_mut().zip(block).for_each(|(sum, &word)| *sum = sum.wrapping_add(word));
    }
    rest.iter().chain(&sums).fold(0, |sum, &word| sum.wrapping_add(word))
}

/// Reads memory on other CPUs while `measure` runs on this one; each pair is a CPU and the memory that it reads.
pub(crate) fn under_load<T>(load: &[(u32, &[u64])], measure: impl FnOnce() -> T) -> T {
    let (barrier, stop) = (Barrier::new(load.len() + 1), AtomicBool::new(false));
    let (barrier, stop) = (&barrier, &stop);
    std::thread::scope(|scope| {
        for &(cpu, memory) in load {
            scope.spawn(move || {
                let placed = run_on(cpu).is_ok() && !memory.is_empty();
                barrier.wait();
                let blocks = memory.chunks(BLOCK / size_of::<u64>()).cycle();
                for block in blocks.take_while(|_| placed && !stop.load(Ordering::Relaxed)) {
                    black_box(sum(block));
                }
            });
        }
        barrier.wait();
        let result = measure();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::allowed_cpus;

    #[test]
    fn all_words_are_added_up() {
        let words: Vec<u64> = (0..100).collect();
        assert_eq!(sum(&words), 4950);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn rates_are_positive() {
        let cpus = allowed_cpus().unwrap();
        let mut memory = vec![1; 1 << 16];
        for kind in [Kind::Read, Kind::Write, Kind::Copy] {
            assert!(rate(kind, &cpus, &mut memory, Duration::from_millis(2)) > 0.0, "{kind:?}");
        }
        let load = [(cpus[0], &memory[..]), (16_000, &memory[..]), (cpus[0], &[][..])];
        assert_eq!(under_load(&load, || 7), 7);
    }
}
