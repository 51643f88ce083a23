//! Objects that are live: allocated and not yet released.

use super::front::{Front, Outdated, Slot};
use super::ordered::OrderedMap;

/// A live object; its first address is its key. 32 bytes, since there may be tens of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub bytes: u64,
    /// Time of the allocation.
    pub start: i64,
    /// Call stack that made it: index into the session's stacks.
    pub stack: u32,
    /// Thread that made it.
    pub thread: i32,
    /// Of a heap block's address: see the wire's `Event::Free`.
    pub version: u32,
}

/// The live objects of one kind in one address space.
#[derive(Debug, Default)]
pub struct LiveObjects {
    /// Objects do not overlap here, nor with the room of a slot of another address.
    by_start: OrderedMap<Live>,
    /// Where it has a slot, it is right and `by_start` may be out of date.
    front: Front,
}

impl LiveObjects {
    /// Those of a forked process: a copy that shares what stays the same.
    pub fn fork(&mut self) -> Self {
        self.settle();
        Self { by_start: self.by_start.clone(), front: Front::default() }
    }

    /// Adds an object, unless it would overlap one, which is then returned and must have been released unseen.
    pub fn place(&mut self, addr: u64, object: Live) -> Option<(u64, Live)> {
        let bytes = object.bytes.max(1);
        if let Some(slot) = self.front.get_mut(addr)
            && slot.room() >= bytes
        {
            let old = slot.block();
            if old.is_none() {
                slot.set(object);
                self.front.hit();
            }
            return old.map(|old| (addr, old));
        }
        let end = addr.saturating_add(bytes);
        let reaches = |at: u64, entry: &Live| {
            let room = self.front.get(at).map_or(entry.bytes.max(1), Slot::room);
            at.saturating_add(room) > addr
        };
        if let Some(next) = self.by_start.insert_free(addr, end, object, reaches) {
            self.add_slot(addr, object, allocated(object.bytes).min(next - addr));
            return None;
        }
        let in_the_way = self.overlap(addr, object.bytes);
        if in_the_way.is_none() {
            self.insert_where_free(addr, object);
        }
        in_the_way
    }

    /// Adds an object; what it overlaps was removed before.
    pub fn insert(&mut self, addr: u64, object: Live) {
        if self.front.is_empty() {
            self.by_start.insert(addr, object);
        } else if self.overlap(addr, object.bytes).is_none() {
            self.insert_where_free(addr, object);
        } else {
            self.settle();
            self.by_start.insert(addr, object);
        }
    }

    /// Nothing lies where the object is to be, but perhaps a slot without a block.
    fn insert_where_free(&mut self, addr: u64, object: Live) {
        match self.front.get_mut(addr) {
            Some(slot) if u32::try_from(object.bytes).is_ok() => slot.set(object),
            Some(_) => {
                self.front.forget(addr);
                self.by_start.insert(addr, object);
            }
            None => {
                self.by_start.insert(addr, object);
                self.add_slot(addr, object, object.bytes.max(1));
            }
        }
    }

    fn add_slot(&mut self, addr: u64, object: Live, room: u64) {
        if !self.front.miss() {
            return self.settle();
        }
        let outdated = Slot::new(addr, object, room).and_then(|slot| self.front.add(slot));
        outdated.into_iter().for_each(|outdated| self.write(outdated));
    }

    /// Brings the table up to date where a slot is given up.
    fn write(&mut self, outdated: Outdated) {
        match outdated {
            Outdated::Is(addr, block) => self.by_start.insert(addr, block),
            Outdated::Gone(addr) => self.by_start.remove(addr),
        };
    }

    /// Brings the whole table up to date.
    fn settle(&mut self) {
        self.front.give_up().for_each(|outdated| self.write(outdated));
    }

