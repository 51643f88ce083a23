//! Pages: their keys within a group, and the nodes where they lie.

use numamma_trace::{Dataset, ObjectRow, PageNodeRow, TraceError};
use rustc_hash::FxHashMap;

use crate::groups::Group;

/// A page of an address space: process and page number (address / page size).
pub type PageAddress = (i32, u64);

/// A page within a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The process, where pages are counted by address.
    process: i32,
    /// Number from the start of the instance, or in the address space.
    pub page: u64,
}

/// The key of the page that holds `addr` of `object`.
pub fn page_key(group: &Group, object: &ObjectRow, addr: u64, page_bytes: u64) -> PageKey {
    key(group.by_offset, object, addr, page_bytes)
}

fn key(by_offset: bool, object: &ObjectRow, addr: u64, page_bytes: u64) -> PageKey {
    let page = addr / page_bytes;
    if by_offset {
        PageKey { process: 0, page: page.saturating_sub(object.addr as u64 / page_bytes) }
    } else {
        PageKey { process: object.process, page }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_by_address_belongs_to_one_process_of_any_number() {
        let object = |process| ObjectRow {
            object: 0,
            process,
            kind: "heap".into(),
            name: String::new(),
            site: 0,
            thread: 0,
            addr: 0x7fff_0000_1000,
            bytes: 64,
            start_time: 0,
            end_time: i64::MAX,
            module: String::new(),
        };
        let at = |process| key(false, &object(process), 0x7fff_0000_1010, 4096);
        assert_ne!(at(1), at((1 << 16) + 1));
        assert!(at(1) < at(1 << 16), "pages of one process stand together");
        assert_eq!(key(true, &object(3), 0x7fff_0000_5000, 4096), key(true, &object(70_000), 0x7fff_0000_5000, 4096));
    }
}
