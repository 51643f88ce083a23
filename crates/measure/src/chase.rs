//! Dependent loads: each names the address of the next one, so none begins before the last one has ended.

use std::hint::black_box;
use std::time::Duration;

use crate::system::thread_time;

/// A cycle through all lines of a footprint, in random order.
///
/// Links are kept apart from the memory that they are written to: one cycle serves the memory of every node.
pub(crate) struct Cycle {
    next: Vec<u32>,
    words_per_line: usize,
}

impl Cycle {
    /// Through `bytes` of memory with lines of `line` bytes.
    pub(crate) fn new(bytes: usize, line: usize) -> Self {
        let words_per_line = (line / size_of::<u64>()).max(1);
        let lines = (bytes / (words_per_line * size_of::<u64>())).clamp(2, u32::MAX as usize);
        Self { next: sattolo(lines), words_per_line }
    }

    /// Bytes of a line.
    pub(crate) fn line_bytes(&self) -> usize {
        self.words_per_line * size_of::<u64>()
    }

    /// Words of memory that it needs.
    pub(crate) fn words(&self) -> usize {
        self.next.len() * self.words_per_line
    }

    /// Writes the links into memory.
    pub(crate) fn write(&self, memory: &mut [u64]) {
        let lines = memory.chunks_mut(self.words_per_line);
        lines.zip(&self.next).for_each(|(line, &next)| line[0] = u64::from(next) * self.words_per_line as u64);
    }
}

/// A random permutation that is one cycle (Sattolo): no load comes back before all others were made.
fn sattolo(count: usize) -> Vec<u32> {
    let mut items: Vec<u32> = (0..count as u32).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for index in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // The upper half times the bound: a number below it.
        let other = ((random >> 32) * index as u64 >> 32) as usize;
        items.swap(index, other);
    }
    items
}

/// Follows the links; the place where it ends is where the next samples begin.
pub(crate) struct Chase<'a> {
    links: &'a [u64],
    at: usize,
    steps: usize,
}

impl<'a> Chase<'a> {
    /// Begins at the line that follows word `start`, with a number of steps that takes about `time`.
    pub(crate) fn new(links: &'a [u64], start: usize, time: Duration) -> Self {
        let mut chase = Self { links, at: start, steps: 256 };
        loop {
            let begin = thread_time();
            chase.follow();
            let took = thread_time().saturating_sub(begin);
            if took >= time / 4 || chase.steps >= 1 << 28 {
                let factor = time.as_secs_f64() / took.as_secs_f64().max(1e-9);
                chase.steps = ((chase.steps as f64 * factor) as usize).clamp(64, 1 << 28);
                return chase;
            }
            chase.steps *= 2;
        }
    }

    /// Mean nanoseconds of a load.
    pub(crate) fn sample(&mut self) -> f64 {
        let begin = thread_time();
        self.follow();
        let took = thread_time().saturating_sub(begin);
        took.as_secs_f64() * 1e9 / self.steps as f64
    }

    #[inline(never)]
    fn follow(&mut self) {
        let mut at = self.at;
        for _ in 0..self.steps {
            // The check of the bound is off the path of dependences: a processor guesses it right.
            at = self.links[at] as usize;
        }
        self.at = black_box(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_meets_every_line_once() {
        for bytes in [128, 4096, 100_000] {
            let cycle = Cycle::new(bytes, 64);
            let mut memory = vec![0; cycle.words()];
            cycle.write(&mut memory);
            let lines = cycle.words() / 8;
            let mut met = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut met[at / 8], true));
                at = memory[at] as usize;
                assert_eq!(at % 8, 0);
            }
            assert_eq!(at, 0, "{bytes}: closed");
        }
    }

    #[test]
    fn samples_are_positive() {
        let cycle = Cycle::new(4096, 64);
        let mut memory = vec![0; cycle.words()];
        cycle.write(&mut memory);
        let mut chase = Chase::new(&memory, 0, Duration::from_micros(200));
        assert!(chase.sample() > 0.0);
    }
}
