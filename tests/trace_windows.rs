//! `record --windows`: counts where no loop has a counter, and a program that does not notice.

use numamma_tests::report::Report;
use numamma_tests::{Place, Run};
use numamma_trace::{Access, BasisRow, Dataset, ObjectRow, Rule, SampleRow};

/// Walks that end when they end: no loop has a counter that moves in steps. Slow steps through `far`, which is large, take turns with quick
/// ones through `near`. The program knows how often it read which, and says so.
const WALKS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    enum { FAR = 1 << 22, NEAR = 1 << 8 };
    static unsigned *far, *near;
    static unsigned long of_far, of_near;
    static unsigned long state = 88172645463325252;
    static unsigned next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state >> 20; }
    __attribute__((noinline)) static unsigned walk(volatile unsigned *of, unsigned at, unsigned mask, unsigned long *count) {
        unsigned long steps = 0;
        do { at = of[at & mask] ^ (at >> 3); steps++; } while (at % 7 != 3);
        *count += steps;
        return at;
    }
    static double cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
    int main(void) {
        far = malloc(FAR * sizeof *far); near = malloc(NEAR * sizeof *near);
        for (int i = 0; i < FAR; i++) far[i] = next();
        for (int i = 0; i < NEAR; i++) near[i] = next();
        unsigned at = 1;
        do {
            for (int i = 0; i < 10000; i++) {
                at = walk(far, at + next(), FAR - 1, &of_far);
                for (int k = 0; k < 5; k++) at = walk(near, at + next(), NEAR - 1, &of_near);
            }
        } while (cpu() < 2.5);
        printf("%lu %lu\n", of_far, of_near);
        return at == 0;
    }"#;

/// Reads and writes of the heap block of that size, as the recording has them whether or not a report states them.
fn counted(dataset: &Dataset, bytes: i64) -> (f64, f64) {
    let objects = dataset.read::<ObjectRow>().expect("objects");
    let block = objects.iter().find(|row| row.kind == "heap" && row.bytes == bytes).expect("the block");
    let (mut reads, mut writes) = (0.0, 0.0);
    for row in dataset.read::<SampleRow>().expect("samples") {
        if (block.addr..block.addr + bytes).contains(&row.addr) {
            let accesses = f64::from(row.accesses);
            reads += if row.access & Access::Read as i32 != 0 { accesses } else { 0.0 };
            writes += if row.access & Access::Write as i32 != 0 { accesses } else { 0.0 };
        }
    }
    (reads, writes)
}

#[test]
fn code_without_counters_is_counted() {
    let place = Place::together();
    let program = place.compile("gcc", "walks", WALKS, &["-O2"]);
    let options = ["--windows=5".to_owned()];
    let run = Run::record_with(&place.dataset(), &options).arg(&program).limit(60).run().success();
    let told: Vec<f64> = run.out().split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let report = Report::of(&place.dataset());
    let of =
        |name: &str| report.objects.iter().find(|o| o.name == name).unwrap_or_else(|| panic!("{name}: {report:?}"));
    let far = of("far");
    let exact = told[0] / (told[0] + told[1]);
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let (far_reads, far_writes) = counted(&dataset, 4 << 22);
    let (near_reads, _) = counted(&dataset, 4 << 8);
    let found = far_reads / (far_reads + near_reads);
    // By time `far` has nearly all; it has a sixth.
    assert!(far.cost.share > 2.0 * exact, "{} {exact}", far.cost.share);
    assert!((found - exact).abs() < 0.04, "{found} {exact}");
    // What the report states of it holds; where time and counts are so far apart it may state nothing.
    if let Some(error) = far.accesses.error {
        assert!((far.accesses.share - exact).abs() < error + 0.04, "{far:?} {exact}");
    }
    // It is filled once.
    assert!(far_writes < far_reads && far_writes < 2.0 * f64::from(1 << 22), "{far_reads} {far_writes}");
    // How many there were follows from how fast code goes, by samples; that may be off by twice as much in one run of many.
    let trace_windows = dataset.meta().sampler.trace_windows.expect("trace_windows");
    let off = ((far_reads + near_reads) / (told[0] + told[1])).ln() / trace_windows.error.expect("an error");
    assert!(off.abs() < 4.0 && !trace_windows.assumed && trace_windows.fastest > 0.5, "{off} {trace_windows:?}");
    assert!((1..=trace_windows.taken).contains(&trace_windows.timed), "{trace_windows:?}");
    // It is followed from the start on, not when its first samples are read.
    let until = dataset.meta().start + 200_000_000;
    let rows = dataset.read::<SampleRow>().expect("samples");
    let early = rows.iter().filter(|row| row.rule == Rule::TraceWindow as i32 && row.time < until).map(|row| row.time);
    let early: std::collections::BTreeSet<i64> = early.collect();
    assert!(early.len() >= 3, "{early:?}");
}

