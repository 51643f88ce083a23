//! Blocks that come and go: few events, and nothing of what they stand for is lost.

mod common;

use std::collections::HashMap;

use common::{Bench, Recording, STORM, replay};
use numamma_wire::Event;

/// How often blocks were allocated and released, and how many events said so.
#[derive(Debug, Default, PartialEq)]
struct Account {
    allocated: u64,
    released: u64,
    events: u64,
}

fn account(recording: &Recording) -> Account {
    let mut account = Account::default();
    for event in recording.events() {
        let (allocated, released) = match event {
            Event::Alloc { replaces, .. } => (1, u64::from(replaces)),
            Event::Free { .. } => (0, 1),
            Event::Repeat { count, .. } => (count, count),
            _ => continue,
        };
        account.allocated += allocated;
        account.released += released;
        account.events += 1;
    }
    account
}

#[test]
fn a_block_that_comes_and_goes_takes_no_events() {
    let source = r#"
#include <stdlib.h>
int main(void)
{
    for (int i = 0; i < 100000; i++) free(malloc(77));
    for (int i = 0; i < 1000; i++) { void *p = calloc(3, 33); free(p); }
    for (int i = 0; i < 1000; i++) free(malloc(100000)); /* too large */
    void *volatile kept = malloc(55);
    for (int i = 0; i < 1000; i++) { char *p = malloc(10); p = realloc(p, 20 + i % 2); free(p); }
    return kept == NULL;
}
"#;
    for flags in [["-O0"], ["-O2"]] {
        let recording = Bench::collapsing().run(source, &flags).check();
        let account = account(&recording);
        // The loader and libc may allocate, too; realloc is both.
        assert!((account.allocated - account.released) < 10, "{account:?}");
        assert!((104_001..104_050).contains(&account.allocated), "{account:?}");
        assert!((2_000..8_100).contains(&account.events), "{account:?}");
        assert!(replay(&recording).values().any(|size| *size == 55));
        assert!(!replay(&recording).values().any(|size| [77, 99, 10, 20, 21, 100_000].contains(size)));
    }
}

#[test]
fn call_sites_and_sizes_are_told_apart() {
    let source = r#"
#include <stdlib.h>
__attribute__((noinline)) static void *one(size_t n) { void *volatile p = malloc(n); return p; }
__attribute__((noinline)) static void *two(size_t n) { void *volatile p = malloc(n); return p; }
int main(void)
{
    for (int i = 0; i < 3000; i++) free(i % 3 == 0 ? one(40) : i % 3 == 1 ? two(40) : one(24));
    return 0;
}
"#;
    let recording = Bench::collapsing().run(source, &["-O1", "-fno-ipa-icf"]).check();
    let mut of_site: HashMap<(u64, u64), u64> = HashMap::new();
    for event in recording.events() {
        match event {
            Event::Alloc { size, stack, .. } => *of_site.entry((stack, size)).or_default() += 1,
            Event::Repeat { size, stack, count } => *of_site.entry((stack, size)).or_default() += count,
            _ => {}
        }
    }
    let mut counts: Vec<(u64, u64)> =
        of_site.iter().filter(|(_, count)| **count == 1000).map(|((_, size), count)| (*size, *count)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(24, 1000), (40, 1000), (40, 1000)], "{of_site:?}");
    replay(&recording);
}

/// Blocks wander between threads: a thread's table says that a block is its own when it has long been another's.
#[test]
fn blocks_that_others_free_are_not_taken_for_ones_own() {
    let source = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, SLOTS = 64, TURNS = 60000 };
