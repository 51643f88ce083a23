//! From address and time to the object that was there. Pure: rows in, numbers out.
//!
//! Objects of one kind do not overlap in address and time at once, but the same addresses belong to many objects one after
//! the other, and kinds nest (a heap object in a mapped arena). So each process has one [`layer::Layer`] per kind, asked
//! in the order of [`ObjectKind`]: the innermost owner wins. What lies in no section of a segment is the segment's, and that has its sections
//! in it: these are two layers. The time of a question depends on the logarithm of the number
//! of objects and not on their size.
#![forbid(unsafe_code)]

mod layer;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use layer::{Layer, Span};
use numamma_trace::{ObjectKind, ObjectRow};

/// Finds objects by process, address and time.
#[derive(Debug, Default)]
pub struct Index {
    processes: Vec<Vec<Layer>>,
    /// By object: its extent, if nothing of an inner kind lies in it, so that a second access to it needs no search.
    solid: Vec<Option<Span>>,
}

/// What the last question of a thread found. Keep one per thread: threads stay with an object for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    span: Option<Span>,
    process: i32,
}

impl Index {
    /// An index over `objects`; answers are positions in it. Objects of an unknown kind are not found.
    pub fn new(objects: &[ObjectRow]) -> Self {
        let mut spans: BTreeMap<(i32, ObjectKind), Vec<Span>> = BTreeMap::new();
        for (number, row) in objects.iter().enumerate() {
            let Some(kind) = ObjectKind::from_name(&row.kind) else { continue };
            let low = row.addr as u64;
            let span = Span {
                low,
                high: low.saturating_add(row.bytes.max(1) as u64),
                start: row.start_time,
                end: row.end_time,
                object: number as u32,
            };
            spans.entry((row.process.max(0), kind)).or_default().push(span);
        }
        let mut index = Self { processes: Vec::new(), solid: vec![None; objects.len()] };
        let mut inner: Vec<(u64, u64)> = Vec::new();
        let mut process = -1;
        // The map's order is the order of the kinds within each process: inner first.
        for ((of, kind), spans) in spans {
            if of != process {
                (process, inner) = (of, Vec::new());
                index.processes.resize_with(of as usize + 1, Vec::new);
            }
            let levels = if kind == ObjectKind::Section { nested(spans) } else { vec![spans] };
            for spans in levels {
                for span in &spans {
                    let next = inner.partition_point(|&(_, high)| high <= span.low);
                    if inner.get(next).is_none_or(|&(low, _)| low >= span.high) {
                        index.solid[span.object as usize] = Some(*span);
                    }
                }
                inner.extend(spans.iter().map(|s| (s.low, s.high)));
                inner = union(inner);
                index.processes[of as usize].push(Layer::new(spans));
            }
        }
        index
    }

    /// The object at `addr` of `process` at `time`, as its position in the rows that the index was made from.
    #[inline]
    pub fn find(&self, process: i32, addr: u64, time: i64, cursor: &mut Cursor) -> Option<usize> {
        if let Some(span) = cursor.span
            && span.holds(addr, time)
            && cursor.process == process
        {
            return Some(span.object as usize);
        }
        let layers = self.processes.get(process as usize)?;
        let object = layers.iter().find_map(|layer| layer.find(addr, time))?;
        *cursor = Cursor { span: self.solid[object as usize], process };
        Some(object as usize)
    }
}

/// Spans that have none of the others in them, and those that have.
fn nested(mut spans: Vec<Span>) -> Vec<Vec<Span>> {
    spans.sort_by_key(|span| (span.low, Reverse(span.high)));
    let has_others = |number: usize, span: &Span| {
        let mut others = spans[number + 1..].iter().take_while(|other| other.low < span.high);
        others.any(|other| other.start < span.end && span.start < other.end)
    };
    let mut levels = vec![Vec::new(), Vec::new()];
    for (number, span) in spans.iter().enumerate() {
        levels[usize::from(has_others(number, span))].push(*span);
    }
    levels
}

/// Sorted, disjoint union of ranges.
fn union(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (low, high) in ranges {
        match union.last_mut() {
            Some(last) if low <= last.1 => last.1 = last.1.max(high),
            _ => union.push((low, high)),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(addr: i64, bytes: i64, start: i64, end: i64) -> ObjectRow {
        ObjectRow {
            object: 0,
            process: 0,
            kind: ObjectKind::Section.name().into(),
            name: String::new(),
            site: -1,
            thread: -1,
            addr,
            bytes,
            start_time: start,
            end_time: end,
            module: String::new(),
            shared: -1,
            shared_offset: 0,
            moved_from: numamma_trace::NONE,
        }
    }

    /// A fork has other objects at the same addresses.
    #[test]
    fn what_one_process_was_told_is_not_anothers() {
        let objects = [section(0x1000, 0x100, 0, 20), ObjectRow { process: 1, ..section(0x1000, 0x100, 0, 20) }];
        let (index, mut cursor) = (Index::new(&objects), Cursor::default());
        let found = [0, 1, 1, 0, 2].map(|process| index.find(process, 0x1010, 5, &mut cursor));
        assert_eq!(found, [Some(0), Some(1), Some(1), Some(0), None]);
    }

    /// A segment with two sections, in whatever order they come; and what was there before, in another library.
    #[test]
    fn a_segment_has_what_lies_in_no_section() {
        let mut objects = vec![
            section(0x1000, 0x1000, 10, 20),
            section(0x1100, 0x100, 10, 20),
            section(0x1800, 0x800, 10, 20),
            section(0x1700, 0x200, 0, 10),
        ];
        for _ in 0..objects.len() {
            objects.rotate_left(1);
            let index = Index::new(&objects);
            let mut cursor = Cursor::default();
            let mut of = |addr, time| index.find(0, addr, time, &mut cursor).map(|object| objects[object].addr);
            assert_eq!([0x1000, 0x10ff, 0x1200, 0x17ff].map(|addr| of(addr, 15)), [Some(0x1000); 4]);
            assert_eq!([of(0x1100, 15), of(0x11ff, 15)], [Some(0x1100); 2]);
            assert_eq!([of(0x1800, 15), of(0x1fff, 15)], [Some(0x1800); 2]);
            assert_eq!([of(0x1700, 5), of(0x18ff, 5), of(0x1900, 5)], [Some(0x1700), Some(0x1700), None]);
        }
    }
}