#[test]
fn nobody_is_followed_outside_of_the_window() {
    let source = r#"
        #include <time.h>
        int main(void) {
            volatile long n = 0;
            struct timespec t;
            do for (int i = 0; i < 1000; i++) n += i; while (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), t.tv_nsec < 600000000);
        }"#;
    let place = Place::together();
    let program = place.compile("gcc", "busy", source, &["-O1"]);
    let options = ["--windows", "--after", "60m"].map(String::from);
    Run::record_with(&place.dataset(), &options).arg(&program).limit(60).run().success();
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let trace_windows = dataset.meta().sampler.trace_windows.expect("trace_windows");
    assert_eq!((trace_windows.taken, trace_windows.stopped), (0, 0), "{trace_windows:?}");
}

/// A list is walked from page to page, and no counter moves in steps. Trace windows tell how often, and samples, of which there are more, where.
#[test]
fn samples_tell_where_trace_windows_count() {
    let source = r#"
        #include <stdlib.h>
        #include <time.h>
        enum { N = 1 << 19 };
        struct node { struct node *next; long value; };
        static double cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
        int main(void) {
            struct node *list = malloc(N * sizeof *list);
            for (long i = 0; i < N; i++) list[i] = (struct node) { i + 1 < N ? &list[i + 1] : 0, i };
            long sum = 0;
            do for (struct node *at = list; at; at = at->next) sum += at->value; while (cpu() < 2);
            return sum == 1;
        }"#;
    let place = Place::together();
    let program = place.compile("gcc", "list", source, &["-O1"]);
    Run::record_with(&place.dataset(), &["--windows=1".to_owned()]).arg(&program).limit(60).run().success();
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let bases: Vec<BasisRow> = dataset.read().expect("bases");
    let samples = dataset.read::<SampleRow>().expect("samples");
    let first = bases.iter().filter(|basis| basis.ip < 0).map(|basis| basis.basis).min().expect("trace_windows");
    let told = |trace_window: bool| {
        let rows = samples
            .iter()
            .filter(move |row| row.basis >= first && (row.rule == Rule::TraceWindow as i32) == trace_window);
        rows.map(|row| f64::from(row.accesses)).sum::<f64>()
    };
    let (by_trace_windows, by_samples) = (told(true), told(false));
    assert!(by_samples > 10.0 * by_trace_windows, "{by_samples} {by_trace_windows}");
    let page = |row: &SampleRow| row.addr >> 12;
    let pages: std::collections::BTreeSet<i64> =
        samples.iter().filter(|row| row.accesses > 0.0 && row.basis >= first).map(page).collect();
    // Of 2,048. Trace windows are in five of them at a time.
    assert!(pages.len() > 600, "{}", pages.len());
}

