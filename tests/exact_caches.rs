//! `record --caches`: accesses that reach memory must be those of another model, and those that arithmetic tells.

use std::path::Path;

use numamma_tests::report::Report;
use numamma_tests::{Place, Run, skip};

/// What counts the accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Emulator,
    Hooks,
}

/// True if what a test needs is there.
fn applies(test: &str, tool: &str) -> bool {
    let there = skip::installed(tool);
    if !there {
        skip::missing(test, tool);
    }
    there
}

fn record(place: &Place, caches: &str, command: &[&Path]) -> Report {
    let run = Run::numamma().args(["record", "--sampler", "exact", "--caches", caches, "-o"]).arg(place.dataset());
    let run = run.arg("--").args(command).limit(120).run().success();
    assert_eq!(run.remarks(), "", "{run}");
    let report = Report::of(&place.dataset());
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    report
}

/// Records a C program that prints nothing, by both.
fn each(test: &str, caches: &str, source: &str, check: impl Fn(By, &Report)) {
    for by in [By::Emulator, By::Hooks] {
        let place = Place::together();
        let (tool, flags) = match by {
            By::Emulator => ("qemu-x86_64", &[][..]),
            By::Hooks => ("gcc with -fsanitize=thread", &["-fsanitize=thread"][..]),
        };
        let there = match by {
            By::Emulator => skip::installed(tool),
            By::Hooks => place.try_compile("gcc", "probe", "int main(void) { return 0; }", flags).status.success(),
        };
        if !there {
            skip::missing(test, tool);
            continue;
        }
        let program = place.compile("gcc", "program", source, flags);
        let report = record(&place, caches, &[&program]);
        assert_eq!(report.sampler.hooks, by == By::Hooks);
        check(by, &report);
    }
}

/// Accesses of an object that reach memory.
fn memory(report: &Report, name: &str) -> f64 {
    report.object(name).memory.as_ref().expect("a model was asked for").total
}

#[track_caller]
fn about(by: By, value: f64, expected: f64, more: f64) {
    assert!((expected..=expected + more).contains(&value), "{by:?}: {value}, expected {expected} to {more} more");
}

#[test]
fn a_stream_reaches_memory_once_a_line() {
    // 8 MiB: 131072 lines.
    let source = r"
        #include <stdlib.h>
        enum { N = 1 << 20, PASSES = 3 };
        int main(void) {
            volatile double *a = malloc(N * sizeof *a);
            for (int k = 0; k < PASSES; k++) for (long i = 0; i < N; i++) a[i] = k;
            return 0;
        }";
    let test = "a_stream_reaches_memory_once_a_line";
    each(test, "l1=32K:8,l2=256K:8,llc=1M:16", source, |by, report| {
        about(by, memory(report, "a"), 3.0 * 131_072.0, 8.0);
        let of = report.object("a").memory.clone().expect("known");
        assert_eq!((of.writes, of.total), (of.total, of.reads + of.writes));
        assert!(of.share > 0.9 && report.threads[0].memory >= Some(of.total), "{of:?} {:?}", report.threads);
        let caches = report.sampler.caches.as_deref();
        assert_eq!(caches, Some("l1=32K:8,l2=256K:8,llc=1M:16,line=64,prefetch=none,sockets=1"));
    });
    // All but the first line of a page was there before it was asked for.
    for kind in ["next", "stride"] {
        each(test, &format!("l1=32K:8,l2=256K:8,llc=1M:16,prefetch={kind}"), source, |by, report| {
            let pages = 3.0 * 2048.0;
            about(by, memory(report, "a"), pages, if kind == "next" { 8.0 } else { 2.1 * pages });
        });
    }
}