static _Atomic(void *) slots[SLOTS];
static void *run(void *seed)
{
    unsigned state = (unsigned)(size_t)seed * 7919 + 1;
    for (int i = 0; i < TURNS; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned what = state >> 16;
        void *mine = malloc(24 + 16 * (what & 1));
        if (what & 2) free(mine);
        else free(atomic_exchange(&slots[what / 4 % SLOTS], mine));
        if ((what & 0xf0) == 0) free(realloc(malloc(20), 2000));
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    for (long i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++) printf("slot%d %lu\n", i, (unsigned long)slots[i]);
    return 0;
}
"#;
    let recording = Bench::collapsing().run(source, &["-O1"]).check();
    let account = account(&recording);
    assert!(account.allocated >= 4 * 60_000 && account.events < 2 * account.allocated, "{account:?}");
    let left = replay(&recording);
    for slot in 0..64 {
        let address = recording.printed(&format!("slot{slot}"));
        assert!(address == 0 || [24, 40].contains(&left[&address]), "{address:x} is {:?}", left.get(&address));
    }
    assert!(left.len() < 64 + 30, "{} are left", left.len());
}

#[test]
fn a_forked_child_has_a_table_of_its_own() {
    let source = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    void *mine = malloc(48);
    free(mine); /* outstanding when the child begins */
    int status;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 500; i++) free(malloc(48));
        for (int i = 0; i < 500; i++) free(malloc(49));
        _exit(7);
    }
    for (int i = 0; i < 500; i++) free(malloc(48));
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 7 ? 0 : 1;
}
"#;
    let recording = Bench::collapsing().run(source, &["-O1"]).check();
    let (mut of_48, mut of_49) = (HashMap::new(), 0);
    for thread in &recording.threads {
        for event in &thread.events {
            match event.event {
                Event::Alloc { size: 48, .. } => *of_48.entry(thread.pid).or_insert(0) += 1,
                Event::Repeat { size: 48, count, .. } => *of_48.entry(thread.pid).or_insert(0) += count,
                Event::Alloc { size: 49, .. } => of_49 += 1,
                Event::Repeat { size: 49, count, .. } => of_49 += count,
                _ => {}
            }
        }
    }
    let mut counts: Vec<u64> = of_48.into_values().collect();
    counts.sort_unstable();
    assert_eq!((counts, of_49), (vec![500, 501], 500));
}

/// An allocator that a signal handler may interrupt and call. It gives out again what was freed last, so that the loop and the
/// handlers take each other's addresses.
const REUSING: &str = r#"
#include <stddef.h>
#include <string.h>
static char pool[64 << 20];
static size_t used;
static void *spare[3];
void *malloc(size_t n)
{
    void *p = NULL;
    if (n <= 48)
        for (int i = 0; i < 3 && p == NULL; i++) p = __atomic_exchange_n(&spare[i], NULL, __ATOMIC_RELAXED);
    return p ? p : pool + __atomic_fetch_add(&used, n < 48 ? 48 : (n + 31) & ~(size_t)15, __ATOMIC_RELAXED);
}
void free(void *p)
{
    if (p == NULL || *(size_t *)p != 42) return; /* only the test's blocks are given out again */
    for (int i = 0; i < 3 && p; i++) p = __atomic_exchange_n(&spare[i], p, __ATOMIC_RELAXED);
}
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }
"#;

/// A handler that allocates may come at any instruction of the hooks, also while they look at the table.
#[test]
fn signal_handlers_do_not_confuse_it() {
    let functions = r#"
static void use(size_t n) { size_t *volatile p = malloc(n); *p = 42; free(p); }
static void in_handler(void) { for (int i = 0; i < 3; i++) { use(33); use(34); } }
static void in_loop(int i) { use(i % 7 ? 35 : 36); }
"#;
    let source = format!("{STORM}{functions}");
    let recording = Bench::collapsing().run_with_allocator(REUSING, &source, &["-lrt"]).check();
    let (handled, looped) = (recording.printed("handled"), recording.printed("looped"));
    assert!(handled > 100, "{handled}");
    let of_sizes = |sizes: [u64; 2]| -> u64 {
        let count = |event: &Event| match event {
            Event::Alloc { size, .. } if sizes.contains(size) => 1,
            Event::Repeat { size, count, .. } if sizes.contains(size) => *count,
            _ => 0,
        };
        recording.events().iter().map(count).sum()
    };
    assert_eq!((of_sizes([33, 34]), of_sizes([35, 36])), (6 * handled, looped));
    let account = account(&recording);
    assert!(account.events < account.allocated, "{account:?}");
    assert!(replay(&recording).values().all(|size| !(33..=36).contains(size)));
}
