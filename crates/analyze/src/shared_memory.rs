//! Objects of several processes that are the same memory: one instance, whose pages are told by where they lie in that memory.
//!
//! ```text
//!   memory 3      0 ──────────────────────── 64 KiB
//!   process 1       [ 16 ──── 40 )                      one instance, 16 to 64 KiB: the ranges overlap
//!   process 2                [ 32 ───────── 64 )
//!   process 2     [0,8)                                 another one
//! ```

use numamma_trace::{NONE, ObjectKind, ObjectRow};
use rustc_hash::FxHashMap;

/// Ranges of an instance, in its address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub addr: u64,
    pub bytes: u64,
}

/// The address space in which an object's pages are told apart, and an address in it: its process, or in place of that the memory
/// that processes share, as a number below -1.
pub fn place(row: &ObjectRow, addr: u64) -> (i32, u64) {
    match row.shared {
        NONE => (row.process, addr),
        shared => (-2 - shared, (row.shared_offset as u64).wrapping_add(addr.wrapping_sub(row.addr as u64))),
    }
}

/// An instance that several rows of the objects table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its oldest row, by position in the table.
    pub first: usize,
    pub extent: Extent,
    /// Time of its last release.
    pub end_time: i64,
    /// Number of calls that mapped it; inheriting it from a fork is no call.
    pub calls: u64,
}

/// The rows of the objects table that are one instance.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// By position in the table: the instance, if it lies in memory that processes share.
    of_object: FxHashMap<usize, usize>,
    instances: Vec<Instance>,
}

impl SharedMemory {
    /// Of the rows that `counts`; `process_start`: when a process began.
    pub fn new(objects: &[ObjectRow], counts: impl Fn(usize) -> bool, process_start: impl Fn(i32) -> i64) -> Self {
        let mut rows: Vec<usize> = (0..objects.len()).filter(|&n| objects[n].shared != NONE && counts(n)).collect();
        // Memory with a name of the program's is an object of its own in the mapping.
        let name = |n: usize| (objects[n].kind == ObjectKind::Annotated.name()).then_some(&objects[n].name);
        let kind = |n: usize| (objects[n].shared, name(n));
        let low = |n: usize| objects[n].shared_offset as u64;
        let high = |n: usize| low(n).saturating_add(objects[n].bytes.max(1) as u64);
        rows.sort_by(|&a, &b| kind(a).cmp(&kind(b)).then(low(a).cmp(&low(b))));
        let mut found = Self::default();
        let mut end = 0;
        for (at, &n) in rows.iter().enumerate() {
            if at == 0 || kind(rows[at - 1]) != kind(n) || low(n) >= end {
                end = 0;
                let extent = Extent { addr: low(n), bytes: 0 };
                found.instances.push(Instance { first: n, extent, end_time: i64::MIN, calls: 0 });
            }
            end = end.max(high(n));
            let Some(instance) = found.instances.last_mut() else { continue };
            let age = |n: usize| (objects[n].start_time, objects[n].process, objects[n].addr);
            if age(n) < age(instance.first) {
                instance.first = n;
            }
            instance.extent.bytes = instance.extent.bytes.max(high(n) - instance.extent.addr);
            instance.end_time = instance.end_time.max(objects[n].end_time);
            instance.calls += u64::from(objects[n].start_time >= process_start(objects[n].process));
            found.of_object.insert(n, found.instances.len() - 1);
        }
        found
    }

    /// The instance that a row is part of, if it lies in memory that processes share.
    pub fn instance(&self, object: usize) -> Option<&Instance> {
        self.of_object.get(&object).map(|&number| &self.instances[number])
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// All of them.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(process: i32, addr: i64, bytes: i64, start_time: i64, (shared, shared_offset): (i32, i64)) -> ObjectRow {
        ObjectRow {
            object: 0,
            process,
            kind: "mmap".into(),
            name: String::new(),
            site: 0,
            thread: 0,
            addr,
            bytes,
            start_time,
            end_time: start_time + 100,
            module: String::new(),
            shared,
            moved_from: -1,
            shared_offset,
        }
    }

    #[test]
    fn rows_that_overlap_in_one_memory_are_one_instance() {
        let kib = 1 << 10;
        let objects = [
            row(2, 0x7000_0000, 32 * kib, 30, (3, 32 * kib)),
            row(1, 0x5000_0000, 24 * kib, 20, (3, 16 * kib)),
            // The same memory elsewhere in its file.
            row(2, 0x6000_0000, 8 * kib, 40, (3, 0)),
            // Another memory, and none.
            row(1, 0x5000_0000, 24 * kib, 20, (4, 16 * kib)),
            row(1, 0x4000_0000, 24 * kib, 20, (NONE, 0)),
            // A process that began later inherited the second.
            row(5, 0x5000_0000, 24 * kib, 20, (3, 16 * kib)),
        ];
        let shared = SharedMemory::new(&objects, |_| true, |process| i64::from(process) * 10);
        let first: Vec<Option<usize>> = (0..6).map(|n| shared.instance(n).map(|of| of.first)).collect();
        assert_eq!(first, [Some(1), Some(1), Some(2), Some(3), None, Some(1)]);
        let extent = Extent { addr: 16 << 10, bytes: 48 << 10 };
        let expected = Instance { first: 1, extent, end_time: 130, calls: 2 };
        assert_eq!(shared.instance(0), Some(&expected));
    }

    #[test]
    fn one_page_has_one_place_wherever_processes_map_it() {
        let (a, b) = (row(1, 0x5000, 0x8000, 0, (3, 0x4000)), row(2, 0x9000, 0x8000, 0, (3, 0)));
        assert_eq!(place(&a, 0x5010), place(&b, 0xd010));
        assert_ne!(place(&a, 0x5010).0, place(&row(1, 0x5000, 0x8000, 0, (4, 0)), 0x5010).0);
        assert_eq!(place(&row(1, 0x5000, 0x8000, 0, (NONE, 0)), 0x5010), (1, 0x5010));
    }
}