/// Threads, signals, children, sleeps, stops: whatever a tracer could get into the way of.
const BUSY: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/ptrace.h>
    #include <sys/time.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static volatile long ticks, sum;
    static void tick(int n) { ticks++; }
    static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
    static void work(double s) { double end = now() + s; while (now() < end) for (int i = 0; i < 1000; i++) sum += i; }
    static void *thread(void *x) { work(0.02); return x; }
    #define CHECK(what) do { if (!(what)) { printf("line %d\n", __LINE__); return 1; } } while (0)
    int main(void) {
        struct sigaction a = { .sa_handler = tick, .sa_flags = SA_RESTART };
        CHECK(!sigaction(SIGALRM, &a, 0));
        struct itimerval t = { { 0, 3000 }, { 0, 3000 } };
        CHECK(!setitimer(ITIMER_REAL, &t, 0));
        for (int i = 0; i < 12; i++) {
            pthread_t threads[4];
            for (int k = 0; k < 4; k++) CHECK(!pthread_create(&threads[k], 0, thread, 0));
            for (int k = 0; k < 4; k++) CHECK(!pthread_join(threads[k], 0));
        }
        CHECK(ticks > 10);
        for (int i = 0; i < 15; i++) {
            pid_t child = fork();
            if (!child) { work(0.01); _exit(i); }
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == i);
        }
        // A child that is stopped says so once, stays stopped, and goes on.
        pid_t child = fork();
        if (!child) { for (;;) work(1); }
        work(0.05);
        int status;
        CHECK(!kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        work(0.2);
        CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
        CHECK(!kill(child, SIGCONT) && waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
        work(0.05);
        CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
        // One that it debugs itself.
        child = fork();
        if (!child) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGTRAP); work(0.1); _exit(7); }
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
        CHECK(!ptrace(PTRACE_CONT, child, 0, 0));
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        // Another program in its place, from a thread's point of view for ever running.
        child = fork();
        if (!child) { execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 5", (char *)0); _exit(1); }
        // Timers interrupt the wait, as they would.
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
        struct timespec wait = { 0, 150000000 }, left;
        double begin = now();
        while (nanosleep(&wait, &left)) wait = left;
        CHECK(now() - begin >= 0.15);
        puts("all is well");
        return 3;
    }"#;

#[test]
fn a_program_does_not_notice() {
    let place = Place::together();
    let program = place.compile("gcc", "busy", BUSY, &["-O1", "-pthread"]);
    let native = Run::new(&program).limit(60).run().exits(3);
    for _ in 0..3 {
        let options = ["--windows=30".to_owned(), "--force".to_owned()];
        let run = Run::record_with(&place.dataset(), &options).arg(&program).limit(60).run().exits(3);
        assert_eq!((run.out(), run.remarks()), (native.out(), String::new()), "{run}");
    }
    let meta = std::fs::read_to_string(place.dataset().join("meta.json")).expect("its meta");
    let meta: serde_json::Value = serde_json::from_str(&meta).expect("JSON");
    assert!(meta["sampler"]["trace_windows"]["taken"].as_u64().is_some_and(|taken| taken > 50), "{}", meta["sampler"]);
}

#[test]
fn who_is_killed_while_he_is_followed_dies_as_he_would() {
    let place = Place::together();
    let source = "#include <stdlib.h>\n#include <time.h>\n\
                  int main(void) { volatile long x = 0; clock_t end = clock() + CLOCKS_PER_SEC / 3; while (clock() < end) x++; abort(); }";
    let program = place.compile("gcc", "aborts", source, &[]);
    let native = Run::new(&program).run();
    let run = Run::record_with(&place.dataset(), &["--windows=50".to_owned()]).arg(&program).limit(30).run();
    assert_eq!(run.shell_status(), native.shell_status(), "{run}");
    assert_eq!(Report::of(&place.dataset()).run.exit, Some(134));
}

#[test]
fn what_cannot_be_had_is_said() {
    let place = Place::together();
    let both = Run::numamma().args(["record", "--windows", "--sampler", "exact", "--", "true"]).run();
    both.exits(125).fails_clearly(&["--windows", "--sampler exact"]);
    Run::numamma()
        .args(["record", "--windows", "--in", "main", "--", "true"])
        .run()
        .exits(125)
        .fails_clearly(&["--in"]);
    for value in ["--windows=0", "--windows=-1", "--windows=x", "--windows=101"] {
        Run::numamma().args(["record", value, "--", "true"]).run().exits(125).fails_clearly(&["--windows"]);
    }
    // Too short for any: there is nothing to say.
    let short = Run::record_with(&place.dataset(), &["--windows=1".to_owned()]).arg("true").run().success();
    assert_eq!(short.remarks(), "");
}