#[test]
fn what_fits_is_missed_once_and_what_is_a_way_too_large_always() {
    let source = |kib: u32| {
        format!(
            r"
        static volatile char a[{kib} << 10] __attribute__((aligned(4096)));
        int main(void) {{
            for (int k = 0; k < 50; k++) for (long i = 0; i < sizeof a; i += 64) a[i];
            return 0;
        }}"
        )
    };
    let test = "what_fits_is_missed_once_and_what_is_a_way_too_large_always";
    // 256 sets of 4 ways: some are taken by the stack now and then.
    each(test, "llc=64K:4", &source(32), |by, report| about(by, memory(report, "a"), 512.0, 30.0));
    // Five lines for each set in turn: the one that comes next has just gone.
    each(test, "llc=64K:4", &source(80), |by, report| about(by, memory(report, "a"), 50.0 * 1280.0, 0.0));
    // With more ways in front they fit.
    each(test, "l1=32K:8,l2=128K:8,llc=64K:4", &source(80), |by, report| about(by, memory(report, "a"), 1280.0, 40.0));
}

/// Two threads write to a line in turns.
#[test]
fn a_line_goes_from_socket_to_socket() {
    const TURNS: f64 = 2000.0;
    let source = r"
        #include <pthread.h>
        #include <stdatomic.h>
        enum { TURNS = 2000 };
        static _Atomic int turn __attribute__((aligned(4096)));
        static volatile int line[1024] __attribute__((aligned(4096)));
        static volatile int own[2][1024] __attribute__((aligned(4096)));
        static void *play(void *p) {
            int me = (int)(long)p;
            for (int i = 0; i < TURNS; i++) {
                while (atomic_load(&turn) % 2 != me) ;
                for (int k = 0; k < 10; k++) { line[0]++; own[me][0]++; }
                atomic_fetch_add(&turn, 1);
            }
            return 0;
        }
        int main(void) {
            pthread_t t[2];
            for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, play, (void *)i);
            for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
            return 0;
        }";
    let test = "a_line_goes_from_socket_to_socket";
    let caches = "l1=32K:8,l2=256K:8,llc=1M:16";
    each(test, caches, source, |by, report| {
        about(by, memory(report, "line"), 1.0, 1.0);
        about(by, memory(report, "own"), 2.0, 2.0);
    });
    each(test, &format!("{caches},sockets=2"), source, |by, report| {
        // The main thread is on the first socket, and the second player with it.
        about(by, memory(report, "line"), 2.0 * TURNS, 4.0);
        about(by, memory(report, "own"), 2.0, 4.0);
    });
}

/// Threads that come and go, share lines, fork and execute: the counts stay what they are.
#[test]
fn threads_and_forks_are_counted_as_without_a_model() {
    let source = r"
        #include <pthread.h>
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/time.h>
        #include <sys/wait.h>
        #include <unistd.h>
        enum { THREADS = 6, ROUNDS = 30, N = 20000 };
        static volatile int shared[N], mine[THREADS][N];
        static volatile sig_atomic_t ticks;
        static void tick(int s) { (void)s; ticks++; shared[0]; }
        static void *work(void *p) {
            long t = (long)p;
            for (int i = 0; i < N; i++) { mine[t][i] = i; shared[i]; }
            return 0;
        }
        int main(void) {
            struct sigaction act = {.sa_handler = tick, .sa_flags = SA_RESTART};
            sigaction(SIGALRM, &act, 0);
            struct itimerval often = {{0, 2000}, {0, 2000}};
            setitimer(ITIMER_REAL, &often, 0);
            for (int r = 0; r < ROUNDS; r++) {
                pthread_t t[THREADS];
                for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)i);
                if (r % 5 == 0) {
                    pid_t child = fork();
                    if (child == 0) { work((void *)0); _exit(3); }
                    int status;
                    while (waitpid(child, &status, 0) < 0) ;
                    if (WEXITSTATUS(status) != 3) return 1;
                }
                for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
            }
            return 0;
        }";
    each(
        "threads_and_forks_are_counted_as_without_a_model",
        "l1=4K:4,l2=16K:4,llc=64K:8,sockets=2,prefetch=stride",
        source,
        |by, report| {
            let runs = 6.0 * 30.0 + 6.0;
            assert_eq!(report.accesses_of("mine"), (0.0, runs * 20_000.0), "{by:?}");
            let (reads, writes) = report.accesses_of("shared");
            assert!(reads >= runs * 20_000.0 && writes == 0.0, "{by:?}: {reads} {writes}");
            let of = report.object("mine").memory.clone().expect("known");
            assert!(of.total > 0.0 && of.total <= runs * 20_000.0, "{by:?}: {of:?}");
        },
    );
}

