//! First touches of pages, with their threads.
//!
//! A page gets its memory at the first fault that writes: one that reads maps the shared page of zeros and places nothing.
//! Memory that processes share gets a page at the first fault in any of them, also at one that reads; later ones only map it.
//! For an object that lives in memory which others used before it (a
//! recycled heap block), that was before its time: then the last fault before it counts, since that is what placed the
//! page.

use numamma_attribute::Cursor;
use numamma_trace::{Access, Dataset, FirstTouchRow, TraceError};
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
}

/// Bytes of a transparent huge page on the machines that have 4 KiB pages.
const HUGE_PAGE: u64 = 2 << 20;

impl Touches {
    /// Reads the table.
    pub fn new(dataset: &Dataset, tables: &Tables, groups: &Groups) -> Result<Self, TraceError> {
        let mut touches = Self::default();
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

    /// The fault that gave a page the memory that it had at `time`: the last before it. A huge page has one fault for all
    /// of its pages.
    pub fn before(&self, (process, page): PageAddress, time: i64) -> Option<Touch> {
        if let Some(faults) = self.by_page.get(&(process, page)) {
            let next = faults.partition_point(|touch| touch.time <= time);
            return faults[..next].last().copied();
        }
        let huge = self.by_huge_page.get(&(process, page / self.pages_per_huge_page))?;
        huge.filter(|touch| touch.time <= time)
    }
}
