//! Which operands of a large basic block a sample gives rows to.
//!
//! A block of unrolled code may have hundreds, and a row each, sample after sample, tells little more than some of them in turn:
//!
//! ```text
//!   operands   0 1 2 3 4 5 6 7 8 9        in the order 0 7 4 1 8 5 2 9 6 3, so that neighbours, which
//!   sample 0   x . . . x . . x . .        often access one object, are not chosen together;
//!   sample 1   . x . . . x . . x .        each sample goes on where the last one ended
//!   sample 2   . . x . . . x . . x
//! ```
//!
//! Each sample chooses the same number of operands, and each operand is chosen equally often.

/// Rows of a sample at most, beside that of the cost.
pub const MOST_ROWS: usize = 16;

/// For each of the `count` operands of a block: whether the sample with that number, from 0, gives it a row.
pub fn chosen(count: usize, sample: u32) -> Vec<bool> {
    if count <= MOST_ROWS {
        return vec![true; count];
    }
    let mut chosen = vec![false; count];
    let (step, begin) = (step(count), sample as usize % count * MOST_ROWS);
    for place in begin..begin + MOST_ROWS {
        chosen[place % count * step % count] = true;
    }
    chosen
}

/// What goes round all of `count` before it comes back: coprime, and near the golden section, which keeps neighbours apart.
fn step(count: usize) -> usize {
    let golden = (count as f64 * 0.618_034).round() as usize;
    let mut nearest = (0..golden).flat_map(|off| [golden - off, golden + off]);
    nearest.find(|&step| common_divisor(step, count) == 1).unwrap_or(1)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operand_is_chosen_equally_often() {
        for count in [17, 18, 100, 256, 401, 720] {
            let mut times = vec![0; count];
            for sample in 0..count as u32 {
                let chosen = chosen(count, 1_000 * count as u32 + sample);
                assert_eq!(chosen.iter().filter(|&&is| is).count(), MOST_ROWS, "{count}");
                chosen.iter().zip(&mut times).for_each(|(&is, times)| *times += usize::from(is));
            }
            assert!(times.iter().all(|&times| times == MOST_ROWS), "{count}: {times:?}");
        }
    }

    /// Two arrays that are swept one after the other in one block: every sample has rows of both.
    #[test]
    fn neighbours_are_not_chosen_together() {
        for (count, sample) in
            [20, 40, 100, 400].into_iter().flat_map(|count| (0..40).map(move |sample| (count, sample)))
        {
            let chosen = chosen(count, sample);
            let half = chosen[..count / 2].iter().filter(|&&is| is).count();
            assert!((7..=9).contains(&half), "{half} of {MOST_ROWS} in the first half of {count}");
        }
    }

    #[test]
    fn small_blocks_are_whole() {
        assert_eq!(chosen(MOST_ROWS, 5), [true; MOST_ROWS]);
        assert_eq!(chosen(0, 5), [false; 0]);
    }
}
