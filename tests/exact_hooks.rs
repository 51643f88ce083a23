//! `--sampler exact` where the program tells of its accesses by itself (`-fsanitize=thread`): counts must be those of its loops, and its
//! behaviour that of a program without.

use std::path::{Path, PathBuf};

use numamma_tests::report::Report;
use numamma_tests::{Place, Run, addresses, build, skip, traces};

const FLAG: &str = "-fsanitize=thread";

/// True if gcc has what such programs are linked with.
fn applies(test: &str) -> bool {
    let place = Place::together();
    let there = skip::installed("gcc")
        && place.try_compile("gcc", "probe", "int x; int main(void) { return x; }", &[FLAG]).status.success();
    if !there {
        skip::missing(test, "gcc with -fsanitize=thread");
    }
    there
}

fn exact(place: &Place) -> Run {
    // Nothing here may fall back on the emulator: it would be found by PATH.
    Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset()).arg("--").limit(120)
}

/// Records a program natively: what it printed, and the report.
#[track_caller]
fn recorded(place: &Place, program: &Path) -> (String, Report) {
    let run = exact(place).arg(program).env("PATH", "/nonexistent").run().success();
    assert_eq!(run.remarks(), "", "{run}");
    let report = Report::of(&place.dataset());
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    assert!(report.sampler.hooks && report.sampler.kind == "exact");
    (run.out(), report)
}

#[track_caller]
fn record(compiler: &str, source: &str, flags: &[&str]) -> (Place, String, Report) {
    let place = Place::together();
    let flags: Vec<&str> = [FLAG].into_iter().chain(flags.iter().copied()).collect();
    let program = place.compile(compiler, "program", source, &flags);
    let (out, report) = recorded(&place, &program);
    (place, out, report)
}

/// A program and its library, whose accesses are known.
const LOOPS: &str = r"
    #include <stdlib.h>
    enum { N = 50000, PASSES = 20 };
    static int table[1000];
    static char letters[3000];
    struct __attribute__((packed)) odd { char c; int x; };
    static struct odd odds[1000];
    int main(void) {
        double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = malloc(N * sizeof *c);
        for (long i = 0; i < N; i++) { b[i] = i; c[i] = 1; }
        for (int k = 0; k < PASSES; k++)
            for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i];
        for (int i = 0; i < 1000; i++) table[i] += i;
        for (int i = 0; i < 3000; i++) letters[i] = i;
        for (int i = 0; i < 1000; i++) odds[i].x = table[i];
        volatile double sink = a[17] + letters[5] + odds[3].x;
        return sink < 0;
    }";

#[track_caller]
fn loops_are_counted(report: &Report) {
    assert_eq!(report.accesses_of("a"), (1.0, 1_000_000.0));
    assert_eq!(report.accesses_of("b"), (1_000_000.0, 50_000.0));
    assert_eq!(report.accesses_of("c"), (1_000_000.0, 50_000.0));
    assert_eq!(report.accesses_of("table"), (2_000.0, 1_000.0));
    assert_eq!(report.accesses_of("letters"), (1.0, 3_000.0));
    assert_eq!(report.accesses_of("odds"), (1.0, 1_000.0));
}

#[test]
fn counts_are_those_of_the_loops() {
    if !applies("counts_are_those_of_the_loops") {
        return;
    }
    let (place, _, report) = record("gcc", LOOPS, &[]);
    loops_are_counted(&report);
    let samples = &report.samples;
    assert_eq!(samples.recorded, samples.attributed + samples.unattributed.values().sum::<u64>());
    let table = Report::object_of(&place.dataset(), "a").page_table.expect("its pages");
    assert_eq!((table.len(), table.iter().map(|page| page.samples).sum::<u64>()), (98, 1_000_001));
    // First touches are the kernel's, with their lines; the allocator has touched the first page.
    let touched = report.object("a").first_touch.iter().filter(|touch| touch.line == 12).map(|touch| touch.pages);
    assert_eq!(touched.sum::<u64>(), 97);
    let text = Run::numamma().arg("report").arg(place.dataset()).run().success().out();
    assert!(text.contains("counted by the program's own hooks"), "{text}");
}

