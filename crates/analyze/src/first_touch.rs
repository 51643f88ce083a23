//! First touches of pages, with their threads.
//!
//! A page gets its memory at the first fault that writes: one that reads maps the shared page of zeros and places nothing.
//! Memory that processes share gets a page at the first fault in any of them, also at one that reads; later ones only map it.
//! For an object that lives in memory which others used before it (a
//! recycled heap block), that was before its time: then the last fault before it counts, since that is what placed the
//! page.
//!
//! Pages that realloc or mremap moved were first touched where they were before, by whoever did so; what lay at their new address is gone:
//!
//! ```text
//!   address  a  │── block of T1 ──│ unmapped │── block of T2, moved from b ──│   first touch of its pages: T2, at b
//!            b              │── block of T2 ──│
//! ```

use numamma_attribute::Cursor;
use numamma_trace::{Access, Dataset, FirstTouchRow, NONE, ObjectRow, TraceError};
use rustc_hash::FxHashMap;

use crate::groups::{GroupId, Groups};
use crate::pages::{PageAddress, PageKey, page_address, page_key};
use crate::summary::Tables;

/// A first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub time: i64,
    pub thread: i32,
    pub process: i32,
    pub ip: i64,
    /// The call by which the program came there, if that is in a run-time library; else 0.
    pub caller: i64,
    /// True if it only read, and so placed nothing.
    pub read: bool,
    /// The page.
    pub address: PageAddress,
    /// The object that was there, as a row of the objects table.
    pub object: Option<u32>,
}

impl Touch {
    /// Order of claims to have placed a page: writes before reads, then by time.
    fn rank(&self) -> (bool, i64) {
        (self.read, self.time)
    }
}

/// First touches of a recording.
#[derive(Debug, Default)]
pub struct Touches {
    /// Faults of each page in order of time.
    by_page: FxHashMap<PageAddress, Vec<Touch>>,
    /// First touches while the object lived.
    pub in_life: FxHashMap<(GroupId, PageKey), Touch>,
    /// The fault of each stretch of the size of a huge page that had one fault only: as a huge page has.
    by_huge_page: FxHashMap<PageAddress, Option<Touch>>,
    pages_per_huge_page: u64,
    /// Objects whose pages were another's, as rows of the objects table.
    moved: FxHashMap<usize, Moved>,
}

/// Where the pages of an object come from.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The first object that had them at the same address: realloc and mremap may leave pages in place.
    first: usize,
    /// The object that they were moved from to there.
    from: Option<usize>,
}

/// Bytes of a transparent huge page on the machines that have 4 KiB pages.
const HUGE_PAGE: u64 = 2 << 20;

impl Touches {
    /// Reads the table.
    pub fn new(dataset: &Dataset, tables: &Tables, groups: &Groups) -> Result<Self, TraceError> {
        let mut touches = Self { moved: moved(&tables.objects), ..Self::default() };
        let mut cursor = Cursor::default();
        dataset.visit(|rows: &mut Vec<FirstTouchRow>| {
            for row in rows.iter() {
                let process = tables.process_of(row.thread);
                let addr = row.addr as u64;
                let object = groups.index.find(process, addr, row.time, &mut cursor);
                let object = object.filter(|&object| groups.of_object[object].is_some());
                let number = object.map(|object| object as u32);
                let address =
                    object.map_or((process, addr / tables.page_bytes), |object| page_address(tables, object, addr));
                // Memory that processes share has no page of zeros: a read gives it a page, too.
                let is_shared = object.is_some_and(|object| groups.shared.instance(object).is_some());
                let read = row.access == Access::Read as i32 && !is_shared;
                let touch = Touch {
                    time: row.time,
                    thread: row.thread,
                    process,
                    ip: row.ip,
                    caller: row.caller,
                    read,
                    address,
                    object: number,
                };
                touches.by_page.entry(address).or_default().push(touch);
                let Some(object) = object else { continue };
                let Some(group) = groups.of_object[object] else { continue };
                let key = page_key(groups, tables, object, addr);
                let first = touches.in_life.entry((group, key)).or_insert(touch);
                if touch.rank() < first.rank() {
                    *first = touch;
                }
            }
        })?;
        touches.pages_per_huge_page = (HUGE_PAGE / tables.page_bytes).max(1);
        for (&(process, page), faults) in &mut touches.by_page {
            faults.sort_by_key(|touch| touch.time);
            let only = faults.last().copied();
            touches
                .by_huge_page
                .entry((process, page / touches.pages_per_huge_page))
                .and_modify(|touch| *touch = None)
                .or_insert(only);
        }
        Ok(touches)
    }

