//! Rings that fill up, and recorders that are gone.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::Bench;
use numamma_wire::{Event, Options, Segment};

const MANY: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *arg) { for (int i = 0; i < 20000; i++) free(malloc(14001)); return arg; }
int main(void)
{
    pthread_t t;
    pthread_create(&t, 0, work, 0);
    work(0);
    pthread_join(t, 0);
    puts("done");
    return 0;
}
"#;

fn small() -> Bench {
    Bench { options: Options { ring_bytes: 4096, ring_count: 8, ..Options::default() }, ..Bench::new() }
}

#[test]
fn nobody_reads() {
    let bench = small();
    let segment = Segment::create(bench.options).expect("a segment");
    let begin = Instant::now();
    let (mut child, log) = bench.start(&mut Command::new(bench.compile("program", MANY, &["-O1"])), &segment);
    assert_eq!(child.wait().expect("wait for the program").code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(20), "each thread stalls once, not for every event");
    assert_eq!(std::fs::read_to_string(log).expect("read"), "done\n");

    // What fits came through, all else is counted.
    let (mut allocs, mut frees, mut lost, mut lost_frees) = (0, 0, 0, 0);
    for ring in segment.rings() {
        ring.drain(|event| match event.expect("a sound event").event {
            Event::Alloc { size: 14001, .. } => allocs += 1,
            Event::Free { .. } => frees += 1,
            _ => {}
        });
        let losses = ring.release().expect("its thread is gone");
        assert_eq!(losses.waits, 1);
        lost += losses.full;
        lost_frees += losses.frees;
    }
    assert!(allocs > 50 && lost_frees > 10_000, "{allocs} {lost_frees}");
    assert!(
        frees + lost_frees >= 40_000 && allocs + lost - lost_frees >= 40_000,
        "{allocs} {frees} {lost} {lost_frees}"
    );
}

#[test]
fn a_small_ring_that_is_read_loses_nothing() {
    let recording = small().run(MANY, &["-O1"]).check();
    assert_eq!(recording.allocs(14001).len(), 40_000);
}

#[test]
fn the_bell_is_rung_long_before_the_timeout() {
    let bench =
        Bench { options: Options { ring_bytes: 64 * 1024, ring_count: 8, ..Options::default() }, ..Bench::new() };
    let segment = Segment::create(bench.options).expect("a segment");
    let (mut child, _) = bench.start(&mut Command::new(bench.compile("program", MANY, &["-O1"])), &segment);
    let mut allocs = 0;
    let mut lost = 0;
    while child.try_wait().expect("wait").is_none() || segment.rings().any(|ring| ring.pending() > 0) {
        let bell = segment.bell();
        for ring in segment.active_rings() {
            lost += ring.losses().full;
            ring.drain(|event| {
                allocs += u64::from(matches!(event.expect("sound").event, Event::Alloc { size: 14001, .. }))
            });
        }
        if child.try_wait().expect("wait").is_none() {
            // Longer than a writer waits: had the bell not woken us, events would be lost.
            segment.wait(bell, Duration::from_millis(500));
        }
    }
    assert_eq!((allocs, lost), (40_000, 0));
}

#[test]
fn closing_lets_the_program_run_on() {
    let bench = small();
    let segment = Segment::create(bench.options).expect("a segment");
    let source = MANY.replace("20000", "2000000");
    let (mut child, log) = bench.start(&mut Command::new(bench.compile("program", &source, &["-O1"])), &segment);
    while segment.rings().all(|ring| ring.pending() == 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(segment);
    assert_eq!(child.wait().expect("wait for the program").code(), Some(0));
    assert_eq!(std::fs::read_to_string(log).expect("read"), "done\n");
}

#[test]
fn more_threads_than_rings() {
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static void *work(void *arg) { pthread_barrier_wait(&all); for (int i = 0; i < 500; i++) free(malloc(14011)); pthread_barrier_wait(&all); return arg; }
int main(void)
{
    pthread_t t[20];
    pthread_barrier_init(&all, 0, 20);
    for (int i = 0; i < 20; i++) pthread_create(&t[i], 0, work, 0);
    for (int i = 0; i < 20; i++) pthread_join(t[i], 0);
    return 0;
}
"#;
    let bench = Bench { options: Options { ring_count: 4, ..Options::default() }, ..Bench::new() };
    let recording = bench.run(source, &["-O1"]);
    assert_eq!(recording.exit, Some(0));
    // The main thread and three others have rings for all of their lives.
    let seen = recording.allocs(14011).len();
    assert!((1500..10_000).contains(&seen), "{seen}");
    // Each call of the others is an allocation and a release that were dropped.
    assert!(recording.lost_no_ring >= 2 * (10_000 - seen as u64), "{} {seen}", recording.lost_no_ring);
}
