//! Pages: their keys within a group, and the nodes where they lie.

use numamma_trace::{ObjectRow, PageNodeRow};
use rustc_hash::FxHashMap;

use crate::groups::Group;

/// A page of an address space: process and page number (address / page size).
pub type PageAddress = (i32, u64);

/// A page within a group: number from the start of its instance, or process and page number in one.
pub type PageKey = u64;

/// Bits of the page number in a [`PageKey`] by address: 52 bits of page number leave 12 for the process.
const PROCESS_SHIFT: u32 = 48;

/// The key of the page that holds `addr` of `object`.
pub fn page_key(group: &Group, object: &ObjectRow, addr: u64, page_bytes: u64) -> PageKey {
    let page = addr / page_bytes;
    if group.by_offset {
        page.saturating_sub(object.addr as u64 / page_bytes)
    } else {
        page | (object.process as u64) << PROCESS_SHIFT
    }
}

/// Where each page was last seen.
#[derive(Debug, Default)]
pub struct PageNodes {
    nodes: FxHashMap<PageAddress, i32>,
}

impl PageNodes {
    /// From the table, whose rows are in order of time.
    pub fn new(rows: &[PageNodeRow], page_bytes: u64) -> Self {
        Self { nodes: rows.iter().map(|row| ((row.process, row.page as u64 / page_bytes), row.node)).collect() }
    }

    /// The node of a page, if it was asked for.
    pub fn node(&self, page: PageAddress) -> Option<i32> {
        self.nodes.get(&page).copied()
    }
}