    /// The touch that gave a page of an object the memory that it had at `time`. One of the same pages in another place is told as that
    /// of no other object.
    pub fn before(&self, tables: &Tables, object: usize, (process, page): PageAddress, time: i64) -> Option<Touch> {
        let (mut object, mut page, mut time) = (object, page, time);
        loop {
            let Some(&Moved { first, from }) = self.moved.get(&object) else {
                let touch = self.fault_before((process, page), time)?;
                let is_own = touch.time >= tables.objects[object].start_time;
                return Some(Touch { object: touch.object.filter(|_| !is_own), ..touch });
            };
            let row = &tables.objects[first];
            let touch = self.fault_before((process, page), time);
            if let Some(touch) = touch.filter(|touch| touch.time >= row.start_time) {
                return Some(Touch { object: None, ..touch });
            }
            let Some(from) = from else { return touch };
            // Objects that lay there before the pages were moved are gone.
            let old = &tables.objects[from];
            let of_page = |row: &ObjectRow| row.addr as u64 / tables.page_bytes;
            let number = page.checked_sub(of_page(row))?;
            let end = (old.addr + old.bytes.min(row.bytes)) as u64;
            (object, page, time) = (from, of_page(old) + number, row.start_time);
            if page * tables.page_bytes >= end {
                return None;
            }
        }
    }

    /// The last fault of a page before `time`. A huge page has one fault for all of its pages.
    fn fault_before(&self, (process, page): PageAddress, time: i64) -> Option<Touch> {
        if let Some(faults) = self.by_page.get(&(process, page)) {
            let next = faults.partition_point(|touch| touch.time <= time);
            return faults[..next].last().copied();
        }
        let huge = self.by_huge_page.get(&(process, page / self.pages_per_huge_page))?;
        huge.filter(|touch| touch.time <= time)
    }
}

/// Objects whose pages were another's.
fn moved(objects: &[ObjectRow]) -> FxHashMap<usize, Moved> {
    let mut later: Vec<usize> = (0..objects.len()).filter(|&n| objects[n].moved_from != NONE).collect();
    if later.is_empty() {
        return FxHashMap::default();
    }
    later.sort_by_key(|&n| objects[n].start_time);
    let rows: FxHashMap<i32, usize> = objects.iter().enumerate().map(|(n, row)| (row.object, n)).collect();
    let mut moved: FxHashMap<usize, Moved> = FxHashMap::default();
    for n in later {
        let from = rows.get(&objects[n].moved_from).copied();
        let from = from.filter(|&from| objects[from].start_time < objects[n].start_time);
        let stayed = from.filter(|&from| objects[from].addr == objects[n].addr);
        let of = match stayed {
            Some(from) => moved.get(&from).copied().unwrap_or(Moved { first: from, from: None }),
            None => Moved { first: n, from },
        };
        moved.insert(n, of);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(object: i32, addr: i64, start_time: i64, moved_from: i32) -> ObjectRow {
        ObjectRow {
            object,
            process: 0,
            kind: "heap".into(),
            name: String::new(),
            site: NONE,
            thread: 0,
            addr,
            bytes: 8 << 12,
            start_time,
            end_time: i64::MAX,
            module: String::new(),
            shared: -1,
            shared_offset: 0,
            moved_from,
        }
    }

    #[test]
    fn pages_that_stay_are_of_the_first_and_pages_that_move_of_the_one_before() {
        let objects =
            [object(5, 0x1000, 1, NONE), object(6, 0x1000, 2, 5), object(7, 0x9000, 3, 6), object(8, 0x9000, 4, 7)];
        let moved = moved(&objects);
        let of = |n: usize| moved.get(&n).map(|of| (of.first, of.from));
        assert_eq!([of(0), of(1), of(2), of(3)], [None, Some((0, None)), Some((2, Some(1))), Some((2, Some(1)))]);
    }
}
