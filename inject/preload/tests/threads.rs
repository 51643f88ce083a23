//! Threads: many, short, cancelled, exiting, destructing.

mod common;

use std::collections::HashSet;
use std::process::Command;

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

/// Threads of C11 do not come by pthread_create.
#[test]
fn stack_bounds_of_c11_threads() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
static int work(void *arg) { int local; free(malloc(10011)); printf("local %p\n", (void *)&local); return *(int *)arg - 1000; }
int main(void)
{
    thrd_t t;
    int result, arg = 7;
    if (thrd_create(&t, work, &arg) != thrd_success || thrd_join(t, &result) != thrd_success) return 1;
    return result != -993;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    let starts = starts(&recording);
    let Event::ThreadStart { main: false, stack_low, stack_high, .. } = starts[1] else { panic!("{starts:?}") };
    assert!((stack_low..stack_high).contains(&recording.printed("local")), "{starts:x?}");
    assert_eq!((ends(&recording), recording.allocs(10011).len()), (1, 1));
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

#[test]
fn small_stacks() {
    // Of 16 KiB glibc takes its part for TLS, the program 9000 bytes; we must make do with what is left.
    let source = r#"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *work(void *arg)
{
    volatile char local[9000];
    memset((char *)local, 1, sizeof local);
    for (int i = 0; i < 10; i++) { char *p = malloc(10); memset(p, 1, 10); free(realloc(p, 100)); }
    return local[8999] == 1 ? arg : 0;
}
int main(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, 16384)) return 1;
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        void *result;
        if (pthread_create(&t, &attr, work, &attr) || pthread_join(t, &result) || result != &attr) return 2;
    }
    return 0;
}
"#;
    let bench = Bench::new();
    let program = bench.compile("program", source, &["-O1", "-Wl,-z,now"]);
    if !Command::new(&program).status().expect("run the program").success() {
        eprintln!("skipped: too much for this libc even by itself");
        return;
    }
    let recording = bench.record(&mut Command::new(program)).check();
    assert_eq!(recording.allocs(10).len(), 200);
}

/// How deep the stack is used below a call of ours: a thread fills its stack with a pattern and looks how much is left.
#[test]
fn hooks_use_little_stack() {
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define PATTERN 0x5a5a5a5a5a5a5a5aul
static char stack[1 << 20] __attribute__((aligned(4096)));
static void *volatile kept;
/* Each a call site of its own, so that its unwind rule is looked up and its stack sent. */
#define PROBE(name, ...) static __attribute__((noinline)) long name(void) { \
    unsigned long *sp; \
    __asm__ volatile("mov %%rsp, %0" : "=r"(sp)); \
    unsigned long *end = sp - 16, *low = (unsigned long *)(stack + sizeof stack / 2); \
    for (volatile unsigned long *p = low; p < end; p++) *p = PATTERN; \
    __VA_ARGS__; \
    while (low < end && *(volatile unsigned long *)low == PATTERN) low++; \
    return (char *)sp - (char *)low; }
PROBE(by_malloc, kept = malloc(10))
PROBE(by_realloc, kept = realloc(kept, 20))
PROBE(by_free, free(kept))
PROBE(by_mmap, kept = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
PROBE(by_mremap, kept = mremap(kept, 4096, 8192, MREMAP_MAYMOVE))
static void *work(void *arg)
{
    free(malloc(10)); /* the libc's own first steps */
    printf("malloc %ld\n", by_malloc());
    printf("realloc %ld\n", by_realloc());
    printf("free %ld\n", by_free());
    printf("mmap %ld\n", by_mmap());
    printf("mremap %ld\n", by_mremap());
    return arg;
}
int main(void)
{
    pthread_t t;
    pthread_attr_t attr;
    setvbuf(stdout, malloc(8192), _IOFBF, 8192);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, stack, sizeof stack);
    return pthread_create(&t, &attr, work, 0) || pthread_join(t, 0);
}
"#;
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let recording = Bench::new().run(source, &["-O1", "-Wl,-z,now"]).check();
    eprintln!("{}", recording.output);
    for call in ["malloc", "realloc", "free", "mmap", "mremap"] {
        let bytes = recording.printed(call);
        assert!((64..1280).contains(&bytes), "{call}: {bytes}");
    }
}
