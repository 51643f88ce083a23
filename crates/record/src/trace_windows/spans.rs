//! Spans of a trace window: instructions that follow each other, as many as a processor retires at once. A few of all are picked, at random.

use crate::clock::counts::resample::Random;

/// Instructions of a span: the widest processors retire so many in a cycle.
pub const SPAN: usize = 8;
/// One span begins in so many instructions, in the mean.
const APART: usize = 150;

/// Addresses of instructions in the order of their execution.
pub type Span = [u64; SPAN];

/// Picks spans of instructions, never in step with a loop.
pub fn pick(instructions: &[u64], random: &mut Random) -> Vec<Span> {
    let mut picked = Vec::with_capacity(instructions.len() / APART + 1);
    let mut rest = instructions.get(random.below(APART)..).unwrap_or_default();
    while let Some(span) = rest.first_chunk() {
        picked.push(*span);
        rest = rest.get(1 + random.below(2 * APART)..).unwrap_or_default();
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_in_order_and_anywhere() {
        let mut random = Random::new(3);
        let instructions: Vec<u64> = (0..5000).collect();
        let mut first = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let picked = pick(&instructions, &mut random);
            assert!((15..60).contains(&picked.len()), "{}", picked.len());
            assert!(picked.iter().all(|span| span.windows(2).all(|two| two[1] == two[0] + 1)), "{picked:?}");
            first.insert(picked[0][0]);
        }
        assert!(first.len() > 50, "{first:?}");
        assert_eq!(pick(&instructions[..SPAN - 1], &mut random), [] as [Span; 0]);
    }
}
