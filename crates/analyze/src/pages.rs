//! Pages: their keys within a group, and the nodes where they lie.

use numamma_attribute::Cursor;
use numamma_trace::{Dataset, PageNodeRow, TraceError};
use rustc_hash::FxHashMap;

use crate::groups::Groups;
use crate::shared_memory::{Extent, place};
use crate::summary::Tables;

/// A page of an address space, see [`place`]: process and page number (address / page size).
pub type PageAddress = (i32, u64);

/// A page within a group. Pages of an instance stand together and ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// Number of the instance, or [`SMALL`].
    pub instance: u32,
    /// The address space of a page that small instances share; else 0.
    pub space: i32,
    /// Number from the start of the instance; of a page that small instances share, in the address space.
    pub page: u64,
}

/// In place of the number of an instance: an instance smaller than a page shares its page with others of the group, so
/// that these pages are told by address.
pub const SMALL: u32 = u32::MAX;

/// The key of the page that holds `addr` of the object in that row of the objects table.
pub fn page_key(groups: &Groups, tables: &Tables, object: usize, addr: u64) -> PageKey {
    let alone = groups.of_object[object].is_some_and(|group| groups.groups[group as usize].touched == 1);
    let place = place(&tables.objects[object], addr);
    key(groups.extent(tables, object), groups.instance[object], alone, place, tables.page_bytes)
}

/// The page that holds `addr` of the object in that row of the objects table.
pub fn page_address(tables: &Tables, object: usize, addr: u64) -> PageAddress {
    let (space, addr) = place(&tables.objects[object], addr);
    (space, addr / tables.page_bytes)
}

/// `alone`: whether its group has no other instance.
fn key(extent: Extent, instance: u32, alone: bool, (space, addr): (i32, u64), page_bytes: u64) -> PageKey {
    let page = addr / page_bytes;
    if alone || extent.bytes >= page_bytes {
        PageKey { instance, space: 0, page: page.saturating_sub(extent.addr / page_bytes) }
    } else {
        PageKey { instance: SMALL, space, page }
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
    pub fn read(dataset: &Dataset, tables: &Tables, groups: &Groups) -> Result<Self, TraceError> {
        let mut nodes = FxHashMap::default();
        let mut cursor = Cursor::default();
        let mut address = |row: &PageNodeRow| {
            let addr = row.page as u64;
            let own = (row.process, addr / tables.page_bytes);
            if groups.shared.is_empty() {
                return own;
            }
            let object = groups.index.find(row.process, addr, row.time, &mut cursor);
            object.map_or(own, |object| page_address(tables, object, addr))
        };
        dataset.visit(|rows: &mut Vec<PageNodeRow>| {
            nodes.extend(rows.iter().map(|row| (address(row), row.node)));
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

    const ADDR: u64 = 0x7fff_0000_1000;

    #[test]
    fn a_page_by_address_belongs_to_one_process_of_any_number() {
        let at = |process| key(Extent { addr: ADDR, bytes: 64 }, 7, false, (process, ADDR + 0x10), 4096);
        assert_ne!(at(1), at((1 << 16) + 1));
        assert!(at(1) < at(1 << 16), "pages of one process stand together");
        assert_eq!(at(1).instance, SMALL);
    }

    #[test]
    fn equal_offsets_of_two_instances_are_two_pages() {
        let at = |instance| key(Extent { addr: ADDR, bytes: 1 << 20 }, instance, false, (1, ADDR + 0x4000), 4096);
        assert_eq!((at(0).page, at(1).page), (4, 4));
        assert_ne!(at(0), at(1));
    }
}