/// Objects by clang, which calls other functions, linked as it is said; and a runtime of another version.
#[test]
fn objects_of_clang_are_linked_with_the_library() {
    if !applies("objects_of_clang_are_linked_with_the_library") || !skip::installed("clang") {
        return;
    }
    let place = Place::together();
    // Else it leaves out the read where a write follows.
    let objects =
        place.compile("clang", "loops.o", LOOPS, &[FLAG, "-c", "-mllvm", "-tsan-instrument-read-before-write"]);
    let program = place.path("program");
    Run::new("gcc").arg(&objects).args(["-ltsan", "-o"]).arg(&program).run().success();
    loops_are_counted(&recorded(&place, &program).1);
    // Its own way of linking leaves nothing to replace.
    let own = Place::together();
    let bound = own.compile("clang", "bound", LOOPS, &[FLAG]);
    exact(&own).arg(&bound).run().exits(125).fails_clearly(&["--sampler exact", "-ltsan"]);
    assert!(!own.dataset().exists());
}

/// The hooks are in a library that comes with the program, or by dlopen.
#[test]
fn libraries_have_hooks_of_their_own() {
    if !applies("libraries_have_hooks_of_their_own") {
        return;
    }
    let place = Place::together();
    let library = r"
        static int numbers[1000];
        __attribute__((constructor)) static void first(void) { numbers[0]++; }
        int use(int n) { int sum = 0; for (int k = 0; k < n; k++) for (int i = 0; i < 1000; i++) sum += numbers[i]; return sum; }";
    place.compile("gcc", "libnumbers.so", library, &["-fPIC", "-shared", FLAG]);
    place.compile("gcc", "liblate.so", &library.replace("numbers", "late"), &["-fPIC", "-shared", FLAG]);
    let source = r#"
        #include <dlfcn.h>
        #include <stddef.h>
        int use(int n);
        int main(int argc, char **argv) {
            (void)argc;
            char path[4096]; size_t end = 0, slash = 0;
            for (; argv[0][end]; end++) { path[end] = argv[0][end]; if (path[end] == '/') slash = end; }
            const char *name = "liblate.so";
            for (size_t i = 0; i <= 10; i++) path[slash + 1 + i] = name[i];
            void *late = dlopen(path, RTLD_NOW);
            int (*other)(int) = (int (*)(int))dlsym(late, "use");
            if (use(5) + other(7) != 12) return 1;
            dlclose(late);
            use(1);
            return 0;
        }"#;
    let folder = format!("-L{}", place.dir().display());
    let program = place.compile("gcc", "program", source, &[&folder, "-lnumbers", "-Wl,-rpath,$ORIGIN", "-ldl"]);
    let (_, report) = recorded(&place, &program);
    assert_eq!(report.accesses_of("numbers"), (6_001.0, 1.0));
    assert_eq!(report.accesses_of("late"), (7_001.0, 1.0));
}

#[test]
fn an_address_that_is_used_again_is_another_object() {
    if !applies("an_address_that_is_used_again_is_another_object") {
        return;
    }
    let (_place, _, report) = record("gcc", addresses::PROGRAM, addresses::FLAGS);
    addresses::counted(&report);
}