    /// An object that one of `bytes` at `addr` would overlap. It must have been released unseen.
    pub fn overlap(&mut self, addr: u64, bytes: u64) -> Option<(u64, Live)> {
        let end = addr.saturating_add(bytes.max(1));
        loop {
            let (at, &entry) = self.by_start.below(end)?;
            let Some(slot) = self.front.get_mut(at) else {
                return (at.saturating_add(entry.bytes.max(1)) > addr).then_some((at, entry));
            };
            match slot.block() {
                Some(block) if at.saturating_add(block.bytes.max(1)) > addr => return Some((at, block)),
                // A slot's room is only reserved.
                None if at > addr => {
                    self.front.forget(at);
                    self.by_start.remove(at);
                }
                // Nothing before it reaches farther than to it.
                _ => {
                    if at < addr {
                        slot.limit(addr - at);
                    }
                    return None;
                }
            }
        }
    }

    /// Removes the object that begins at `addr`.
    pub fn remove(&mut self, addr: u64) -> Option<Live> {
        self.remove_if(addr, |_| true)
    }

    /// Removes the object that begins at `addr` if it is the one that is meant.
    pub fn remove_if(&mut self, addr: u64, is_meant: impl Fn(&Live) -> bool) -> Option<Live> {
        let Some(slot) = self.front.get_mut(addr) else { return self.by_start.remove_if(addr, is_meant) };
        let block = slot.block().filter(is_meant)?;
        slot.clear();
        Some(block)
    }

    /// Removes `start..end`: objects that reach beyond it keep the rest. Returns the objects as they were.
    pub fn remove_range(&mut self, start: u64, end: u64) -> Vec<(u64, Live)> {
        self.settle();
        let mut removed = Vec::new();
        while let Some((at, &old)) = self.by_start.below(end) {
            let old_end = at.saturating_add(old.bytes);
            if old_end <= start {
                break;
            }
            self.by_start.remove(at);
            removed.push((at, old));
            if old_end > end {
                self.by_start.insert(end, Live { bytes: old_end - end, ..old });
            }
            if at < start {
                self.by_start.insert(at, Live { bytes: start - at, ..old });
                break;
            }
        }
        removed
    }

    /// The object that holds `addr`, with its first address.
    pub fn find(&self, addr: u64) -> Option<(u64, Live)> {
        let (at, &entry) = self.by_start.at_or_below(addr)?;
        let object = self.front.get(at).map_or(Some(entry), Slot::block)?;
        // An object of no bytes still has an address; it holds that one only.
        (addr - at < object.bytes.max(1)).then_some((at, object))
    }

    /// Up to there no object begins above `addr`: the next one's first address, or one where a block was a moment ago. To step
    /// over those would take up to 100 us. `None`: there is no object above.
    pub fn above(&self, addr: u64) -> Option<u64> {
        // Each block that has a slot has an entry too.
        self.by_start.above(addr)
    }
}