/// Ends, or executes something else, at the very moment at which its other thread is held: by itself or in a child.
const HELD: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static volatile int tid;
    static volatile long numbers[1 << 16];
    static void *work(void *x) { tid = gettid(); for (long i = 0;; i++) numbers[i * 7 & 0xffff]++; return x; }
    int main(int argc, char **argv) {
        int child = argv[1][0] == 'c', executes = argv[1][1] == 'x';
        if (child) {
            pid_t pid = fork();
            int status;
            if (pid) return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 9;
        }
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
        while (!tid);
        char name[64], text[512];
        snprintf(name, sizeof name, "/proc/self/task/%d/stat", tid);
        int stat = open(name, O_RDONLY);
        for (time_t end = time(0) + 30; time(0) < end;) {
            ssize_t length = pread(stat, text, sizeof text - 1, 0);
            if (length <= 0) return 8;
            text[length] = 0;
            if (strrchr(text, ')')[2] != 't') continue;
            if (executes) execl("/bin/sh", "sh", "-c", "exit 4", (char *)0);
            _exit(4);
        }
        return 7;
    }"#;

#[test]
fn who_ends_while_another_thread_is_held_has_ended() {
    let place = Place::together();
    let program = place.compile("gcc", "held", HELD, &["-O1", "-pthread"]);
    for way in ["pe", "px", "ce", "cx"] {
        for _ in 0..2 {
            let options = ["--windows=50".to_owned(), "--force".to_owned()];
            Run::record_with(&place.dataset(), &options).arg(&program).arg(way).limit(45).run().exits(4);
        }
    }
}

#[test]
fn memory_that_is_shared_is_touched_by_the_program_alone() {
    let place = Place::together();
    let source = r#"
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        int main(void) {
            enum { PAGES = 1 << 17 };
            volatile char *p = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            struct rusage before, after;
            getrusage(RUSAGE_SELF, &before);
            for (long i = 0; i < PAGES; i++) p[i * 4096] = 1;
            getrusage(RUSAGE_SELF, &after);
            long faults = after.ru_minflt - before.ru_minflt;
            printf("%s\n", faults >= PAGES || faults < PAGES / 256 ? "all" : "some were there");
            return 0;
        }"#;
    let program = place.compile("gcc", "shared", source, &["-O1"]);
    let native = Run::new(&program).run().success();
    let run = Run::record_with(&place.dataset(), &["--windows=50".to_owned()]).arg(&program).limit(60).run().success();
    assert_eq!(run.out(), native.out());
}

/// Two threads that wait for each other all the time: the kernel goes from one to the other as cheaply as without trace windows. Each switch
/// took several microseconds more for as long as a thread lived, once it had been looked at.
#[test]
fn switches_of_threads_cost_no_more() {
    const SWITCHES: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
static int there[2], back[2];
static void *answer(void *arg) { char c; while (read(there[0], &c, 1) == 1) if (write(back[1], &c, 1) != 1) break; return arg; }
int main(void)
{
    pthread_t t;
    struct rusage used;
    char c = 0;
    volatile double x = 0;
    if (pipe(there) || pipe(back) || pthread_create(&t, 0, answer, 0)) return 1;
    for (int i = 0; i < 40000; i++) {
        for (int n = 0; n < 200; n++) x += n;
        if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 2;
    }
    getrusage(RUSAGE_SELF, &used);
    printf("%ld\n", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return 0;
}"#;
    let place = Place::alone();
    let program = place.compile("gcc", "switches", SWITCHES, &[]);
    // Microseconds of CPU time of the program itself, the least of some runs: others on the machine only add to it.
    let used = |options: &[&str]| {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let run = || {
            let run = Run::record_with(&place.dataset(), &options).arg("taskset").args(["-c", "0"]).arg(&program);
            run.limit(120).run().success().out().trim().parse::<u64>().expect("a number")
        };
        (0..4).map(|_| run()).min().expect("four runs")
    };
    let (without, with) = (used(&["--force"]), used(&["--force", "--windows=1"]));
    assert!((with as f64) < 1.6 * without as f64, "{with} us with trace windows, {without} us without");
}
