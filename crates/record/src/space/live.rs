//! Objects that are live: allocated and not yet released.

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

/// The live objects of one kind in one address space. A copy shares what stays the same.
#[derive(Clone, Debug, Default)]
pub struct LiveObjects {
    by_start: OrderedMap<Live>,
}

impl LiveObjects {
    /// Adds an object; what it overlaps was removed before.
    pub fn insert(&mut self, addr: u64, object: Live) {
        self.by_start.insert(addr, object);
    }

    /// An object that one of `bytes` at `addr` would overlap. It must have been released unseen.
    pub fn overlap(&self, addr: u64, bytes: u64) -> Option<(u64, Live)> {
        let (at, &old) = self.by_start.below(addr.saturating_add(bytes.max(1)))?;
        (at.saturating_add(old.bytes.max(1)) > addr).then_some((at, old))
    }

    /// Removes the object that begins at `addr`.
    pub fn remove(&mut self, addr: u64) -> Option<Live> {
        self.remove_if(addr, |_| true)
    }

    /// Removes the object that begins at `addr` if it is the one that is meant.
    pub fn remove_if(&mut self, addr: u64, is_meant: impl Fn(&Live) -> bool) -> Option<Live> {
        self.by_start.remove_if(addr, is_meant)
    }

    /// Removes `start..end`: objects that reach beyond it keep the rest. Returns the objects as they were.
    pub fn remove_range(&mut self, start: u64, end: u64) -> Vec<(u64, Live)> {
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
    pub fn find(&self, addr: u64) -> Option<(u64, &Live)> {
        let (at, object) = self.by_start.at_or_below(addr)?;
        // An object of no bytes still has an address; it holds that one only.
        (addr - at < object.bytes.max(1)).then_some((at, object))
    }

    /// First address of the next object above `addr`.
    pub fn above(&self, addr: u64) -> Option<u64> {
        self.by_start.above(addr)
    }

    /// All live objects: address and bytes.
    #[cfg(test)]
    fn all(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.by_start.descending().map(|(at, object)| (at, object.bytes)).collect();
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: u64, stack: u32) -> Live {
        Live { bytes, start: 0, stack, thread: 0, version: 0 }
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
    fn unmapping_the_middle_leaves_both_ends() {
        let mut live = LiveObjects::default();
        live.insert(0x1000, object(0x9000, 1));
        live.remove_range(0x3000, 0x5000);
        assert_eq!(live.all(), [(0x1000, 0x2000), (0x5000, 0x5000)]);
    }
}
