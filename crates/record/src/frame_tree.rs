//! Call stacks, with what they have in common kept once.
//!
//! ```text
//!   main ──> parse ──> expression ──> xmalloc       a stack is its innermost call; the way to the root gives the others
//!        │         └─> statement  ──> xmalloc
//!        └─> optimise ──> ...
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

use crate::sites::Place;

/// A call stack: number of its innermost call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(u32);

/// The stack without calls.
const ROOT: StackId = StackId(u32::MAX);

/// All call stacks. 8 bytes a call and 12 in the index, as often as it differs from its neighbours.
#[derive(Debug, Default)]
pub struct FrameTree {
    /// The caller's stack, and the number of the call's place.
    calls: Vec<(StackId, u32)>,
    index: FxHashMap<(StackId, u32), StackId>,
    places: Vec<Place>,
    place_index: FxHashMap<Place, u32>,
}

impl FrameTree {
    /// The stack of those frames, innermost first.
    pub fn add(&mut self, frames: &[Place]) -> StackId {
        frames.iter().rev().fold(ROOT, |caller, &place| {
            let place = *self.place_index.entry(place).or_insert_with(|| {
                self.places.push(place);
                self.places.len() as u32 - 1
            });
            *self.index.entry((caller, place)).or_insert_with(|| {
                self.calls.push((caller, place));
                StackId(self.calls.len() as u32 - 1)
            })
        })
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = Place> {
        let call = |id: StackId| self.calls.get(id.0 as usize);
        std::iter::successors(call(stack), move |(caller, _)| call(*caller))
            .map(|(_, place)| self.places[*place as usize])
    }

    /// The places that occur in any of some stacks, each once.
    pub fn places(&self, stacks: impl Iterator<Item = StackId>) -> Vec<Place> {
        let (mut seen, mut places) = (FxHashSet::default(), FxHashSet::default());
        for stack in stacks {
            let mut at = stack;
            // Whoever called a known call is known.
            while let Some(&(caller, place)) = self.calls.get(at.0 as usize)
                && seen.insert(at)
            {
                places.insert(place);
                at = caller;
            }
        }
        places.into_iter().map(|place| self.places[place as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_their_callers() {
        let place = |ip| Place { ip, image: Some((1, ip & 0xfff)) };
        let stack = |ips: &[u64]| ips.iter().copied().map(place).collect::<Vec<_>>();
        let mut tree = FrameTree::default();
        let first = stack(&[0x9001, 0x5001, 0x2001, 0x1001]);
        let second = stack(&[0x9001, 0x6001, 0x2001, 0x1001]);
        let recursive = stack(&[0x2001, 0x2001, 0x2001, 0x1001]);
        let ids = [&first, &second, &recursive, &first].map(|frames| tree.add(frames));
        assert_eq!(ids[0], ids[3]);
        for (frames, id) in [(&first, ids[0]), (&second, ids[1]), (&recursive, ids[2])] {
            assert_eq!(tree.frames(id).collect::<Vec<_>>(), *frames);
        }
        // 4 + 2 + 2 calls at 5 places.
        assert_eq!((tree.calls.len(), tree.places.len()), (8, 5));
        let mut places = tree.places(ids.into_iter());
        places.sort_unstable_by_key(|place| place.ip);
        assert_eq!(places, stack(&[0x1001, 0x2001, 0x5001, 0x6001, 0x9001]));
        let none = tree.add(&[]);
        assert_eq!(tree.frames(none).count(), 0);
    }
}
