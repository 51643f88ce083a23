//! Objects that are live: allocated and not yet released.

use std::collections::BTreeMap;

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
#[derive(Clone, Debug, Default)]
pub struct LiveObjects {
    by_start: BTreeMap<u64, Live>,
}

impl LiveObjects {
    /// Adds an object. What it overlaps must have been released unseen; it is removed and returned.
    pub fn insert(&mut self, addr: u64, object: Live) -> Vec<(u64, Live)> {
        let end = addr.saturating_add(object.bytes.max(1));
        let overlapped: Vec<u64> = self
            .by_start
            .range(..end)
            .rev()
            .take_while(|(at, old)| at.saturating_add(old.bytes.max(1)) > addr)
            .map(|(&at, _)| at)
            .collect();
        let evicted = overlapped.into_iter().filter_map(|at| Some((at, self.by_start.remove(&at)?))).collect();
        self.by_start.insert(addr, object);
        evicted
    }

    /// The object that begins at `addr`.
    pub fn at(&self, addr: u64) -> Option<&Live> {
        self.by_start.get(&addr)
    }

    /// Removes the object that begins at `addr`.
    pub fn remove(&mut self, addr: u64) -> Option<Live> {
        self.by_start.remove(&addr)
    }

    /// Removes `start..end`: objects that reach beyond it keep the rest. Returns the objects as they were.
    pub fn remove_range(&mut self, start: u64, end: u64) -> Vec<(u64, Live)> {
        let mut removed = Vec::new();
        while let Some((&at, &old)) = self.by_start.range(..end).next_back() {
            let old_end = at.saturating_add(old.bytes);
            if old_end <= start {
                break;
            }
            self.by_start.remove(&at);
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
        let (&at, object) = self.by_start.range(..=addr).next_back()?;
        // An object of no bytes still has an address; it holds that one only.
        (addr - at < object.bytes.max(1)).then_some((at, object))
    }

    /// All live objects.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (u64, &Live)> {
        self.by_start.iter().map(|(&at, object)| (at, object))
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
    fn an_allocation_evicts_what_it_overlaps() {
        let mut live = LiveObjects::default();
        live.insert(0x100, object(0x10, 1));
        live.insert(0x110, object(0x10, 2));
        live.insert(0x120, object(0x10, 3));
        let evicted: Vec<u64> = live.insert(0x108, object(0x18, 4)).iter().map(|(at, _)| *at).collect();
        assert_eq!(evicted, [0x110, 0x100]);
        assert_eq!(live.iter().count(), 2);
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut live = LiveObjects::default();
        live.insert(0x1000, object(0x9000, 1));
        live.remove_range(0x3000, 0x5000);
        let left: Vec<(u64, u64)> = live.iter().map(|(at, o)| (at, o.bytes)).collect();
        assert_eq!(left, [(0x1000, 0x2000), (0x5000, 0x5000)]);
    }
}