#[test]
fn atomics_are_made_and_counted() {
    if !applies("atomics_are_made_and_counted") || !skip::installed("g++") {
        return;
    }
    // What they return is checked as well as what they leave.
    let source = r#"
        #include <atomic>
        #include <cerrno>
        #include <cstdint>
        #include <cstdio>
        #include <thread>
        #include <vector>
        template <class T> struct alignas(8) Counter { std::atomic<T> value; }; // words of four bytes are told apart
        static Counter<uint8_t> c8; static Counter<uint16_t> c16; static Counter<uint32_t> c32; static Counter<uint64_t> c64;
        static std::atomic<bool> flag; static long plain;
        template <class T> int all(std::atomic<T> &x) {
            const auto relaxed = std::memory_order_relaxed;
            int wrong = 0;
            x.store(10, relaxed); x.store(11, std::memory_order_release); x.store(12);            // 3 writes
            wrong += x.load(std::memory_order_acquire) != 12;                                     // 1 read
            wrong += x.exchange(20, std::memory_order_acq_rel) != 12;                             // from here on both
            wrong += x.fetch_add(5, relaxed) != 20;
            wrong += x.fetch_sub(1) != 25;
            wrong += x.fetch_and(0x1c) != 24;
            wrong += x.fetch_or(3) != 24;
            wrong += x.fetch_xor(1) != 27;
            T expected = 1;
            wrong += x.compare_exchange_strong(expected, 7) || expected != 26;
            wrong += !x.compare_exchange_strong(expected, 7) || expected != 26;
            wrong += !x.compare_exchange_weak(expected = 7, 8);
            wrong += __atomic_fetch_nand((T *)&x, 12, __ATOMIC_SEQ_CST) != 8;
            wrong += x.load() != (T)~8;                                                           // 1 read
            return wrong;
        }
        int main() {
            errno = 77;
            int wrong = all(c8.value) + all(c16.value) + all(c32.value) + all(c64.value);
            wrong += errno != 77;
            c64.value = 0;
            // Message passing and mutual exclusion: 200000 increments by four threads behind a lock of atomics.
            std::vector<std::thread> threads;
            for (int t = 0; t < 4; t++) threads.emplace_back([] {
                for (int k = 0; k < 50000; k++) {
                    while (flag.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
                    plain++;
                    std::atomic_thread_fence(std::memory_order_seq_cst);
                    flag.store(false, std::memory_order_release);
                    c64.value.fetch_add(1, std::memory_order_relaxed);
                }
            });
            for (auto &thread : threads) thread.join();
            std::printf("%d %ld %ld\n", wrong, plain, (long)c64.value.load());
        }"#;
    for compiler in ["g++", "clang++"] {
        if !skip::installed(compiler) {
            continue;
        }
        let place = Place::together();
        let more: &[&str] = if compiler == "g++" { &[] } else { &["-mllvm", "-tsan-instrument-read-before-write"] };
        let objects = place.compile(compiler, "atomics.o", source, &[&[FLAG, "-c", "-std=c++17"], more].concat());
        let program = place.path("program");
        Run::new("g++").arg(&objects).args(["-ltsan", "-o"]).arg(&program).run().success();
        let (out, report) = recorded(&place, &program);
        assert_eq!(out, "0 200000 200000\n", "{compiler}");
        for name in ["c8", "c16", "c32"] {
            assert_eq!(report.accesses_of(name), (12.0, 13.0), "{compiler} {name}");
        }
        // The last load, the store of 0, and what the threads do.
        assert_eq!(report.accesses_of("c64"), (12.0 + 1.0 + 200_000.0, 13.0 + 1.0 + 200_000.0), "{compiler}");
        assert_eq!(report.accesses_of("plain"), (200_001.0, 200_000.0), "{compiler}");
    }
}

#[test]
fn children_are_counted_and_the_end_is_not_lost() {
    if !applies("children_are_counted_and_the_end_is_not_lost") {
        return;
    }
    // By fork, by clone alone, by vfork and exec; ends by _exit, by a signal of its own, by a destructor.
    let source = r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int inherited[1000], cloned[1000], own[1000], last[1000], killed[1000];
        __attribute__((destructor)) static void at_end(void) { for (int i = 0; i < 1000; i++) last[i] = i; }
        int main(int argc, char **argv) {
            if (argc > 1) { for (int i = 0; i < 1000; i++) own[i] = i; return 0; }
            for (int i = 0; i < 1000; i++) inherited[i] = i;
            if (fork() == 0) { for (int k = 0; k < 3; k++) for (int i = 0; i < 1000; i++) inherited[i]; _exit(0); }
            wait(0);
            if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) { for (int i = 0; i < 1000; i++) cloned[i] = i; _exit(0); }
            wait(0);
            if (fork() == 0) { for (int i = 0; i < 1000; i++) killed[i] = i; raise(SIGTERM); }
            wait(0);
            if (vfork() == 0) execl(argv[0], argv[0], "again", (char *)0);
            wait(0);
            if (vfork() == 0) _exit(0);
            wait(0);
            for (int i = 0; i < 1000; i++) own[i] = i;
            return 0;
        }"#;
    let (_place, _, report) = record("gcc", source, &[]);
    assert_eq!(report.accesses_of("inherited"), (3_000.0, 1_000.0));
    assert_eq!(report.accesses_of("cloned"), (0.0, 1_000.0));
    assert_eq!(report.accesses_of("killed"), (0.0, 1_000.0));
    assert_eq!(report.accesses_of("own"), (0.0, 2_000.0));
    assert_eq!(report.accesses_of("last"), (0.0, 2_000.0));
    assert!(report.processes.iter().all(|process| process.command.ends_with("/program")), "{:?}", report.processes);
}

