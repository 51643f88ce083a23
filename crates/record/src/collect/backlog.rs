//! Rings are read on while the session is busy: a program that allocated faster than its events were applied lost tens of
//! millions of them, since its rings stayed full until the session was through with two million.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use numamma_trace::DatasetWriter;
use numamma_wire::{Event, Options, Segment};

use super::merge::Batch;
use super::{Collector, LibraryReader, MOST_WAITING};
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
