//! Signal handlers that interrupt us.

mod common;

use common::{ALLOCATOR, Bench};
use numamma_wire::Event;

#[test]
fn a_storm_of_handlers_that_allocate() {
    let source = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static volatile long handled, looped; /* a handler may interrupt another */
static void handler(int n) { (void)n; for (int i = 0; i < 3; i++) free(malloc(13001)); __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED); }
int main(void)
{
    /* Several timers with periods that drift against each other and against the loop. */
    struct sigaction act = {.sa_handler = handler};
    for (int i = 0; i < 3; i++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i};
        struct itimerspec period = {{0, 150000 + 1777 * i}, {0, 50000}};
        sigaction(SIGRTMIN + i, &act, 0);
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
        timer_settime(timer, 0, &period, 0);
    }
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        /* The pause keeps a recorder that shares the CPUs with other tests from falling behind. */
        for (int i = 0; i < 100; i++) { free(malloc(13003)); looped++; for (volatile int pause = 0; pause < 500; pause++) ; }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (handled < 5000 && now.tv_sec - begin.tv_sec < 20);
    for (int i = 0; i < 3; i++) signal(SIGRTMIN + i, SIG_IGN);
    printf("handled %ld\nlooped %ld\n", handled, looped);
    return 0;
}
"#;
    let bench = Bench::new();
    let allocator = bench.compile("liballocator.so", ALLOCATOR, &["-O1", "-shared", "-fPIC"]);
    let path = allocator.display().to_string();
    let recording = bench.run(source, &["-O1", "-Wl,--no-as-needed", &path, "-lrt"]).check();
    let (handled, looped) = (recording.printed("handled"), recording.printed("looped"));
    assert!(handled > 100, "{handled}");
    assert_eq!(recording.allocs(13003).len() as u64, looped);
    assert_eq!(recording.allocs(13001).len() as u64, 3 * handled);
    let frees = recording.events().iter().filter(|event| matches!(event, Event::Free { .. })).count() as u64;
    assert!(frees >= looped + 3 * handled, "{frees}");
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
