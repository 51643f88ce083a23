//! Who touched each page first.
//!
//! A page gets its memory at the first page fault. For an object that lives in memory which others used before it (a
//! recycled heap block), that was before its time: then the last fault before it counts, since that is what placed the
//! page.

use numamma_attribute::Cursor;
use numamma_trace::{Dataset, FirstTouchRow, TraceError};
use rustc_hash::FxHashMap;

use crate::groups::{GroupId, Groups};
use crate::pages::{PageAddress, PageKey, page_key};
use crate::summary::Tables;

/// A first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub time: i64,
    pub thread: i32,
    pub process: i32,
    pub ip: i64,
}

/// First touches of a recording.
#[derive(Debug, Default)]
pub struct Touches {
    /// Faults of each page in order of time.
    by_page: FxHashMap<PageAddress, Vec<Touch>>,
    /// First touches while the object lived.
    pub in_life: FxHashMap<(GroupId, PageKey), Touch>,
}

impl Touches {
    /// Reads the table.
    pub fn new(dataset: &Dataset, tables: &Tables, groups: &Groups) -> Result<Self, TraceError> {
        let mut touches = Self::default();
        let mut cursor = Cursor::default();
        dataset.visit(|rows: &mut Vec<FirstTouchRow>| {
            for row in rows.iter() {
                let process = tables.process_of(row.thread);
                let addr = row.addr as u64;
                let touch = Touch { time: row.time, thread: row.thread, process, ip: row.ip };
                touches.by_page.entry((process, addr / tables.page_bytes)).or_default().push(touch);
                let Some(object) = groups.index.find(process, addr, row.time, &mut cursor) else { continue };
                let Some(group) = groups.of_object[object] else { continue };
                let key = page_key(&groups.groups[group as usize], &tables.objects[object], addr, tables.page_bytes);
                let first = touches.in_life.entry((group, key)).or_insert(touch);
                if touch.time < first.time {
                    *first = touch;
                }
            }
        })?;
        for faults in touches.by_page.values_mut() {
            faults.sort_by_key(|touch| touch.time);
        }
        Ok(touches)
    }

    /// The fault that gave a page the memory that it had at `time`: the last before it.
    pub fn before(&self, page: PageAddress, time: i64) -> Option<Touch> {
        let faults = self.by_page.get(&page)?;
        let next = faults.partition_point(|touch| touch.time <= time);
        faults[..next].last().copied()
    }
}
