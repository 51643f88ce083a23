//! Pages: their keys within a group, and the nodes where they lie.

use numamma_trace::{Dataset, ObjectRow, PageNodeRow, TraceError};
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
    /// The node of all pages, on a machine that has one only.
    only: Option<i32>,
}

impl PageNodes {
    /// From the table, whose rows are in order of time.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn read(dataset: &Dataset, page_bytes: u64) -> Result<Self, TraceError> {
        let mut nodes = FxHashMap::default();
        dataset.visit(|rows: &mut Vec<PageNodeRow>| {
            nodes.extend(rows.iter().map(|row| ((row.process, row.page as u64 / page_bytes), row.node)));
        })?;
        let meta = dataset.meta();
        let only = meta.cpu_nodes.iter().copied().find(|&node| node >= 0).filter(|_| meta.nodes == 1);
        Ok(Self { nodes, only })
    }

    /// The node of a page, if it was asked for.
    pub fn node(&self, page: PageAddress) -> Option<i32> {
        self.only.or_else(|| self.nodes.get(&page).copied())
    }
}
