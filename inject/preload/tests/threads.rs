//! Threads: many, short, cancelled, exiting, destructing.

mod common;

use std::collections::HashSet;

use common::{Bench, Recording};
use numamma_wire::Event;

fn starts(recording: &Recording) -> Vec<Event> {
    recording.events().into_iter().filter(|event| matches!(event, Event::ThreadStart { .. })).collect()
}

fn ends(recording: &Recording) -> usize {
    recording.events().iter().filter(|event| matches!(event, Event::ThreadEnd { .. })).count()
}

#[test]
fn two_thousand_short_threads() {
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *arg) { for (int i = 0; i < 5; i++) free(malloc(7001)); return arg; }
int main(void)
{
    for (int round = 0; round < 250; round++) {
        pthread_t t[8];
        for (long i = 0; i < 8; i++) if (pthread_create(&t[i], 0, work, (void *)i)) return 1;
        for (long i = 0; i < 8; i++) { void *r; pthread_join(t[i], &r); if (r != (void *)i) return 2; }
    }
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    assert_eq!(starts(&recording).len(), 2001);
    assert_eq!(ends(&recording), 2000);
    assert_eq!(recording.allocs(7001).len(), 10_000);
    // Rings are used again: far fewer than 2000 exist.
    assert_eq!(recording.threads.len(), 2001, "each thread's ring was released and drained by itself");
    let tids: HashSet<i32> = recording.threads.iter().map(|thread| thread.tid).collect();
    assert!(tids.len() > 1900, "ids of the kernel: {}", tids.len());
}

#[test]
fn stack_and_tls_bounds() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static __thread char tls[5000];
static char own[1 << 16] __attribute__((aligned(4096)));
static void *work(void *name) { char local; free(malloc(1)); printf("%s.local %p\n%s.tls %p\n", (char *)name, &local, (char *)name, tls); return 0; }
int main(void)
{
    pthread_t t;
    pthread_attr_t attr;
    work("main");
    pthread_create(&t, 0, work, "plain"); pthread_join(t, 0);
    pthread_attr_init(&attr); pthread_attr_setstack(&attr, own, sizeof own);
    pthread_create(&t, &attr, work, "own"); pthread_join(t, 0);
    printf("own.low %p\n", own);
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    let starts = starts(&recording);
    assert_eq!(starts.len(), 3);
    for (name, start) in ["main", "plain", "own"].iter().zip(&starts) {
        let Event::ThreadStart { main, stack_low, stack_high, tls_low, thread_pointer, start_routine, .. } = *start
        else {
            panic!()
        };
        let local = recording.printed(&format!("{name}.local"));
        let tls = recording.printed(&format!("{name}.tls"));
        assert!((stack_low..stack_high).contains(&local), "{name}: {start:x?} {local:x}");
        assert!((tls_low..thread_pointer).contains(&tls), "{name}: {start:x?} {tls:x}");
        assert_eq!(main, *name == "main");
        assert_eq!(start_routine == 0, main);
        if *name == "own" {
            assert_eq!(
                (stack_low, stack_high),
                (recording.printed("own.low"), recording.printed("own.low") + (1 << 16))
            );
        }
    }
}

#[test]
fn own_bookkeeping_leaves_no_arena_behind() {
    // A thread that never allocates must not get a heap of its own from glibc because of us: each takes 64 MiB of
    // address space and, here, would move later allocations.
    let source = r#"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static pthread_barrier_t all;
static void *idle(void *arg) { pthread_barrier_wait(&all); pthread_barrier_wait(&all); return arg; }
int main(void)
{
    pthread_t t[4];
    pthread_barrier_init(&all, 0, 5);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, idle, 0);
    pthread_barrier_wait(&all);
    static char text[1 << 16];
    FILE *f = fmemopen(text, sizeof text, "w");
    malloc_info(0, f);
    fclose(f);
    int heaps = 0;
    for (char *at = text; (at = strstr(at, "<heap nr=")); at++) heaps++;
    printf("heaps %d\n", heaps);
    pthread_barrier_wait(&all);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    assert_eq!(recording.printed("heaps"), 1);
}

#[test]
fn exit_cancel_and_destructors() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_key_t key;
static int cleaned;
static void destroy(void *p) { free(p); free(malloc(9001)); }
static void cleanup(void *arg) { (void)arg; __atomic_fetch_add(&cleaned, 1, __ATOMIC_SEQ_CST); free(malloc(9003)); }
static void *exits(void *arg) { pthread_setspecific(key, malloc(9005)); pthread_exit(arg); }
static void *cancelled(void *arg)
{
    pthread_cleanup_push(cleanup, 0);
    pthread_setspecific(key, malloc(9005));
    for (;;) { free(malloc(9007)); pause(); }
    pthread_cleanup_pop(0);
    return arg;
}
static void *stubborn(void *arg)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    for (int i = 0; i < 1000; i++) free(malloc(9009));
    return arg;
}
int main(void)
{
    pthread_t t[3];
    void *result;
    pthread_key_create(&key, destroy);
    for (int round = 0; round < 50; round++) {
        pthread_create(&t[0], 0, exits, &t);
        pthread_create(&t[1], 0, cancelled, 0);
        pthread_create(&t[2], 0, stubborn, &cleaned);
        pthread_cancel(t[1]);
        pthread_cancel(t[2]);
        pthread_join(t[0], &result); if (result != &t) return 1;
        pthread_join(t[1], &result); if (result != PTHREAD_CANCELED) return 2;
        pthread_join(t[2], &result);
    }
    printf("cleaned %d\n", cleaned);
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    // Destructors run after the thread's end is known, and their events still arrive.
    let specific = recording.addresses(9005);
    assert_eq!(recording.allocs(9001).len(), specific.len());
    assert_eq!(recording.allocs(9003).len() as u64, recording.printed("cleaned"));
    assert!(specific.len() >= 50);
    for address in specific.iter().collect::<HashSet<_>>() {
        assert!(recording.frees(*address) > 0);
    }
}

#[test]
fn cpp_thread_locals_and_constructors() {
    let source = r#"// C++
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>
struct Global { void *p; Global() : p(std::malloc(8101)) {} ~Global() { std::free(p); } } global;
thread_local std::unique_ptr<std::vector<char>> local;
static void at_exit() { std::free(std::malloc(8103)); }
int main()
{
    std::atexit(at_exit);
    std::vector<std::thread> threads;
    for (int i = 0; i < 10; i++) threads.emplace_back([] { local = std::make_unique<std::vector<char>>(8105); });
    for (auto &t : threads) t.join();
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1", "-std=c++17"]).check();
    for (size, count) in [(8101, 1), (8103, 1), (8105, 10)] {
        let addresses = recording.addresses(size);
        assert_eq!(addresses.len(), count, "{size}");
        for address in addresses {
            assert!(recording.frees(address) > 0, "{size}");
        }
    }
}
