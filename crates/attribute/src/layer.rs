//! Objects of one kind in one process: a segment tree over addresses, each node with objects in order of time.
//!
//! ```text
//!   addresses   a0      a1      a2      a3      a4        ends of objects, sorted
//!               |  [0]  |  [1]  |  [2]  |  [3]  |         elementary ranges: the leaves
//!                \_____/         \_____/
//!                   \_______________/                     an object sits in the few nodes that cover it exactly
//! ```
//!
//! Two objects in one node share addresses, so their times are disjoint and a binary search finds the one that was live.

/// An object's place in address and time. Ends are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub low: u64,
    pub high: u64,
    pub start: i64,
    pub end: i64,
    pub object: u32,
}

impl Span {
    #[inline]
    pub fn holds(&self, addr: u64, time: i64) -> bool {
        addr >= self.low && addr < self.high && time >= self.start && time < self.end
    }
}

/// One entry of a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: i64,
    end: i64,
    object: u32,
}

#[derive(Debug)]
pub(crate) struct Layer {
    /// Boundaries of the elementary ranges; range i is `bounds[i]..bounds[i + 1]`.
    bounds: Vec<u64>,
    /// Number of leaves, a power of two. Node 1 is the root, node n has children 2n and 2n + 1, leaf i is node leaves + i.
    leaves: usize,
    /// Entries of node n are `entries[first[n]..first[n + 1]]`, by start.
    first: Vec<u32>,
    entries: Vec<Entry>,
}

impl Layer {
    pub fn new(spans: Vec<Span>) -> Self {
        let mut bounds: Vec<u64> = spans.iter().flat_map(|s| [s.low, s.high]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len().saturating_sub(1).max(1).next_power_of_two();
        let mut placed: Vec<(u32, Entry)> = Vec::new();
        for span in &spans {
            let entry = Entry { start: span.start, end: span.end, object: span.object };
            // The canonical cover, bottom-up.
            let mut left = leaves + bounds.partition_point(|&b| b < span.low);
            let mut right = leaves + bounds.partition_point(|&b| b < span.high);
            while left < right {
                if left % 2 == 1 {
                    placed.push((left as u32, entry));
                    left += 1;
                }
                if right % 2 == 1 {
                    right -= 1;
                    placed.push((right as u32, entry));
                }
                (left, right) = (left / 2, right / 2);
            }
        }
        placed.sort_unstable_by_key(|(node, entry)| (*node, entry.start, entry.end));
        let mut first = vec![0_u32; 2 * leaves + 1];
        for (node, _) in &placed {
            first[*node as usize + 1] += 1;
        }
        for node in 1..first.len() {
            first[node] += first[node - 1];
        }
        Self { bounds, leaves, first, entries: placed.into_iter().map(|(_, entry)| entry).collect() }
    }

    /// The object that holds `addr` at `time`.
    #[inline]
    pub fn find(&self, addr: u64, time: i64) -> Option<u32> {
        let range = self.bounds.partition_point(|&b| b <= addr);
        if range == 0 || range == self.bounds.len() {
            return None;
        }
        let mut node = self.leaves + range - 1;
        while node > 0 {
            let (from, to) = (self.first[node] as usize, self.first[node + 1] as usize);
            if from < to {
                let entries = &self.entries[from..to];
                let next = entries.partition_point(|e| e.start <= time);
                if next > 0 && time < entries[next - 1].end {
                    return Some(entries[next - 1].object);
                }
            }
            node /= 2;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious answer: look at all.
    fn naive(spans: &[Span], addr: u64, time: i64) -> Option<u32> {
        spans.iter().find(|s| s.holds(addr, time)).map(|s| s.object)
    }

    #[test]
    fn finds_what_a_walk_over_all_objects_finds() {
        // Random allocations and releases in a small arena: every address is used again and again, by objects of all
        // sizes.
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut live: Vec<Span> = Vec::new();
        let mut spans: Vec<Span> = Vec::new();
        for time in 0..4000_i64 {
            let low = random(256);
            let most = 1 << random(7);
            let bytes = 1 + random(most);
            let (low, high) = (low, low + bytes);
            // Whatever is in the way is released now.
            live.retain(|s| {
                let keep = s.high <= low || s.low >= high;
                if !keep {
                    spans.push(Span { end: time, ..*s });
                }
                keep
            });
            live.push(Span { low, high, start: time, end: i64::MAX, object: time as u32 });
        }
        spans.extend(live);
        let layer = Layer::new(spans.clone());
        for _ in 0..20_000 {
            let (addr, time) = (random(400), random(4100) as i64);
            assert_eq!(layer.find(addr, time), naive(&spans, addr, time), "addr {addr} time {time}");
        }
    }

    #[test]
    fn nothing_is_found_in_an_empty_layer() {
        assert_eq!(Layer::new(Vec::new()).find(0, 0), None);
    }
}
