//! Keeps a recording within its number of samples: whenever it would exceed it, every second sample goes, and each that stays
//! stands for twice as many.
//!
//! ```text
//!   samples of a thread   0   1   2   3   4   5   6   7
//!   halved once             1   2       4           7      of each pair one, by the toss of a coin
//!   halved twice            1                       7      of each pair of those, likewise
//! ```
//!
//! One of each pair, not each with half a chance: after any number of halvings what stays of a thread stands for its time to
//! within one sample. Which one of a pair is random, so that no rhythm of the program is met by one of ours. It is settled
//! when the sample is taken, by the thread and the sample's number in it: samples that are written already are dropped when
//! the parts are merged, by nothing but that number of halvings which each of them bears.

use crate::tasks::ThreadId;

/// Halvings that are ever told apart: no recording has as many samples.
const MOST: u32 = 48;

/// Which samples of a recording stay.
#[derive(Debug)]
pub struct Thinning {
    most: u64,
    halvings: u32,
    kept: u64,
    /// Kept samples by the number of halvings that they survive.
    by_survival: [u64; MOST as usize + 1],
    /// Number of the next sample of each thread.
    next: Vec<u64>,
}

impl Thinning {
    /// Keeps at most `most` samples.
    pub fn new(most: u64) -> Self {
        Self { most, halvings: 0, kept: 0, by_survival: [0; MOST as usize + 1], next: Vec::new() }
    }

    /// A sample was taken in `thread`: how many halvings it survives, or `None` if that are fewer than there have been.
    pub fn take(&mut self, thread: ThreadId) -> Option<u32> {
        if self.next.len() <= thread {
            self.next.resize(thread + 1, 0);
        }
        let number = self.next[thread];
        self.next[thread] += 1;
        Some(survival(thread as u64, number)).filter(|&survives| survives >= self.halvings)
    }

    /// A sample that survives so many halvings was written.
    pub fn keep(&mut self, survives: u32) {
        self.by_survival[survives as usize] += 1;
        self.kept += 1;
        while self.kept > self.most && self.halvings < MOST {
            self.kept -= self.by_survival[self.halvings as usize];
            self.halvings += 1;
        }
    }

    /// How often the recording has been halved.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// How many samples each one that stays stands for.
    pub fn factor(&self) -> u64 {
        1 << self.halvings
    }
}

/// How many halvings sample `number` of a thread survives.
fn survival(thread: u64, number: u64) -> u32 {
    let survives = |halving: &u32| {
        let pair = number >> halving;
        let second = number >> (halving - 1) & 1;
        coin(thread, *halving, pair) == second
    };
    (1..=MOST).take_while(survives).count() as u32
}

/// 0 or 1, as if by chance, always the same for the same pair (the finaliser of splitmix64).
fn coin(thread: u64, halving: u32, pair: u64) -> u64 {
    let mut x = pair
        .wrapping_add(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(u64::from(halving).wrapping_mul(0xd1b5_4a32_d192_ed03));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator for the tests' own choices.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Samples of some threads in any order: what is left in the end, with number and thread.
    fn run(most: u64, samples: u64, threads: u64, random: &mut Random) -> (Thinning, Vec<(usize, u64)>) {
        let mut thinning = Thinning::new(most);
        let mut numbers = vec![0; threads as usize];
        let mut written = Vec::new();
        for _ in 0..samples {
            let thread = random.below(threads) as usize;
            let number = numbers[thread];
            numbers[thread] += 1;
            if let Some(survives) = thinning.take(thread) {
                written.push((thread, number, survives));
                thinning.keep(survives);
            }
        }
        let halvings = thinning.halvings();
        let left = written.into_iter().filter(|&(.., survives)| survives >= halvings);
        let left = left.map(|(thread, number, _)| (thread, number)).collect();
        (thinning, left)
    }

    #[test]
    fn nothing_goes_while_there_is_room() {
        let (thinning, left) = run(1000, 1000, 3, &mut Random(1));
        assert_eq!((thinning.factor(), left.len()), (1, 1000));
    }

    #[test]
    fn whatever_comes_the_recording_is_within_its_bounds_and_stands_for_all_that_came() {
        let mut random = Random(7);
        for round in 0..300 {
            let (most, samples, threads) = (1 + random.below(3000), 1 + random.below(40_000), 1 + random.below(9));
            let (thinning, left) = run(most, samples, threads, &mut random);
            let what = format!("round {round}: {samples} samples of {threads} threads, at most {most}");
            assert!(left.len() as u64 <= most, "{what}: {} left", left.len());
            assert_eq!(left.len() as u64, thinning.kept, "{what}");
            // Each thread's last pair of pairs may be incomplete: off by one of what is left, for each thread.
            let stands_for = left.len() as u64 * thinning.factor();
            assert!(stands_for.abs_diff(samples) <= threads * thinning.factor(), "{what}: {stands_for}");
            // No more was given up than had to be.
            assert!(thinning.factor() == 1 || 2 * left.len() as u64 + 2 * threads >= most, "{what}: {}", left.len());
        }
    }

    #[test]
    fn of_each_block_exactly_one_stays() {
        for (thread, halvings) in [(0, 1), (0, 4), (5, 3), (1000, 6)] {
            for block in 0..200_u64 {
                let all = block << halvings..(block + 1) << halvings;
                assert_eq!(all.filter(|&n| survival(thread, n) >= halvings).count(), 1, "{thread} {halvings} {block}");
            }
        }
    }

    /// What a program does every 2, 3, .. samples has its share in what stays.
    #[test]
    fn no_rhythm_is_lost() {
        for thread in 0..8 {
            for period in [2_u64, 3, 4, 7, 8, 16, 64] {
                let stays: Vec<u64> = (0..64_000).filter(|&n| survival(thread, n) >= 3).collect();
                let share = stays.iter().filter(|&&n| n % period == 0).count() as f64 / stays.len() as f64;
                let expected = 1.0 / period as f64;
                // Six deviations of a draw of 8000.
                let slack = 6.0 * (expected * (1.0 - expected) / 8000.0).sqrt();
                assert!((share - expected).abs() < slack, "thread {thread}, period {period}: {share}");
            }
        }
    }
}