/// More than there are slots for anything; all end, some by pthread_exit.
#[test]
fn many_threads_are_counted() {
    if !applies("many_threads_are_counted") {
        return;
    }
    let source = r"
        #include <pthread.h>
        enum { THREADS = 1200, N = 64 };
        static long numbers[THREADS][N]; static pthread_barrier_t all;
        static void *run(void *p) {
            long *own = p;
            pthread_barrier_wait(&all);
            for (int k = 0; k < 10; k++) for (int i = 0; i < N; i++) own[i]++;
            pthread_barrier_wait(&all);
            if (own[0] % 2) return 0;
            pthread_exit(0);
        }
        int main(void) {
            static pthread_t t[THREADS];
            pthread_attr_t attributes; pthread_attr_init(&attributes); pthread_attr_setstacksize(&attributes, 64 << 10);
            pthread_barrier_init(&all, 0, THREADS);
            for (int i = 0; i < THREADS; i++) if (pthread_create(&t[i], &attributes, run, numbers[i])) return 2;
            for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
            return 0;
        }";
    let (_place, _, report) = record("gcc", source, &[]);
    let per_thread = 10.0 * 64.0;
    assert_eq!(report.accesses_of("numbers"), (1_200.0 * (per_thread + 1.0), 1_200.0 * per_thread));
    assert_eq!(report.run.threads, 1_201);
}

/// Handlers come in at any instruction of ours; some leave by longjmp.
#[test]
fn handlers_are_counted_wherever_they_come() {
    if !applies("handlers_are_counted_wherever_they_come") {
        return;
    }
    let source = r#"
        #define _GNU_SOURCE
        #include <setjmp.h>
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/time.h>
        enum { PAGES = 5000, EACH = 512 };
        static long handled[4096 / sizeof(long)]; static volatile sig_atomic_t times; static sigjmp_buf back;
        static long jumped;
        static void count(int signal) {
            (void)signal;
            for (int i = 0; i < 10; i++) handled[(times * 10 + i) % 512]++;
            times++;
            if (times % 50 == 0) siglongjmp(back, 1);
        }
        int main(void) {
            volatile long rounds = 0;
            volatile long *a = malloc(PAGES * 4096L);
            struct sigaction action = {.sa_handler = count};
            sigaction(SIGALRM, &action, 0);
            struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
            for (int k = 0; k < 40; k++) {
                if (sigsetjmp(back, 1) == 0) {
                    setitimer(ITIMER_REAL, &every, 0);
                    for (;;) for (long p = 0; p < PAGES; p++) { a[p * EACH + rounds % EACH]++; rounds++; }
                }
                jumped++;
            }
            setitimer(ITIMER_REAL, &never, 0);
            printf("%ld %ld %ld\n", (long)times, rounds, jumped);
            return 0;
        }"#;
    let (_place, out, report) = record("gcc", source, &[]);
    let numbers: Vec<f64> = out.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [times, rounds, jumped] = numbers[..] else { panic!("{out}") };
    assert_eq!(jumped, 40.0);
    assert_eq!(report.accesses_of("handled"), (10.0 * times, 10.0 * times));
    // A handler that leaves may come between the count and the access, and between the access and its round.
    let (reads, writes) = report.accesses_of("a");
    assert!(
        (reads - rounds).abs() <= 2.0 * jumped && (writes - rounds).abs() <= 2.0 * jumped,
        "{out}: {reads} {writes}"
    );
}

