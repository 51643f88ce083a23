//! Defects that were found once: each program is the smallest that showed one.

use std::path::Path;
use std::time::Duration;

use numamma_tests::report::{Object, Report};
use numamma_tests::run::until;
use numamma_tests::{Place, Run};
use numamma_trace::{Dataset, SampleRow};

/// Compiles and records a C program; the report of it.
fn record(source: &str, flags: &[&str]) -> Report {
    let place = Place::alone();
    let program = place.compile("gcc", "program", source, flags);
    place.record().arg(&program).run().success();
    Report::of(&place.dataset())
}

fn first(report: &Report) -> &Object {
    report.objects.first().expect("an object")
}

/// An address relative to the instruction pointer was taken for an address in the module: scalars of position-independent
/// programs belonged to nothing.
#[test]
fn scalars_of_a_position_independent_program() {
    let source = "volatile long counter; int main(void) { for (long i = 0; i < 300000000; i++) counter++; return 0; }";
    let report = record(source, &["-fPIE", "-pie"]);
    assert_eq!(first(&report).name, "counter");
    assert!(first(&report).cost.share > 0.9, "{:?}", first(&report));
}

/// Unrolled code of 400 accesses a round had a row for each of them in every sample.
#[test]
fn a_large_block_takes_few_rows_a_sample() {
    let terms =
        |array: &str, from: usize| -> String { (from..from + 100).map(|n| format!("s += {array}_[{n}];\n")).collect() };
    let stores: String = (0..100).map(|n| format!("c_[{n}] = s;\n")).collect();
    let source = format!(
        r"
        #include <pthread.h>
        #include <stdlib.h>
        static long n = 500000;
        static void *work(void *x) {{
            volatile long *a = calloc(2 * n, 8), *b = calloc(n, 8), *c = calloc(n, 8);
            for (int r = 0; r < 2500; r++)
                for (long i = 0; i < n; i += 100) {{
                    long s = 0;
                    volatile long *a_ = a + i, *b_ = b + i, *c_ = c + i;
                    {}{}{}{stores}
                }}
            return x;
        }}
        int main(void) {{
            pthread_t t; pthread_create(&t, 0, work, 0); work(0); pthread_join(t, 0); return 0;
        }}",
        terms("a", 0),
        terms("b", 0),
        terms("a", 100),
    );
    let place = Place::alone();
    let program = place.compile("gcc", "program", &source, &["-O1"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    for (name, share) in [("a", 0.5), ("b", 0.25), ("c", 0.25)] {
        let of = report.objects.iter().find(|object| object.name == name).expect("an array");
        assert!((of.accesses.share - share).abs() < 0.03, "{name}: {:?}", of.accesses);
    }
    let dataset = Dataset::open(&place.dataset()).unwrap();
    let rows: Vec<SampleRow> = dataset.read().unwrap();
    let samples = rows.iter().filter(|row| row.cost > 0).count();
    assert!(rows.len() < 18 * samples, "{} rows of {samples} samples", rows.len());
    let bytes = std::fs::metadata(place.dataset().join("samples.parquet")).unwrap().len();
    assert!(samples < 500 || bytes < 150 * samples as u64, "{bytes} bytes of {samples} samples");
}

/// A fault that reads maps the page of zeros and places nothing: the page is placed by who writes it first.
#[test]
fn a_page_that_is_read_first_is_placed_by_its_writer() {
    let source = r"
        #include <pthread.h>
        #include <stdlib.h>
        static long n = 4l << 20; static volatile long *a; static long sum;
        static void *writer(void *x) { for (int r = 0; r < 60; r++) for (long i = 0; i < n; i++) a[i] = i; return x; }
        int main(void) {
            a = malloc(n * sizeof *a);
            for (long i = 0; i < n; i += 512) sum += a[i];
            pthread_t t; pthread_create(&t, 0, writer, 0); pthread_join(t, 0);
            return sum != 0;
        }";
    let report = record(source, &[]);
    let object = first(&report);
    let by_writer: u64 = object.first_touch.iter().filter(|touch| touch.thread == 1).map(|touch| touch.pages).sum();
    assert!(by_writer as f64 > 0.99 * object.pages as f64, "{:?}", object.first_touch);
}

/// The kernel reports no unmapping: what came to lie where a closed library had been was charged to its variables.
#[test]
fn memory_where_a_closed_library_was() {
    let place = Place::alone();
    let library = "char big[64 << 20]; void fill(void) { for (long i = 0; i < sizeof big; i += 4096) big[i] = 1; }";
    let library = place.compile("gcc", "library.so", library, &["-shared", "-fPIC"]);
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            void *l = dlopen(argv[1], RTLD_NOW);
            if (!l) { puts(dlerror()); return 1; }
            char *big = dlsym(l, "big");
            ((void (*)(void))dlsym(l, "fill"))();
            dlclose(l);
            char *at = (char *)(((unsigned long)big + (1 << 20)) & ~4095ul);
            char *p = mmap(at, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (p != at) { puts("the addresses are taken"); return 1; }
            for (int r = 0; r < 400; r++) for (long i = 0; i < 16 << 20; i += 64) p[i]++;
            return 0;
        }"#;
    let program = place.compile("gcc", "program", source, &["-ldl"]);
    place.record().arg(&program).arg(&library).run().success();
    let report = Report::of(&place.dataset());
    assert_eq!(first(&report).kind, "mmap", "{:?}", first(&report));
    assert!(first(&report).cost.share > 0.9, "{:?}", first(&report));
}

/// An unmapping that fails leaves the object as it was.
#[test]
fn an_unmapping_that_fails() {
    let source = r"
        #define _GNU_SOURCE
        #include <sys/mman.h>
        int main(void) {
            long n = 8 << 20;
            volatile char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (munmap((char *)p + 100, n - 4096) == 0) return 1;
            for (int r = 0; r < 60; r++) for (long i = 0; i < n; i++) p[i]++;
            return 0;
        }";
    let report = record(source, &[]);
    assert_eq!((first(&report).kind.as_str(), first(&report).bytes), ("mmap", 8 << 20));
    assert!(first(&report).cost.share > 0.9, "{:?}", first(&report));
}

/// Instances were counted only of call stacks whose objects had been touched.
#[test]
fn all_instances_of_a_call_site_are_counted() {
    let source = r"
        #include <stdlib.h>
        static volatile char *p[5000];
        static __attribute__((noinline)) void make(int i) { p[i] = malloc(4096); }
        static __attribute__((noinline)) void one(int i) { make(i); __asm__ volatile(``::: `memory`); }
        static __attribute__((noinline)) void two(int i) { make(i); __asm__ volatile(``::: `memory`); }
        int main(void) {
            for (int i = 0; i < 5000; i++) if (i < 10) one(i); else two(i);
            for (int r = 0; r < 200000; r++) for (int i = 0; i < 10; i++) for (int k = 0; k < 64; k++) p[i][k]++;
            return 0;
        }";
    let report = record(&source.replace('`', "\""), &[]);
    assert_eq!(first(&report).instances, 5000, "{:?}", first(&report));
}

/// Processes that outlive the command were left out without a word.
#[test]
fn a_process_that_is_left_running_is_named() {
    let source = r"
        #include <unistd.h>
        int main(void) { if (fork()) { usleep(100000); return 0; } sleep(3); return 0; }";
    let report = record(source, &[]);
    assert_eq!(report.lost("left_running"), 1, "{:?}", report.losses);
}

/// The library was removed with the recorder: whatever a daemon executed later began with an error of the loader.
#[test]
fn a_process_that_is_left_running_can_execute_others() {
    let place = Place::together();
    let said = place.path("said");
    let script = format!(
        "( while ! [ -e {0}.go ]; do sleep 0.05; done; sh -c 'echo late' ; echo end ) >{0} 2>&1 &",
        said.display()
    );
    place.record().args([Path::new("sh"), &place.script(&script)]).run().success();
    std::fs::write(said.with_extension("go"), "").expect("a file");
    let has_ended = || std::fs::read_to_string(&said).is_ok_and(|said| said.ends_with("end\n"));
    until("the process to end", Duration::from_secs(20), has_ended);
    assert_eq!(std::fs::read_to_string(&said).expect("what it said"), "late\nend\n");
}

/// At a period shorter than what a sample costs, no time was left for the program: counts of accesses were negative.
#[test]
fn counts_at_the_shortest_period() {
    let place = Place::alone();
    let source =
        "volatile long a[4096]; int main(void) { for (long i = 0; i < 300000000; i++) a[i & 4095] = i; return 0; }";
    let program = place.compile("gcc", "program", source, &["-O2"]);
    let run = Run::numamma().args(["record", "--period", "10000", "-o"]).arg(place.dataset());
    run.arg("--").arg(&program).run().success();
    let dataset = Dataset::open(&place.dataset()).expect("a dataset");
    let rows: Vec<SampleRow> = dataset.read().expect("samples");
    // No processor makes more than 32 accesses in a nanosecond.
    let most = Report::of(&place.dataset()).run.wall_s * 1e9 * 32.0;
    for row in &rows {
        assert!(row.accesses >= 0.0 && f64::from(row.accesses) <= most, "not within 0 and {most}: {row:?}");
    }
    assert!(rows.iter().any(|row| row.accesses > 0.0), "none of {} rows counts an access", rows.len());
}

/// Counters of unoptimised code are on the frame: without its bytes nothing was counted. Those of optimised code may have a step that only
/// a register knows. (A function that calls none may have its frame below the stack pointer, where the kernel does not look.)
#[test]
fn counters_on_the_frame() {
    let source = r#"
        enum { N = 1 << 18 };
        long reads[N], writes[N];
        __attribute__((noinline)) void sweep(long from, long step) {
            for (long i = from; i < ROUNDS; i += STEP) {
                long at = i & (N - 1), sum = reads[at] + reads[N - 1 - at] + reads[at ^ 1];
                writes[at] = sum;
            }
            (void)step;
        }
        int main(int argc, char **argv) {
            (void)argv;
            sweep(argc - 1, argc);
            return 0;
        }"#;
    for (rounds, flags) in
        [(400_000_000, &["-O0", "-mno-red-zone", "-DSTEP=1"][..]), (1_000_000_000, &["-O1", "-DSTEP=step"])]
    {
        let place = Place::alone();
        let rounds_flag = format!("-DROUNDS={rounds}");
        let program = place.compile("gcc", "program", source, &[flags, &[&rounds_flag]].concat());
        place.record().arg(&program).run().success();
        let report = Report::of(&place.dataset());
        let of = |name: &str| {
            let found = report.objects.iter().find(|object| object.name == name);
            found.unwrap_or_else(|| panic!("{flags:?}: no {name} in {:?}", report.objects)).accesses.clone()
        };
        let (reads, writes) = (of("reads"), of("writes"));
        assert!(reads.error.is_some() && writes.error.is_some(), "{flags:?}: {reads:?} {writes:?}");
        let ratio = reads.share / writes.share;
        assert!((2.7..3.3).contains(&ratio), "{flags:?}: {reads:?} {writes:?}");
    }
}

/// A loop shorter than the time between two samples, in one that counts on. The outer one was taken to be entered as often as it goes
/// round: a fifth was counted, and stated.
#[test]
fn an_inner_loop_is_as_long_as_it_says() {
    let source = r#"
        static long reads[8192], writes[8192], plain[8192];
        int main(void) {
            for (long i = 0; i < 60000l * 8192; i++) plain[i & 8191] = i;
            for (long round = 0; round < 60000; round++)
                for (long i = 0; i < 8192; i++) {
                    long sum = reads[i] + reads[8191 - i] + reads[i ^ 1];
                    writes[i] = sum;
                }
            return 0;
        }"#;
    let place = Place::alone();
    let program = place.compile("gcc", "program", source, &["-O0", "-mno-red-zone"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let share = |name: &str| report.object(name).accesses.share;
    let ratio = share("writes") / share("plain");
    assert!((0.85..1.18).contains(&ratio), "both are written as often: {ratio}");
}

/// Counters of four threads in one cache line were "shared", without a word of why they cost so much.
#[test]
fn false_sharing_is_named_and_padding_silences_it() {
    let source = r"
        #include <pthread.h>
        #include <stdalign.h>
        static struct { alignas(PAD) volatile long n; } of[4] __attribute__((aligned(64)));
        static void *work(void *x) {
            for (long i = 0; i < 150000000; i++) of[WHERE].n += 1;
            return x;
        }
        int main(void) {
            pthread_t t[4];
            for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *)i);
            for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            return 0;
        }";
    let said = |pad: &str, place: &str| {
        let report = record(source, &["-O1", &format!("-DPAD={pad}"), &format!("-DWHERE={place}")]);
        report.object("of").line_sharing.as_ref().map(|of| (of.kind.clone(), of.threads, of.writers, of.lines))
    };
    assert_eq!(said("8", "(long)x"), Some(("false-sharing".into(), 4, 4, 1)));
    assert_eq!(said("64", "(long)x"), None);
    assert_eq!(said("8", "0"), Some(("contended".into(), 4, 4, 1)));
}

/// Four threads for each step, each on a quarter: "all threads use all of it".
#[test]
fn generations_of_threads_have_blocks() {
    let source = r"
        #include <pthread.h>
        #include <stdlib.h>
        static long n = 4l << 20; static volatile long *a;
        static void *work(void *x) {
            long from = (long)x * n / 4;
            for (int r = 0; r < 8; r++) for (long i = from; i < from + n / 4; i++) a[i] += i;
            return x;
        }
        int main(void) {
            a = calloc(n, sizeof *a);
            for (long i = 0; i < n; i += 512) a[i] = 1;
            for (int step = 0; step < 12; step++) {
                pthread_t t[4];
                for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *)i);
                for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            }
            return 0;
        }";
    let report = record(source, &["-O1"]);
    let object = report.object("a");
    assert_eq!(object.pattern.kind, "block", "{object:?}");
    let block = object.pattern.block_bytes as f64 / f64::from(8 << 20);
    assert!((0.95..1.05).contains(&block), "{object:?}");
    assert!(object.advice.is_none() || object.advice.as_ref().is_some_and(|advice| advice.kind != "interleave"));
}

/// Time in our own hooks was "at no data access", and the remedy a lower rate, which changes nothing.
#[test]
fn a_program_that_allocates_all_the_time_is_told_to_record_without() {
    let source = r"
        #include <stdlib.h>
        static void *volatile keep[64];
        int main(void) {
            for (long i = 0; i < 6000000; i++) { free(keep[i & 63]); keep[i & 63] = malloc(16 + (i % 7) * 48); }
            return 0;
        }";
    let place = Place::alone();
    let program = place.compile("gcc", "program", source, &["-O1"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let recorder = report.samples.unattributed.get("recorder").copied().unwrap_or_default();
    assert!(recorder * 5 > report.samples.recorded, "{:?}", report.samples);
    let text = numamma_tests::report::text(&place.dataset());
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("record without it (--no-heap)") && text.contains("in the recorder's own code"), "{text}");
}
