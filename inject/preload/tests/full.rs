//! Rings that fill up, and recorders that are gone.

mod common;

use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
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

/// A library that fakes the time: it stands still, and to tell it takes an allocation.
#[test]
fn a_clock_that_stands_still() {
    let clock = r#"
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) { (void)clock; free(malloc(14041)); *now = (struct timespec){5, 5}; return 0; }
"#;
    let bench = small();
    let clock = bench.compile("libclock.so", clock, &["-O1", "-shared", "-fPIC"]).display().to_string();
    let program = bench.compile("program", MANY, &["-O1", "-Wl,--no-as-needed", &clock]);
    let recording = bench.record(&mut Command::new(&program)).check();
    assert_eq!((recording.allocs(14001).len(), recording.allocs(14041).len()), (40_000, 0));
    // Nobody reads: the wait for room ends all the same.
    let segment = Segment::create(bench.options).expect("a segment");
    let begin = Instant::now();
    let (mut child, _) = bench.start(&mut Command::new(&program), &segment);
    while child.try_wait().expect("wait for the program").is_none() {
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().expect("kill it");
            panic!("it waits for ever");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where the clock cannot be read without a system call, a program that filters them is not recorded any more.
#[test]
fn a_filter_where_the_clock_is_a_system_call() {
    let source = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
int main(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    free(malloc(14051));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    free(malloc(14053));
    return 0;
}
"#;
    let bench = Bench::new();
    let program = bench.compile("program", source, &["-O1"]);
    for vdso_clock in [1, 0] {
        let segment = Segment::create(bench.options).expect("a segment");
        segment.header().vdso_clock.store(vdso_clock, SeqCst);
        let (mut child, _) = bench.start(&mut Command::new(&program), &segment);
        assert_eq!(child.wait().expect("wait for the program").code(), Some(0));
        let mut sizes = Vec::new();
        for ring in segment.rings() {
            ring.drain(|event| {
                if let Event::Alloc { size: size @ 14050..14060, .. } = event.expect("sound").event {
                    sizes.push(size);
                }
            });
        }
        let (seen, muted) = if vdso_clock == 1 { (&[14051, 14053][..], 0) } else { (&[14051][..], 1) };
        assert_eq!((&sizes[..], segment.muted()), (seen, muted));
    }
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

/// Where threads are too many, one wait is enough for all processes.
#[test]
fn programs_that_are_executed_do_not_wait_one_by_one() {
    let source = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    free(malloc(14061));
    for (int i = 0; argc == 1 && i < 8; i++) {
        int status;
        if (fork() == 0) { execl("/proc/self/exe", argv[0], "leaf", (char *)0); _exit(1); }
        wait(&status);
        if (status) return 1;
    }
    return 0;
}
"#;
    let bench = Bench { options: Options { ring_count: 1, ..Options::default() }, ..Bench::new() };
    let begin = Instant::now();
    let recording = bench.run(source, &["-O1"]);
    assert_eq!((recording.exit, recording.allocs(14061).len()), (Some(0), 1));
    assert!(recording.lost_no_ring >= 16 && begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

/// Short threads, ten alive at once.
const SHORT: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *arg) { for (int i = 0; i < 20000; i++) free(malloc(14021)); return arg; }
int main(void)
{
    for (int round = 0; round < 30; round++) {
        pthread_t t[10];
        for (int i = 0; i < 10; i++) if (pthread_create(&t[i], 0, work, 0)) return 1;
        for (int i = 0; i < 10; i++) pthread_join(t[i], 0);
    }
    puts("done");
    return 0;
}
"#;

#[test]
fn a_killed_recorder_does_not_hold_the_program_up() {
    let bench = Bench { options: Options { ring_bytes: 4096, ring_count: 512, ..Options::default() }, ..Bench::new() };
    let program = bench.compile("program", SHORT, &["-O1"]);
    let mut dead = Command::new("true").spawn().expect("run true");
    dead.wait().expect("wait for true");
    for gone in [true, false] {
        // Not gone: stopped, say. Then the stall of one thread must do for all.
        let segment = Segment::create(bench.options).expect("a segment");
        if gone {
            segment.header().recorder_pid.store(dead.id() as i32, SeqCst);
        }
        let begin = Instant::now();
        let (mut child, log) = bench.start(&mut Command::new(&program), &segment);
        assert_eq!(child.wait().expect("wait for the program").code(), Some(0));
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "gone {gone}: {took:?}");
        eprintln!("gone {gone}: {took:?}");
        assert_eq!(std::fs::read_to_string(log).expect("read"), "done\n");
        assert_eq!(segment.header().closed.load(SeqCst), u32::from(gone));
        assert!(segment.rings().map(|ring| ring.losses().full).sum::<u64>() > 0);
    }
}

#[test]
fn one_thread_after_another_never_runs_out_of_rings() {
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *arg) { free(malloc(14031)); return arg; }
int main(void)
{
    for (int i = 0; i < 30000; i++) {
        pthread_t t;
        if (pthread_create(&t, 0, work, 0)) return 1;
        pthread_join(t, 0);
    }
    return 0;
}
"#;
    let bench = Bench { options: Options { ring_count: 64, ..Options::default() }, ..Bench::new() };
    let segment = Segment::create(bench.options).expect("a segment");
    let (mut child, _) = bench.start(&mut Command::new(bench.compile("program", source, &["-O1"])), &segment);
    let (mut allocs, mut status) = (0, None);
    loop {
        let bell = segment.bell();
        for ring in segment.active_rings() {
            let ended = ring.has_ended();
            ring.drain(|event| {
                allocs += u64::from(matches!(event.expect("sound").event, Event::Alloc { size: 14031, .. }))
            });
            if ended {
                assert_eq!(ring.release().expect("it has ended").full, 0);
            }
        }
        if status.is_some() {
            break;
        }
        status = child.try_wait().expect("wait");
        if status.is_none() {
            // At leisure: the bell has to wake us.
            segment.wait(bell, Duration::from_millis(500));
        }
    }
    assert!(status.is_some_and(|status| status.success()));
    assert_eq!((allocs, segment.lost_no_ring()), (30_000, 0));
}