/// What has no hooks goes over to the emulator; what has goes on natively, whoever executes it.
#[test]
fn programs_with_and_without_hooks_execute_each_other() {
    if !applies("programs_with_and_without_hooks_execute_each_other") || !skip::installed("qemu-x86_64") {
        return;
    }
    let source = r#"
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int NUMBERS[1000];
        int main(int argc, char **argv) {
            for (int k = 0; k < TIMES; k++) for (int i = 0; i < 1000; i++) NUMBERS[i] = i;
            if (argc > 1 && fork() == 0) { execv(argv[1], argv + 1); _exit(1); }
            wait(0);
            return 0;
        }"#;
    let place = Place::together();
    let with = place.compile("gcc", "with", source, &[FLAG, "-DNUMBERS=hooked", "-DTIMES=3"]);
    let without = place.compile("gcc", "without", source, &["-DNUMBERS=emulated", "-DTIMES=5"]);
    for [first, second] in [[&with, &without], [&without, &with]] {
        let place = Place::together();
        exact(&place).arg(first).arg(second).run().success();
        let report = Report::of(&place.dataset());
        assert!(report.losses.is_empty() && report.sampler.hooks, "{:?}", report.losses);
        assert_eq!(report.accesses_of("hooked"), (0.0, 3_000.0));
        assert_eq!(report.accesses_of("emulated"), (0.0, 5_000.0));
    }
}

/// A program that forbids itself system calls lives on, and what it had accessed until then is known.
#[test]
fn a_sandbox_is_left_alone() {
    if !applies("a_sandbox_is_left_alone") {
        return;
    }
    let source = r"
        #include <linux/seccomp.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static int before[1000], after[4096 * 100];
        int main(void) {
            for (int i = 0; i < 1000; i++) before[i] = i;
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)) return 2;
            for (int i = 0; i < 4096 * 100; i++) after[i] = before[i % 1000];
            syscall(SYS_exit, 0);
        }";
    let place = Place::together();
    let program = place.compile("gcc", "program", source, &[FLAG]);
    exact(&place).arg(&program).env("PATH", "/nonexistent").run().success();
    let report = Report::of(&place.dataset());
    assert_eq!(report.accesses_of("before"), (0.0, 1_000.0));
    assert!(report.lost("confined") > 0, "{:?}", report.losses);
}

fn workload(place: &Place, name: &str, flags: &[&str]) -> PathBuf {
    let source = build::root().join("workloads").join(format!("{name}.c"));
    let program = place.path(&flags.concat().replace('/', ""));
    Run::new("gcc").args(["-O1", "-g", "-fopenmp", "-o"]).arg(&program).arg(source).args(flags).run().success();
    program
}

/// OpenMP: each pass as often as the emulator counts it in the same source without the hooks.
#[test]
fn workloads_are_counted_as_by_the_emulator() {
    if !applies("workloads_are_counted_as_by_the_emulator") || !skip::installed("qemu-x86_64") {
        return;
    }
    for (name, objects, elements) in [("triad", ["b", "c"], 2 << 20), ("gather", ["table", "index"], 1 << 20)] {
        let mut of = Vec::new();
        for flags in [&[FLAG][..], &["-DPLAIN"]] {
            let place = Place::together();
            let program = workload(&place, name, flags);
            exact(&place).arg(&program).arg("0.3").env("OMP_NUM_THREADS", "2").run().success();
            let report = Report::of(&place.dataset());
            assert_eq!(report.sampler.hooks, flags == [FLAG]);
            let [(first, written), (second, also)] = objects.map(|object| report.accesses_of(object));
            // So many passes, whole ones, over both.
            assert_eq!((first, first % f64::from(elements)), (second, 0.0), "{name}");
            assert!(first > 0.0);
            of.push((written, also));
        }
        assert_eq!(of[0], of[1], "{name}: what is written before, by hooks and in the emulator");
    }
}

#[test]
fn a_trace_has_every_access_in_order() {
    if !applies("a_trace_has_every_access_in_order") {
        return;
    }
    let place = Place::together();
    let program = place.compile("gcc", "program", traces::PROGRAM, &[FLAG, "-O1", "-pthread"]);
    let run = Run::numamma().args(["record", "--sampler", "exact", "--trace", "-o"]).arg(place.dataset()).arg("--");
    let run = run.arg(&program).limit(120).env("PATH", "/nonexistent").run().success();
    assert_eq!(run.remarks(), "", "{run}");
    traces::are_those_of_the_program(&place);
}

