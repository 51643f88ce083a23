//! Rings are read on while the session is busy: a program that allocated faster than its events were applied lost tens of
//! millions of them, since its rings stayed full until the session was through with two million.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use numamma_trace::{DatasetWriter, LossKind, Losses};
use numamma_wire::layout::{RING_EXTRA, RING_OWNED, RingControl, SegmentHeader, kind};
use numamma_wire::{Event, Options, Segment};

use super::merge::{Batch, Merge};
use super::{Collector, LibraryReader, MOST_WAITING, now};
use crate::session::Session;
use crate::sink::Sink;

#[test]
fn the_reader_learns_of_progress_while_events_are_applied() {
    let dir = tempfile::tempdir().expect("a folder");
    let writer = DatasetWriter::create(&dir.path().join("d"), false).expect("a dataset");
    let mut session = Session::new(Sink::new(writer), 1_000_000, 4096);
    let mut collector = Collector::default();
    let mut batch = Batch::default();
    (0..5000).for_each(|time| batch.push(time, Event::Unmap { address: 0, length: 0, tentative: false }));
    batch.end_run(1, 1);
    collector.told.add(batch);
    let told = RefCell::new(Vec::new());
    collector.apply_until(4000, &mut session, |left| told.borrow_mut().push(left));
    // Those that must wait for their order are no work yet.
    assert_eq!(*told.borrow(), [4000, 2976, 1952, 928, 0]);
    assert_eq!(collector.told.weight_until(i64::MAX), 1000);
}

#[test]
fn the_reader_stops_at_what_the_session_has_not_applied_and_no_later() {
    let segment = Segment::create(Options::default()).expect("a segment");
    let reader = LibraryReader::new(&segment);
    assert!(!reader.is_full());
    reader.backlog.store(MOST_WAITING, Ordering::Relaxed);
    assert!(reader.is_full());
    reader.backlog.store(MOST_WAITING - 1, Ordering::Relaxed);
    assert!(!reader.is_full());
}

/// Writes `count` events into each ring, as a program would.
fn fill(segment: &Segment, count: u64) {
    let file = OpenOptions::new().read(true).write(true).open(segment.path()).expect("open the segment");
    let put = |offset: u64, bytes: &[u8]| file.write_all_at(bytes, offset).expect("write to the segment");
    let header = segment.header();
    let rings = segment.options().ring_count;
    put(offset_of!(SegmentHeader, rings_used) as u64, &rings.to_ne_bytes());
    for ring in 0..u64::from(rings) {
        let stride = u64::from(RING_EXTRA) + u64::from(segment.options().ring_bytes);
        let data = header.rings_offset.load(Ordering::Relaxed) + ring * stride + u64::from(RING_EXTRA);
        for event in 0..count {
            let words = [u64::from(kind::THREAD_END) << 16 | 3 << 32, event, ring];
            words.iter().zip(0..).for_each(|(word, at)| put(data + (event * 3 + at) * 8, &word.to_ne_bytes()));
        }
        let control = u64::from(header.header_bytes.load(Ordering::Relaxed)) + ring * size_of::<RingControl>() as u64;
        put(control + offset_of!(RingControl, head) as u64, &(count * 24).to_ne_bytes());
        put(control + offset_of!(RingControl, state) as u64, &RING_OWNED.to_ne_bytes());
    }
}

#[test]
fn the_reader_stops_between_rings_and_goes_on_there() {
    let options = Options { ring_count: 8, ring_bytes: 4096, ..Options::default() };
    let segment = Segment::create(options).expect("a segment");
    let reader = LibraryReader::new(&segment);
    fill(&segment, 100);
    reader.backlog.store(MOST_WAITING - 150, Ordering::Relaxed);
    let mut told = Merge::default();
    reader.scan(false);
    let until = now();
    // Not all before any time has been read.
    assert_eq!((reader.take(&mut told), told.weight_until(i64::MAX)), (0, 200));
    assert!(segment.rings().all(|ring| (ring.pending() == 0) == (ring.index() < 2)));
    reader.scan(false);
    assert_eq!((reader.take(&mut told), told.weight_until(i64::MAX)), (0, 400));
    reader.backlog.store(0, Ordering::Relaxed);
    reader.scan(false);
    let read = reader.take(&mut told);
    assert!(read > 0 && read <= until, "what was written since into the first rings has not been read");
    assert_eq!(told.weight_until(i64::MAX), 800);
    reader.scan(false);
    assert!(reader.take(&mut told) > until);
}

#[test]
fn releases_that_were_dropped_are_told_of() {
    let options = Options { ring_count: 2, ring_bytes: 4096, ..Options::default() };
    let segment = Segment::create(options).expect("a segment");
    fill(&segment, 1);
    let file = OpenOptions::new().write(true).open(segment.path()).expect("open the segment");
    let control = u64::from(segment.header().header_bytes.load(Ordering::Relaxed));
    for (field, count) in [(offset_of!(RingControl, lost_full), 7_u64), (offset_of!(RingControl, lost_frees), 3)] {
        file.write_all_at(&count.to_ne_bytes(), control + field as u64).expect("write to the segment");
    }
    segment.header().lost_filtered.store(5, Ordering::Relaxed);
    let mut losses = Losses::default();
    LibraryReader::new(&segment).close(&mut losses);
    let counted = [LossKind::HeapRing, LossKind::LostReleases, LossKind::Filtered].map(|kind| losses.get(kind));
    assert_eq!(counted, [7, 3, 5]);
}