/// A vector and a repeated instruction are one access each, of one line or two.
#[test]
fn wide_accesses_reach_memory_once() {
    if !applies("wide_accesses_reach_memory_once", "qemu-x86_64") {
        return;
    }
    let source = r#"
        #include <immintrin.h>
        enum { BYTES = 1 << 20 };
        static char from[BYTES + 64] __attribute__((aligned(4096))), to[BYTES + 64] __attribute__((aligned(4096)));
        static char filled[BYTES] __attribute__((aligned(4096)));
        int main(void) {
            for (int i = 0; i < BYTES; i += 32)
                _mm256_storeu_si256((__m256i *)(to + 8 + i), _mm256_loadu_si256((__m256i *)(from + 8 + i)));
            void *at = filled; long n = BYTES / 8;
            __asm__ volatile("rep stosq" : "+D"(at), "+c"(n) : "a"(1) : "memory");
            return to[100];
        }"#;
    let place = Place::together();
    let program = place.compile("gcc", "program", source, &["-mavx2"]);
    let report = record(&place, "l1=32K:8,llc=256K:8", &[&program]);
    let lines = f64::from(1 << 14);
    about(By::Emulator, memory(&report, "from"), lines + 1.0, 0.0);
    about(By::Emulator, memory(&report, "to"), lines + 1.0, 1.0);
    about(By::Emulator, memory(&report, "filled"), lines, 0.0);
    assert_eq!(report.accesses_of("filled"), (0.0, 2.0 * lines));
}

/// Valgrind's model has L1 and a last level, neither of which holds the other's lines back: as ours without an L2.
#[test]
fn another_model_counts_as_many() {
    let test = "another_model_counts_as_many";
    if !applies(test, "qemu-x86_64") || !applies(test, "valgrind") {
        return;
    }
    let place = Place::together();
    let triad = r"
        #include <stdlib.h>
        enum { N = 200000 };
        int main(void) {
            double *a = malloc(N * 8), *b = malloc(N * 8), *c = malloc(N * 8);
            for (long i = 0; i < N; i++) { b[i] = i; c[i] = 1; }
            for (int k = 0; k < 3; k++) for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i];
            return a[17] < 0;
        }";
    let chase = r"
        #include <stdlib.h>
        enum { N = 1 << 16 };
        struct node { struct node *next; long pad[7]; };
        int main(void) {
            struct node *n = aligned_alloc(64, N * sizeof *n);
            unsigned *order = malloc(N * 4), s = 1;
            for (unsigned i = 0; i < N; i++) order[i] = i;
            for (unsigned i = N - 1; i > 0; i--) {
                s = s * 1664525 + 1013904223;
                unsigned j = s % (i + 1), t = order[i];
                order[i] = order[j]; order[j] = t;
            }
            for (unsigned i = 0; i < N; i++) n[order[i]].next = &n[order[(i + 1) % N]];
            struct node *at = n;
            for (int i = 0; i < 300000; i++) at = at->next;
            return at == 0;
        }";
    let gather = r"
        #include <stdlib.h>
        enum { N = 1 << 19 };
        int main(void) {
            int *from = malloc(N * 4);
            unsigned s = 7;
            long sum = 0;
            for (int i = 0; i < N; i++) from[i] = i;
            for (int i = 0; i < 400000; i++) { s = s * 1664525 + 1013904223; sum += from[s >> 13]; }
            return sum == 1;
        }";
    let matmul = r"
        #include <stdlib.h>
        enum { N = 256 };
        int main(void) {
            double *a = malloc(N * N * 8), *b = malloc(N * N * 8), *c = calloc(N * N, 8);
            for (int i = 0; i < N * N; i++) { a[i] = i; b[i] = 1; }
            for (int i = 0; i < N; i++)
                for (int j = 0; j < 24; j++) {
                    double s = 0;
                    for (int k = 0; k < N; k++) s += a[i * N + k] * b[k * N + j];
                    c[i * N + j] = s;
                }
            return c[5] < 0;
        }";
    let text: String = (0..40_000).map(|n| format!("{n} line of text\n")).collect();
    let file = place.path("lines");
    std::fs::write(&file, text).expect("a file");
    for (name, source) in [("triad", triad), ("chase", chase), ("gather", gather), ("matmul", matmul)] {
        let program = place.compile("gcc", name, source, &[]);
        compared(name, &[&program]);
    }
    compared("gzip", &[Path::new("gzip"), Path::new("-kfc"), &file]);
    compared("sort", &[Path::new("sort"), Path::new("-r"), &file]);
}

