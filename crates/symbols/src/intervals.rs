//! Address ranges that may nest, cut into disjoint pieces for one binary search per question.
//!
//! ```text
//! in    a [==========================)      a function, an array
//!       b       [====)                      a label with a size inside it
//! out     [  a  )[  b )[      a      )      the innermost range wins
//! ```

/// A piece of the range with number `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub start: u64,
    pub end: u64,
    pub id: u32,
}

/// Disjoint pieces, sorted.
#[derive(Debug, Default)]
pub(crate) struct Intervals(Vec<Piece>);

impl Intervals {
    /// From `(start, end)` of each range; ranges are numbered as they come. Empty ones name nothing. Of two with the same
    /// start the shorter is the inner one.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<Piece> = (0..)
            .zip(ranges)
            .map(|(id, (start, end))| Piece { start, end, id })
            .filter(|range| range.start < range.end)
            .collect();
        sorted.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));

        let mut pieces = Vec::with_capacity(sorted.len());
        let mut open: Vec<Piece> = Vec::new();
        let mut at = 0;
        for range in sorted {
            at = close(&mut open, &mut pieces, at, range.start);
            if let Some(outer) = open.last() {
                push(&mut pieces, at, range.start, outer.id);
            }
            at = range.start;
            open.push(range);
        }
        close(&mut open, &mut pieces, at, u64::MAX);
        Self(pieces)
    }

    /// The piece that holds `address`.
    pub fn find(&self, address: u64) -> Option<Piece> {
        let after = self.0.partition_point(|piece| piece.start <= address);
        let piece = *self.0.get(after.checked_sub(1)?)?;
        (address < piece.end).then_some(piece)
    }
}

/// Ends the open ranges that end at or before `limit`, innermost first; returns up to where the pieces now reach.
fn close(open: &mut Vec<Piece>, pieces: &mut Vec<Piece>, mut at: u64, limit: u64) -> u64 {
    while let Some(inner) = open.last().copied().filter(|inner| inner.end <= limit) {
        push(pieces, at, inner.end, inner.id);
        at = at.max(inner.end);
        open.pop();
    }
    at
}

fn push(pieces: &mut Vec<Piece>, start: u64, end: u64, id: u32) {
    if start < end {
        pieces.push(Piece { start, end, id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ranges: &[(u64, u64)], addresses: std::ops::Range<u64>) -> String {
        let intervals = Intervals::new(ranges.iter().copied());
        addresses
            .map(|address| match intervals.find(address) {
                Some(piece) => char::from(b'a' + piece.id as u8),
                None => '.',
            })
            .collect()
    }

    #[test]
    fn innermost_range_wins() {
        assert_eq!(ids(&[(2, 10), (4, 6)], 0..12), "..aabbaaaa..");
        assert_eq!(ids(&[(2, 10), (2, 4)], 0..12), "..bbaaaaaa..");
        assert_eq!(ids(&[(0, 12), (2, 10), (3, 5), (6, 8)], 0..13), "aabccbddbbaa.");
    }

    #[test]
    fn overlapping_ranges_give_way_to_the_later_start() {
        assert_eq!(ids(&[(0, 6), (4, 10)], 0..11), "aaaabbbbbb.");
    }

    #[test]
    fn empty_ranges_name_nothing() {
        assert_eq!(ids(&[(3, 3), (5, 4)], 0..8), "........");
    }

    #[test]
    fn pieces_agree_with_a_slow_search() {
        // A fixed linear congruence: the same 200 cases each time.
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let ranges: Vec<_> = (0..random(12))
                .map(|_| {
                    let start = random(40);
                    (start, start + random(20))
                })
                .collect();
            let intervals = Intervals::new(ranges.iter().copied());
            for address in 0..64 {
                let covered = ranges.iter().any(|&(start, end)| start <= address && address < end);
                let found = intervals.find(address);
                assert_eq!(found.is_some(), covered, "{ranges:?} at {address}");
                if let Some(piece) = found {
                    let (start, end) = ranges[piece.id as usize];
                    assert!(start <= address && address < end);
                    assert!(start <= piece.start && piece.end <= end);
                }
            }
        }
    }
}
