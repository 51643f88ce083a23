//! From address and time to the object that was there. Pure: rows in, numbers out.
//!
//! Objects of one kind never overlap in address and time at once, but the same addresses belong to many objects one after
//! the other, and kinds nest (a heap object in a mapped arena). So each process has one [`layer::Layer`] per kind, asked
//! in the order of [`ObjectKind`]: the innermost owner wins. The time of a question depends on the logarithm of the number
//! of objects and not on their size.
#![forbid(unsafe_code)]

mod layer;

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
        for ((of, _), spans) in spans {
            if of != process {
                (process, inner) = (of, Vec::new());
                index.processes.resize_with(of as usize + 1, Vec::new);
            }
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
        index
    }

    /// The object at `addr` of `process` at `time`, as its position in the rows that the index was made from.
    #[inline]
    pub fn find(&self, process: i32, addr: u64, time: i64, cursor: &mut Cursor) -> Option<usize> {
        if let Some(span) = cursor.span
            && span.holds(addr, time)
        {
            return Some(span.object as usize);
        }
        let layers = self.processes.get(process as usize)?;
        let object = layers.iter().find_map(|layer| layer.find(addr, time))?;
        cursor.span = self.solid[object as usize];
        Some(object as usize)
    }
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