/// What each counts in one program, and how far they may be apart.
fn compared(name: &str, command: &[&Path]) {
    const CLOSE: f64 = 0.02;
    let place = Place::together();
    let model = ["--D1=32768,8,64", "--I1=32768,8,64", "--LL=1048576,16,64", "--cache-sim=yes"];
    let run = Run::new("valgrind").args(["--tool=cachegrind", "--cachegrind-out-file=/dev/null"]).args(model);
    let theirs = run.args(command).limit(300).run();
    let missed = theirs.err();
    let line = missed.lines().find(|line| line.contains("LLd misses:")).unwrap_or_else(|| panic!("{theirs}"));
    let number = line.split(':').nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    let theirs: f64 = number.replace(',', "").parse().unwrap_or_else(|_| panic!("{line}"));

    let run = Run::numamma().args(["record", "--sampler", "exact", "--caches", "l1=32K:8,llc=1M:16", "-o"]);
    let run = run.arg(place.dataset()).arg("--").args(command).limit(300).run();
    let report = Report::of(&place.dataset());
    let ours: f64 = report.objects.iter().filter_map(|object| object.memory.as_ref()).map(|of| of.total).sum();
    assert!((ours / theirs - 1.0).abs() < CLOSE, "{name}: {ours}, by valgrind {theirs}; {run}");
    println!("{name}: {ours} of {theirs} ({:+.2} %)", 100.0 * (ours / theirs - 1.0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |options: &[&str], word| {
        Run::numamma().arg("record").args(options).args(["--", "true"]).run().exits(125).fails_clearly(&[word]);
    };
    refused(&["--caches", "auto"], "--sampler exact");
    refused(&["--sampler", "exact", "--caches", "l1=32K:8"], "llc=SIZE:WAYS");
    refused(&["--sampler", "exact", "--caches", "llc=1M:100"], "ways");
}

#[test]
fn this_machine_has_caches() {
    if !applies("this_machine_has_caches", "qemu-x86_64")
        || !Path::new("/sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity").exists()
    {
        return;
    }
    let place = Place::together();
    let program = place.compile("gcc", "program", "int main(void) { return 0; }", &[]);
    let report = record(&place, "auto", &[&program]);
    assert!(report.sampler.caches.is_some_and(|caches| caches.contains("llc=")));
    let text = Run::numamma().args(["report", "--sort", "memory"]).arg(place.dataset()).run().success().out();
    assert!(text.contains("Memory") && text.contains("memory behind"), "{text}");
    // Without a model nobody knows.
    let without = Place::together();
    Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(without.dataset()).arg(&program).run().success();
    assert!(Report::of(&without.dataset()).objects.iter().all(|object| object.memory.is_none()));
    let refused = Run::numamma().args(["report", "--sort", "memory"]).arg(without.dataset()).run();
    refused.exits(125).fails_clearly(&["--caches"]);
}
