//! Counts on their way to the dataset: those of one thread in one page of one object make a row for the reads and one for the
//! writes, however often the plug-in told of them.

use numamma_trace::{Access, NONE, PartSampleRow, Rule, UNKNOWN};
use rustc_hash::FxHashMap;

use crate::tasks::ThreadId;

/// The CPU is not known: a count is of many moments.
pub const NO_CPU: i32 = -1;

/// Counts that wait, at most: 100 MB of them.
const MOST: usize = 1 << 20;

/// Greatest count of a row: up to here a `f32` holds every integer.
const MOST_OF_A_ROW: u64 = 1 << 24;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub thread: ThreadId,
    /// Address of the page.
    pub page: u64,
    /// The object, by its first address and when it was made.
    pub object: u64,
    pub since: i64,
    /// True if another object may come to lie where one of its words is.
    pub shared: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    low: u64,
    high: u64,
    /// Of the last access, as far as known: the object was there then.
    time: i64,
    reads: Count,
    writes: Count,
}

/// Accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many there were.
    pub all: u64,
    /// Those of them that reach memory.
    pub memory: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.memory += other.memory;
    }
}

/// Counts that wait for being written.
#[derive(Debug, Default)]
pub struct Counts {
    sums: FxHashMap<Place, Sum>,
    /// True if it is known which accesses reach memory.
    pub memory_known: bool,
}

impl Counts {
    /// Accesses to the four bytes at `addr`, made until `time`.
    pub fn add(&mut self, place: Place, addr: u64, time: i64, reads: Count, writes: Count) {
        let time = time.max(place.since);
        let none = Count::default();
        let nothing = Sum { low: u64::MAX, high: 0, time: i64::MIN, reads: none, writes: none };
        let sum = self.sums.entry(place).or_insert(nothing);
        // A row's address must be the object's at the row's time.
        if place.shared && time >= sum.time {
            (sum.low, sum.high) = (addr, addr + 4);
        } else if !place.shared {
            (sum.low, sum.high) = (sum.low.min(addr), sum.high.max(addr + 4));
        }
        sum.time = sum.time.max(time);
        sum.reads.add(reads);
        sum.writes.add(writes);
    }

    /// True if they should be written before their time.
    pub fn are_many(&self) -> bool {
        self.sums.len() >= MOST
    }

    /// Makes rows of them, in the order of threads, times and addresses.
    pub fn write(&mut self, rows: &mut Vec<PartSampleRow>) {
        let mut sums: Vec<(Place, Sum)> = self.sums.drain().collect();
        sums.sort_unstable_by_key(|(place, sum)| (place.thread, sum.time, sum.low));
        for (place, sum) in sums {
            for (access, Count { all: mut count, mut memory }) in
                [(Access::Read, sum.reads), (Access::Write, sum.writes)]
            {
                while count > 0 {
                    let part = count.min(MOST_OF_A_ROW);
                    let of_memory = memory.min(part);
                    count -= part;
                    memory -= of_memory;
                    rows.push(PartSampleRow {
                        time: sum.time,
                        thread: place.thread as i32,
                        cpu: NO_CPU,
                        ip: 0,
                        addr: sum.low as i64,
                        bytes: (sum.high - sum.low) as i32,
                        access: access as i32,
                        rule: Rule::Exact as i32,
                        cost: 0,
                        accesses: part as f32,
                        // Counts are not thinned out.
                        survives: i32::MAX,
                        thinned: 0,
                        site: NONE,
                        trace_window: NONE,
                        owner: NONE,
                        memory: if self.memory_known { of_memory as f32 } else { UNKNOWN },
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(all: u64) -> Count {
        Count { all, memory: 0 }
    }

    fn rows(counts: &mut Counts) -> Vec<(i64, i64, i32, i32, f32)> {
        let mut rows = Vec::new();
        counts.write(&mut rows);
        rows.iter().map(|row| (row.time, row.addr, row.bytes, row.access, row.accesses)).collect()
    }

    #[test]
    fn counts_of_one_object_in_a_page_make_one_row_for_reads_and_one_for_writes() {
        let mut counts = Counts::default();
        let place = Place { thread: 0, page: 0x1000, object: 0x1010, since: 5, shared: false };
        counts.add(place, 0x1010, 10, all(3), all(0));
        counts.add(place, 0x1020, 20, all(1), all(2));
        // The next one at the same address.
        counts.add(Place { since: 21, ..place }, 0x1010, 20, all(7), all(0));
        assert_eq!(rows(&mut counts), [(20, 0x1010, 20, 1, 4.0), (20, 0x1010, 20, 2, 2.0), (21, 0x1010, 4, 1, 7.0)]);
        assert_eq!(rows(&mut counts), []);
    }

    /// A block that came to lie at the first word that the allocator had accessed was charged with all that it had.
    #[test]
    fn a_row_is_where_its_object_was_at_its_time() {
        let mut counts = Counts::default();
        let place = Place { thread: 0, page: 0x1000, object: 0x1000, since: 0, shared: true };
        counts.add(place, 0x1010, 10, all(1), all(0));
        counts.add(place, 0x1100, 20, all(1), all(0));
        assert_eq!(rows(&mut counts), [(20, 0x1100, 4, 1, 2.0)]);
    }

    #[test]
    fn no_count_is_rounded() {
        let mut counts = Counts::default();
        let place = Place { thread: 0, page: 0, object: 0, since: 0, shared: false };
        for _ in 0..3 {
            counts.add(place, 0, 1, all((1 << 24) - 1), all(0));
        }
        let rows = rows(&mut counts);
        assert_eq!(rows.iter().map(|row| row.4 as u64).sum::<u64>(), 3 * ((1 << 24) - 1));
        assert!(rows.iter().all(|row| row.4 as u64 <= MOST_OF_A_ROW));
    }

    #[test]
    fn accesses_that_reach_memory_are_part_of_a_row_or_unknown() {
        let place = Place { thread: 0, page: 0, object: 0, since: 0, shared: false };
        for (memory_known, expected) in
            [(true, [(1 << 24, 5), (3, 0), (7, 7)]), (false, [(1 << 24, -1), (3, -1), (7, -1)])]
        {
            let mut counts = Counts { memory_known, ..Counts::default() };
            counts.add(place, 0, 1, Count { all: (1 << 24) + 1, memory: 4 }, Count { all: 7, memory: 7 });
            counts.add(place, 8, 1, Count { all: 2, memory: 1 }, Count::default());
            let mut rows = Vec::new();
            counts.write(&mut rows);
            let rows: Vec<_> = rows.iter().map(|row| (row.accesses as i64, row.memory as i64)).collect();
            assert_eq!(rows, expected);
        }
    }
}
