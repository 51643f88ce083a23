//! Signal handlers that interrupt us.

mod common;

use common::{ALLOCATOR, Bench, STORM};
use numamma_wire::{Event, Options};

#[test]
fn a_storm_of_handlers_that_allocate() {
    // The pause keeps a recorder that shares the CPUs with other tests from falling behind.
    let functions = r#"
static void in_handler(void) { for (int i = 0; i < 3; i++) free(malloc(13001)); }
static void in_loop(int i) { (void)i; free(malloc(13003)); for (volatile int pause = 0; pause < 500; pause++) ; }
"#;
    let source = format!("{STORM}{functions}");
    let recording = Bench::new().run_with_allocator(ALLOCATOR, &source, &["-lrt"]).check();
    let (handled, looped) = (recording.printed("handled"), recording.printed("looped"));
    assert!(handled > 100, "{handled}");
    assert_eq!(recording.allocs(13003).len() as u64, looped);
    assert_eq!(recording.allocs(13001).len() as u64, 3 * handled);
    let frees = recording.events().iter().filter(|event| matches!(event, Event::Free { .. })).count() as u64;
    assert!(frees >= looped + 3 * handled, "{frees}");
}

/// A handler's own stack that is an array of main: its frames lie above those that it interrupted, as after a longjmp.
#[test]
fn a_signal_stack_within_the_stack() {
    let functions = r#"
static void in_handler(void) { for (int i = 0; i < 3; i++) free(malloc(13001)); }
static void in_loop(int i) { (void)i; free(malloc(13003)); for (volatile int pause = 0; pause < 500; pause++) ; }
"#;
    let storm = STORM.replace(
        "struct sigaction act = {.sa_handler = handler};",
        "char own[65536];
    stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
    if (sigaltstack(&stack, 0)) return 2;
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_ONSTACK};",
    );
    assert_ne!(storm, STORM);
    let recording = Bench::new().run_with_allocator(ALLOCATOR, &format!("{storm}{functions}"), &["-lrt"]).check();
    let (handled, looped) = (recording.printed("handled"), recording.printed("looped"));
    assert!(handled > 100, "{handled}");
    assert_eq!(recording.allocs(13003).len() as u64, looped);
    assert_eq!(recording.allocs(13001).len() as u64, 3 * handled);
}

/// Names and phases, in handlers that interrupt them and each other.
#[test]
fn a_storm_of_handlers_that_name_memory() {
    let functions = r#"
#include "numamma.h"
static char memory[4096];
static void in_handler(void) { numamma_label(memory, 16, "in a handler"); numamma_unlabel(memory); numamma_phase("handler"); }
static void in_loop(int i)
{
    (void)i;
    numamma_label(memory + 64, 4000, "a name that is longer than one word");
    numamma_phase("loop");
    numamma_unlabel(memory + 64);
    for (volatile int pause = 0; pause < 500; pause++) ;
}
"#;
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../annotate");
    let recording =
        Bench::new().run_with_allocator(ALLOCATOR, &format!("{STORM}{functions}"), &["-lrt", include]).check();
    let (handled, looped) = (recording.printed("handled"), recording.printed("looped"));
    assert!(handled > 100, "{handled}");
    let count = |is: &dyn Fn(&Event) -> bool| recording.events().iter().filter(|event| is(event)).count() as u64;
    let label = |wanted: &'static str, length: u64| move |event: &Event| matches!(event, Event::Label { bytes, name, .. } if name == wanted.as_bytes() && *bytes == length);
    assert_eq!(count(&label("in a handler", 16)), handled);
    assert_eq!(count(&label("a name that is longer than one word", 4000)), looped);
    assert_eq!(count(&|event| matches!(event, Event::Label { .. })), handled + looped);
    assert_eq!(count(&|event| matches!(event, Event::Unlabel { .. })), handled + looped);
    assert_eq!(count(&|event| matches!(event, Event::Phase { name } if name == b"handler")), handled);
    assert_eq!(count(&|event| matches!(event, Event::Phase { name } if name == b"loop")), looped);
}

/// A thread waits for a ring, and a handler jumps out of that: it can have one later.
#[test]
fn a_handler_that_jumps_out_of_the_search_for_a_ring() {
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf back;
static int end[2], ready[2];
static void handler(int n) { (void)n; siglongjmp(back, 1); }
static void *holds(void *arg) { char c; free(malloc(13021)); if (write(ready[1], "", 1) != 1 || read(end[0], &c, 1) != 1) abort(); return arg; }
int main(void)
{
    pthread_t t;
    char c;
    int status;
    if (pipe(end) || pipe(ready) || pthread_create(&t, 0, holds, 0) || read(ready[0], &c, 1) != 1) return 1;
    if (fork() == 0) { /* both rings are taken */
        struct itimerval once = {{0, 0}, {0, 100000}};
        signal(SIGALRM, handler);
        setitimer(ITIMER_REAL, &once, 0);
        if (sigsetjmp(back, 1) == 0) { free(malloc(13023)); _exit(2); }
        if (write(end[1], "", 1) != 1) _exit(3);
        usleep(300000);
        for (int i = 0; i < 100; i++) free(malloc(13025));
        _exit(0);
    }
    wait(&status);
    pthread_join(t, 0);
    return status != 0;
}
"#;
    let bench = Bench { options: Options { ring_count: 2, ..Options::default() }, ..Bench::new() };
    let recording = bench.run(source, &["-O1"]);
    assert_eq!(recording.exit, Some(0), "{}", recording.errors);
    assert_eq!(recording.allocs(13025).len(), 100);
}

#[test]
fn a_handler_that_jumps_out_does_not_silence_the_thread() {
    let source = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
static sigjmp_buf back;
static volatile int armed;
static volatile long jumps;
static void handler(int n) { (void)n; if (armed) { armed = 0; jumps++; siglongjmp(back, 1); } }
int main(void)
{
    struct itimerval period = {{0, 200}, {0, 200}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &period, 0);
    for (volatile long round = 0; jumps < 2000 && round < 200000; round++) {
        if (sigsetjmp(back, 1) == 0) { armed = 1; for (int i = 0; i < 50; i++) free(malloc(13011)); armed = 0; }
    }
    signal(SIGALRM, SIG_IGN);
    for (int i = 0; i < 100; i++) free(malloc(13013));
    printf("jumps %ld\n", jumps);
    return 0;
}
"#;
    let bench = Bench::new();
    let allocator = bench.compile("liballocator.so", ALLOCATOR, &["-O1", "-shared", "-fPIC"]);
    let path = allocator.display().to_string();
    let recording = bench.run(source, &["-O1", "-Wl,--no-as-needed", &path]);
    assert_eq!((recording.exit, &recording.malformed[..]), (Some(0), &[][..]), "{}", recording.errors);
    assert!(recording.printed("jumps") > 100);
    assert_eq!(recording.allocs(13013).len(), 100);
    assert!(recording.losses().full <= recording.printed("jumps"));
}
