//! Pages: their keys within a group, and the nodes where they lie.

use numamma_trace::{Dataset, ObjectRow, PageNodeRow, TraceError};
use rustc_hash::FxHashMap;

use crate::groups::Groups;
use crate::summary::Tables;

/// A page of an address space: process and page number (address / page size).
pub type PageAddress = (i32, u64);

/// A page within a group. Pages of an instance stand together and ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// Number of the instance, or [`SMALL`].
    pub instance: u32,
    /// The process of a page that small instances share; else 0.
    process: i32,
    /// Number from the start of the instance; of a page that small instances share, in the address space.
    pub page: u64,
}

/// In place of the number of an instance: an instance smaller than a page shares its page with others of the group, so
/// that these pages are told by address.
pub const SMALL: u32 = u32::MAX;

/// The key of the page that holds `addr` of the object in that row of the objects table.
pub fn page_key(groups: &Groups, tables: &Tables, object: usize, addr: u64) -> PageKey {
    let alone = groups.of_object[object].is_some_and(|group| groups.groups[group as usize].touched == 1);
    key(&tables.objects[object], groups.instance[object], alone, addr, tables.page_bytes)
}

/// `alone`: whether its group has no other instance.
fn key(object: &ObjectRow, instance: u32, alone: bool, addr: u64, page_bytes: u64) -> PageKey {
    let page = addr / page_bytes;
    if alone || object.bytes as u64 >= page_bytes {
        PageKey { instance, process: 0, page: page.saturating_sub(object.addr as u64 / page_bytes) }
    } else {
        PageKey { instance: SMALL, process: object.process, page }
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

    fn object(process: i32, bytes: i64) -> ObjectRow {
        ObjectRow {
            object: 0,
            process,
            kind: "heap".into(),
            name: String::new(),
            site: 0,
            thread: 0,
            addr: 0x7fff_0000_1000,
            bytes,
            start_time: 0,
            end_time: i64::MAX,
            module: String::new(),
            moved_from: numamma_trace::NONE,
        }
    }

    #[test]
    fn a_page_by_address_belongs_to_one_process_of_any_number() {
        let at = |process| key(&object(process, 64), 7, false, 0x7fff_0000_1010, 4096);
        assert_ne!(at(1), at((1 << 16) + 1));
        assert!(at(1) < at(1 << 16), "pages of one process stand together");
        assert_eq!(at(1).instance, SMALL);
    }

    #[test]
    fn equal_offsets_of_two_instances_are_two_pages() {
        let at = |instance| key(&object(1, 1 << 20), instance, false, 0x7fff_0000_5000, 4096);
        assert_eq!((at(0).page, at(1).page), (4, 4));
        assert_ne!(at(0), at(1));
    }
}