/// Bytes that an allocator keeps for a block of `bytes`: the next block there may have as many without meeting a neighbour. As
/// glibc does it, and only to look at neighbours less often.
fn allocated(bytes: u64) -> u64 {
    bytes.checked_add(8 + 15).map_or(bytes, |bytes| (bytes & !15).max(32) - 8)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn object(bytes: u64, stack: u32) -> Live {
        Live { bytes, start: 0, stack, thread: 0, version: 0 }
    }

    impl LiveObjects {
        /// All live objects with their addresses.
        fn objects(&self) -> Vec<(u64, Live)> {
            let known = |(at, entry): (u64, &Live)| Some((at, self.front.get(at).map_or(Some(*entry), Slot::block)?));
            let mut all: Vec<_> = self.by_start.descending().filter_map(known).collect();
            all.reverse();
            all
        }

        /// The same: address and bytes.
        fn all(&self) -> Vec<(u64, u64)> {
            self.objects().iter().map(|(at, object)| (*at, object.bytes)).collect()
        }
    }

    /// Live objects as they would be kept without slots.
    #[derive(Clone, Default)]
    struct Plain(BTreeMap<u64, Live>);

    impl Plain {
        fn overlap(&self, addr: u64, bytes: u64) -> Option<(u64, Live)> {
            let (&at, &old) = self.0.range(..addr + bytes.max(1)).next_back()?;
            (at + old.bytes.max(1) > addr).then_some((at, old))
        }

        fn remove_if(&mut self, addr: u64, is_meant: impl Fn(&Live) -> bool) -> Option<Live> {
            self.0.get(&addr).filter(|object| is_meant(object))?;
            self.0.remove(&addr)
        }

        fn find(&self, addr: u64) -> Option<(u64, Live)> {
            let (&at, &object) = self.0.range(..=addr).next_back()?;
            (addr - at < object.bytes.max(1)).then_some((at, object))
        }

        fn above(&self, addr: u64) -> Option<u64> {
            self.0.range(addr + 1..).next().map(|(&at, _)| at)
        }
    }

    #[test]
    fn an_address_belongs_to_the_object_that_holds_it() {
        let mut live = LiveObjects::default();
        live.insert(0x100, object(0x10, 1));
        live.insert(0x110, object(0, 2));
        assert_eq!(live.find(0x10f).unwrap().1.stack, 1);
        assert_eq!(live.find(0x110).unwrap().1.stack, 2);
        assert!(live.find(0x111).is_none());
        assert!(live.find(0xff).is_none());
    }

    #[test]
    fn what_an_object_would_overlap_is_found_from_behind() {
        let mut live = LiveObjects::default();
        live.insert(0x100, object(0x10, 1));
        live.insert(0x110, object(0x10, 2));
        live.insert(0x120, object(0x10, 3));
        let mut found = Vec::new();
        while let Some((at, _)) = live.overlap(0x108, 0x18) {
            found.push(at);
            live.remove(at);
        }
        assert_eq!(found, [0x110, 0x100]);
        assert_eq!(live.all(), [(0x120, 0x10)]);
    }

    #[test]
    fn only_the_object_that_is_meant_is_removed() {
        let mut live = LiveObjects::default();
        live.insert(0x100, object(0x10, 1));
        assert_eq!(live.remove_if(0x100, |object| object.stack == 2), None);
        assert_eq!(live.remove_if(0x101, |_| true), None);
        assert_eq!(live.remove_if(0x100, |object| object.stack == 1), Some(object(0x10, 1)));
        assert_eq!(live.all(), []);
    }

    #[test]
    fn the_next_object_is_not_missed_where_it_has_a_slot() {
        let mut live = LiveObjects::default();
        (1..=4).for_each(|n| assert_eq!(live.place(n * 0x100, object(0x10, n as u32)), None));
        assert_eq!((live.above(0x100), live.above(0x400)), (Some(0x200), None));
        // Where one was released the search may end; where another came since, it has to.
        live.remove(0x200);
        live.remove(0x300);
        assert!(live.above(0x100).is_some_and(|at| at <= 0x400));
        assert_eq!(live.place(0x300, object(0x8, 5)), None);
        assert!(live.front.get(0x300).is_some(), "no slot");
        assert!(live.above(0x100).is_some_and(|at| at <= 0x300));
        assert_eq!(live.above(0x2ff), Some(0x300));
        // In the table alone.
        live.settle();
        assert_eq!((live.above(0x100), live.above(0x300)), (Some(0x300), Some(0x400)));
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut live = LiveObjects::default();
        live.insert(0x1000, object(0x9000, 1));
        live.remove_range(0x3000, 0x5000);
        assert_eq!(live.all(), [(0x1000, 0x2000), (0x5000, 0x5000)]);
    }

    /// Numbers without a pattern, always the same ones for one seed.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        }
    }

    /// What a program and its recording may do to a table, in any order: blocks that come and go at few addresses or at many,
    /// that overlap others, releases of what is gone, forks. Each answer must be the one without slots. Returns how many blocks
    /// were in the way of others.
    fn answers_are_those_without_slots(seed: u64, addresses: u64, steps: u64) -> usize {
        let mut number = numbers(seed);
        let mut tables = vec![(LiveObjects::default(), Plain::default())];
        let mut evicted = 0;
        for step in 0..steps {
            let at = number(tables.len() as u64) as usize;
            let (live, plain) = &mut tables[at];
            // Near each other, so that sizes decide what overlaps.
            let addr = 0x1000 + number(addresses) * 16;
            let bytes = match number(64) {
                0 => number(1 << 12),
                1 => (1 << 32) + number(1 << 12),
                2 => 0,
                _ => 1 + number(24),
            };
            let version = number(4) as u32;
            let object = Live { bytes, start: step as i64, stack: number(9) as u32, thread: at as i32, version };
            match number(1000) {
                0..450 => {
                    let placed = loop {
                        let in_the_way = live.place(addr, object);
                        assert_eq!(in_the_way, plain.overlap(addr, bytes), "step {step}");
                        let Some((at, old)) = in_the_way else { break true };
                        // Most often it has to go; or the new one is told of late, and already gone.
                        if number(8) == 0 {
                            break false;
                        }
                        evicted += 1;
                        assert_eq!((live.remove(at), plain.0.remove(&at)), (Some(old), Some(old)));
                    };
                    if placed {
                        plain.0.insert(addr, object);
                    }
                }
                450..900 => {
                    let is_meant = |object: &Live| object.version <= version;
                    assert_eq!(live.remove_if(addr, is_meant), plain.remove_if(addr, is_meant), "step {step}");
                }
                900..980 => assert_eq!(live.overlap(addr, bytes), plain.overlap(addr, bytes), "step {step}"),
                980..998 => {
                    // A release that is taken back: what is in the way, had it been seen, went before.
                    while let Some((at, _)) = plain.overlap(addr, bytes) {
                        assert_eq!(live.remove(at), plain.0.remove(&at));
                    }
                    live.insert(addr, object);
                    plain.0.insert(addr, object);
                }
                998 if step % 8 == 0 => {
                    let copy = (live.fork(), plain.clone());
                    if tables.len() == 4 {
                        tables.remove(number(4) as usize);
                    }
                    tables.push(copy);
                }
                _ => assert_eq!(live.objects(), plain.0.clone().into_iter().collect::<Vec<_>>(), "step {step}"),
            }
            for (live, plain) in &tables {
                let asked = 0x1000 + number(addresses * 16 + 64);
                assert_eq!(live.find(asked), plain.find(asked), "step {step}");
                // At the next object, or before it where a slot is.
                let (above, next) = (live.above(asked), plain.above(asked));
                let is_slot = |at| live.front.get(at).is_some_and(|slot| slot.block().is_none());
                let before = above.is_some_and(|at| at > asked && next.is_none_or(|next| at < next) && is_slot(at));
                assert!(above == next || before, "step {step}: {above:x?}, {next:x?}");
            }
        }
        evicted
    }

    #[test]
    fn answers_are_those_of_a_table_without_slots() {
        for (seed, addresses) in [(1, 40), (2, 400), (3, 3_000), (4, 40_000)] {
            let evicted = answers_are_those_without_slots(seed, addresses, 100_000);
            assert!(evicted > 1000, "{evicted} were in the way among {addresses}");
        }
    }

    #[test]
    fn where_blocks_live_long_there_are_no_slots() {
        let mut live = LiveObjects::default();
        let mut without = 0;
        // A queue: each block is followed by so many others that no slot waits for its release.
        for n in 0..400_000_u64 {
            assert_eq!(live.place(n * 32, object(24, n as u32)), None);
            if let Some(old) = n.checked_sub(50_000) {
                assert_eq!(live.remove(old * 32).map(|object| object.stack), Some(old as u32));
            }
            without += u64::from(live.front.is_empty());
        }
        assert!(without > 250_000, "{without} blocks came without");
        // One address again and again: they come back.
        for n in 0..1_000_000 {
            assert_eq!(live.place(7, object(24, n)), None);
            assert!(live.remove(7).is_some());
        }
        assert!(!live.front.is_empty());
        assert_eq!(live.objects().len(), 50_000);
    }
}