/// Accesses of a handler that comes while another access is told of.
#[test]
fn a_trace_has_what_handlers_access() {
    if !applies("a_trace_has_what_handlers_access") {
        return;
    }
    let source = r"
        #include <signal.h>
        #include <sys/time.h>
        enum { N = 200000 };
        static volatile long numbers[N]; static volatile long ticks[1];
        static volatile sig_atomic_t handled;
        static void handle(int s) { (void)s; ticks[0] = ticks[0] + 1; handled++; }
        int main(void) {
            struct sigaction act = {.sa_handler = handle};
            sigaction(SIGALRM, &act, 0);
            struct itimerval t = {{0, 500}, {0, 500}};
            setitimer(ITIMER_REAL, &t, 0);
            for (int i = 0; i < N; i++) numbers[i] = i;
            t.it_value.tv_usec = t.it_interval.tv_usec = 0;
            setitimer(ITIMER_REAL, &t, 0);
            return handled == ticks[0] ? 0 : 3;
        }";
    let place = Place::together();
    let program = place.compile("gcc", "program", source, &[FLAG]);
    let run = Run::numamma().args(["record", "--sampler", "exact", "--trace=10000000", "-o"]).arg(place.dataset());
    run.arg("--").arg(&program).limit(120).env("PATH", "/nonexistent").run().success();
    let numbers = traces::of_object(&place, "numbers", |object| object.name == "numbers");
    assert_eq!(numbers, (0..200_000).map(|i| (0, 8 * i, 8, true)).collect::<Vec<_>>());
    let ticks = traces::of_object(&place, "ticks", |object| object.name == "ticks");
    // Each tick reads and writes it, and the end reads it.
    let (report, writes) = (Report::of(&place.dataset()), ticks.iter().filter(|(.., write)| *write).count());
    assert!(writes > 10 && ticks.len() == 2 * writes + 1, "{writes} {}", ticks.len());
    assert_eq!(report.accesses_of("ticks"), (writes as f64 + 1.0, writes as f64));
}

/// The child goes on where the handler came in: anywhere, also where an access is counted.
#[test]
fn a_handler_may_fork() {
    if !applies("a_handler_may_fork") {
        return;
    }
    let source = r"
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/time.h>
        #include <sys/wait.h>
        #include <unistd.h>
        enum { N = 1 << 22 };
        static volatile long numbers[N], last[1];
        static volatile pid_t parent; static volatile int forks, bad;
        static void handle(int s) {
            (void)s;
            if (forks++ >= 150) return;
            pid_t child = fork();
            if (child == 0) return;
            int status = 0;
            while (waitpid(child, &status, 0) < 0) ;
            bad |= status;
        }
        int main(void) {
            parent = getpid();
            struct sigaction act = {.sa_handler = handle, .sa_flags = SA_RESTART};
            sigaction(SIGALRM, &act, 0);
            struct itimerval t = {{0, 1000}, {0, 1000}};
            setitimer(ITIMER_REAL, &t, 0);
            for (int k = 0; parent == getpid() && forks < 150 && k < 10000; k++)
                for (long i = 0; i < N && forks < 150; i += 512) numbers[i + k % 512] = i;
            if (parent != getpid()) { for (int i = 0; i < 1000; i++) last[0] = i; _exit(0); }
            return bad ? 3 : 0;
        }";
    let place = Place::together();
    let program = place.compile("gcc", "program", source, &[FLAG]);
    // Signals come in most often where they are let in, and that is twice for each access that is traced.
    let run = Run::numamma().args(["record", "--sampler", "exact", "--trace=100000000", "-o"]).arg(place.dataset());
    run.arg("--").arg(&program).limit(240).env("PATH", "/nonexistent").run().success();
    let report = Report::of(&place.dataset());
    // Each child makes its own thousand, and is counted.
    assert!(report.run.threads > 50, "{}", report.run.threads);
    let children = report.run.threads as f64 - 1.0;
    assert_eq!(report.accesses_of("last"), (0.0, children * 1000.0));
}
