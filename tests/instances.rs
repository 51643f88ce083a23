//! Objects with several instances: owners, first touches, patterns and advice are of each instance, and the object adds them up.

use std::path::PathBuf;

use numamma_tests::report::{Object, Report, text};
use numamma_tests::{Place, Run, skip};

/// Compiles and records a C program with these flags; its place.
fn record(source: &str, flags: &[&str]) -> Place {
    let place = Place::alone();
    let program = place.compile("gcc", "program", source, flags);
    place.record().arg(&program).run().success();
    place
}

fn line_of(source: &str, part: &str) -> u32 {
    let found = source.lines().position(|line| line.contains(part));
    found.unwrap_or_else(|| panic!("no line with {part}")) as u32 + 1
}

/// Each thread allocates at one line, touches and uses its buffer alone; the buffers differ in size.
const PRIVATE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *of) {
    long n = (1l << 17) + (long)of * 30000, sum = 0;
    volatile long *buffer = malloc(n * sizeof *buffer);
    for (int round = 0; round < 1200; round++)
        for (long i = 0; i < n; i++) sum += buffer[i]++;
    return (void *)sum;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}"#;

#[test]
fn buffers_of_one_line_that_each_have_their_thread_are_private() {
    let place = record(PRIVATE, &["-O2", "-g", "-pthread"]);
    let report = Report::of(&place.dataset());
    let buffer = report.object("buffer");
    assert_eq!(buffer.pattern.kind, "private", "{buffer:?}");
    let [instances] = &buffer.instance_patterns[..] else { panic!("{buffer:?}") };
    assert_eq!((instances.kind.as_str(), instances.instances, instances.threads), ("private", 4, 4));
    assert!(buffer.advice.is_none(), "{buffer:?}");
    let shown = text(&place.dataset());
    assert!(shown.contains("private, one each for 4 threads"), "{shown}");
    assert!(!shown.contains('→'), "{shown}");

    let detailed = Report::object_of(&place.dataset(), "buffer");
    let pages = detailed.page_table.as_ref().expect("pages");
    for instance in &detailed.instance_table {
        let user = instance.threads.first().expect("a thread uses it").thread;
        assert_eq!(instance.pattern.kind, "private", "{instance:?}");
        assert!(instance.first_touch.iter().all(|touch| touch.thread == user), "{instance:?}");
        let own = pages.iter().filter(|page| page.instance == Some(instance.instance));
        assert!(own.clone().count() > 200, "{instance:?}");
        assert!(own.clone().all(|page| page.owner.is_none_or(|owner| owner == user)), "{instance:?}");
    }
    let mut users: Vec<usize> = detailed.instance_table.iter().map(|of| of.threads[0].thread).collect();
    users.sort_unstable();
    assert_eq!(users, [1, 2, 3, 4]);
}

#[test]
fn one_instance_can_be_looked_into() {
    let place = record(PRIVATE, &["-O2", "-g", "-pthread"]);
    let of = |number: &str| {
        Run::report(&place.dataset()).args(["--object", "buffer", "--instance", number, "--format", "json"]).run()
    };
    let report: serde_json::Value = serde_json::from_slice(&of("2").success().stdout).expect("JSON");
    let object = &report["objects"][0];
    assert_eq!(object["page_basis"], "offset");
    let pages = object["page_table"].as_array().expect("pages");
    assert!(!pages.is_empty() && pages.iter().all(|page| page["instance"] == 2));
    let shown = Run::report(&place.dataset()).args(["--object", "buffer", "--instance", "2"]).run().success().out();
    assert!(shown.contains("Instance\n"), "{shown}");
    let refused = of("9").exits(125);
    assert!(refused.err().contains("no instance 9 of buffer"), "{refused}");
    let alone = Run::report(&place.dataset()).args(["--instance", "1"]).run();
    assert!(alone.shell_status() != 0, "{alone}");
}

#[test]
fn counted_instances_are_judged_like_sampled_ones() {
    let place = Place::alone();
    let program: PathBuf = place.compile("gcc", "program", &PRIVATE.replace("1200", "2"), &["-O2", "-g", "-pthread"]);
    let record = Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset());
    record.arg("--").arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let buffer = report.object("buffer");
    assert_eq!(buffer.pattern.kind, "private", "{buffer:?}");
    assert!(buffer.advice.is_none(), "{buffer:?}");
}

#[test]
fn stacks_and_thread_local_arrays_are_private() {
    let source = r#"
        #include <pthread.h>
        static __thread volatile double local[65536];
        static void *work(void *result) {
            volatile double frame[32768]; double sum = 0;
            for (int i = 0; i < 32768; i++) frame[i] = i;
            for (int round = 0; round < 2500; round++) {
                for (int i = 0; i < 32768; i++) sum += frame[i];
                for (int i = 0; i < 65536; i++) local[i] += sum;
            }
            *(double *)result = sum + local[3];
            return 0;
        }
        int main(void) {
            pthread_t threads[3]; double results[3];
            for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, &results[i]);
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return results[0] + results[1] + results[2] < 0;
        }"#;
    let place = record(source, &["-O1", "-g", "-pthread"]);
    let report = Report::of(&place.dataset());
    for kind in ["stack", "tls"] {
        let used = report.objects.iter().find(|object| object.kind == kind && object.instances >= 3);
        let object = used.unwrap_or_else(|| panic!("no {kind}: {report:?}"));
        assert_eq!(object.pattern.kind, "private", "{object:?}");
        // The array of 512 KiB in each thread was zeroed by the one that created the thread.
        let advice = object.advice.as_ref().map(|advice| (advice.kind.as_str(), advice.thread));
        assert_eq!(advice, (kind == "tls").then_some(("allocate-in-user", 0)), "{object:?}");
    }
}

/// A new array in each round, dealt out to the threads in one range each.
#[test]
fn temporaries_that_are_dealt_out_have_blocks_in_each_instance() {
    let source = r#"
        #include <stdlib.h>
        int main(void) {
            for (int round = 0; round < 5; round++) {
                long n = (1l << 20) + round * 4096;
                double *temporary = malloc(n * sizeof *temporary);
                for (int again = 0; again < 150; again++) {
                    #pragma omp parallel for schedule(static) num_threads(4)
                    for (long i = 0; i < n; i++) temporary[i] = again ? temporary[i] * 1.5 + again : again;
                }
                free(temporary);
            }
            return 0;
        }"#;
    let place = record(source, &["-O1", "-g", "-fopenmp"]);
    let report = Report::of(&place.dataset());
    let temporary = report.object("temporary");
    assert_eq!(temporary.pattern.kind, "block", "{temporary:?}");
    assert!(temporary.instance_patterns[0].instances >= 4, "{temporary:?}");
    let shown = text(&place.dataset());
    assert!(shown.contains("in each of") || shown.contains("of 5 instances"), "{shown}");
    assert!(temporary.advice.is_none(), "first touched by its users: {temporary:?}");
}

/// Buffers that one thread initialises for others, at one line.
#[test]
fn buffers_initialised_for_other_threads_name_the_line_to_change() {
    let source = r#"#include <pthread.h>
        #include <stdlib.h>
        enum { LENGTH = 1 << 18 };
        static void *work(void *of) {
            volatile long *buffer = of; long sum = 0;
            for (int round = 0; round < 600; round++)
                for (long i = 0; i < LENGTH; i++) sum += buffer[i]++;
            return (void *)sum;
        }
        int main(void) {
            pthread_t threads[3]; long *buffers[3];
            for (int i = 0; i < 3; i++) {
                buffers[i] = malloc(LENGTH * sizeof *buffers[i]);
                for (long k = 0; k < LENGTH; k++) ((volatile long *)buffers[i])[k] = k; /* here */
            }
            for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, buffers[i]);
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return 0;
        }"#;
    let place = record(source, &["-O1", "-g", "-pthread"]);
    let report = Report::of(&place.dataset());
    let object = report.objects.first().expect("an object");
    assert_eq!(object.pattern.kind, "private", "{object:?}");
    let advice = object.advice.as_ref().unwrap_or_else(|| panic!("no advice: {object:?}"));
    assert_eq!((advice.kind.as_str(), advice.thread), ("initialise-in-user", 0), "{advice:?}");
    assert_eq!(advice.line, line_of(source, "/* here */"), "{advice:?}");
    assert!(advice.share > 0.9, "{advice:?}");
}

/// Allocators reuse the memory of instances of less than 64 KiB, so where that lies is not the object's matter.
#[test]
fn instances_below_the_least_size_have_no_advice() {
    let source = r#"#include <pthread.h>
        #include <stdlib.h>
        enum { LENGTH = KIB * 1024 / sizeof(long), THREADS = 6 };
        static void *work(void *of) {
            volatile long *buffer = of; long sum = 0;
            for (int round = 0; round < 20000; round++)
                for (long i = 0; i < LENGTH; i++) sum += buffer[i]++;
            return (void *)sum;
        }
        int main(void) {
            pthread_t threads[THREADS]; long *buffers[THREADS];
            for (int i = 0; i < THREADS; i++) {
                buffers[i] = aligned_alloc(4096, LENGTH * sizeof *buffers[i]);
                for (long k = 0; k < LENGTH; k++) ((volatile long *)buffers[i])[k] = k;
            }
            for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, buffers[i]);
            for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
            return 0;
        }"#;
    for (kib, is_advised) in [(60, false), (68, true)] {
        let place = record(source, &["-O1", "-g", "-pthread", &format!("-DKIB={kib}")]);
        let report = Report::of(&place.dataset());
        let object = report.objects.first().expect("an object");
        assert_eq!((object.instances, object.pattern.kind.as_str()), (6, "private"), "{kib} KiB: {object:?}");
        assert_eq!(object.advice.is_some(), is_advised, "{kib} KiB: {object:?}");
    }
}

/// Two arrays that the main thread initialises, one used at random by all and one in ranges.
#[test]
fn each_object_has_the_advice_of_its_own_pattern_and_line() {
    let source = r#"
        #include <omp.h>
        #include <stdint.h>
        #include <stdlib.h>
        enum { LENGTH = 2 << 20 };
        static double *scattered, *ranges;
        int main(void) {
            scattered = malloc(LENGTH * 8l); ranges = malloc(LENGTH * 8l);
            for (long i = 0; i < LENGTH; i++) scattered[i] = i; /* one */
            for (long i = 0; i < LENGTH; i++) ranges[i] = i; /* two */
            double sum = 0;
            #pragma omp parallel num_threads(4) reduction(+ : sum)
            {
                uint64_t x = 88172645463325252ull * (omp_get_thread_num() + 1);
                long low = LENGTH / 4 * omp_get_thread_num(), high = low + LENGTH / 4;
                for (int round = 0; round < 40; round++)
                    for (long i = low; i < high; i++) {
                        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
                        sum += scattered[x & (LENGTH - 1)];
                        ranges[i] += x; ranges[i ^ 8] *= 1.5;
                    }
            }
            return !(sum > 0);
        }"#;
    let place = record(source, &["-O1", "-g", "-fopenmp"]);
    let report = Report::of(&place.dataset());
    let advice = |object: &Object| object.advice.clone().unwrap_or_else(|| panic!("no advice: {object:?}"));
    let (scattered, ranges) = (report.object("scattered"), report.object("ranges"));
    assert_eq!((scattered.pattern.kind.as_str(), ranges.pattern.kind.as_str()), ("shared", "block"));
    assert_eq!(advice(scattered).kind, "interleave");
    assert_eq!(advice(ranges).kind, "initialise-in-parallel");
    assert_eq!(advice(scattered).line, line_of(source, "/* one */"));
    assert_eq!(advice(ranges).line, line_of(source, "/* two */"));
    assert!(text(&place.dataset()).contains("→ scattered"), "{}", text(&place.dataset()));
    // Also of an object that costs too little for the report of all.
    let one = Run::report(&place.dataset()).args(["--object", "ranges"]).run().success().out();
    assert!(one.contains("→ ranges"), "{one}");
}

/// Small shared counters live in a cache wherever their page lies, and a stack is not the user's to place.
#[test]
fn nothing_is_advised_about_a_few_pages_or_the_main_stack() {
    let source = r#"
        #include <stdlib.h>
        int main(void) {
            volatile long *table = malloc(16384), frame[8192];
            for (int i = 0; i < 2048; i++) table[i] = i;
            for (int i = 0; i < 8192; i++) frame[i] = i;
            long sum = 0;
            #pragma omp parallel num_threads(3) reduction(+ : sum)
            for (int round = 0; round < 60000; round++)
                for (int i = 0; i < 2048; i++) sum += table[i] + frame[4 * i];
            return sum == 0;
        }"#;
    let place = record(source, &["-O1", "-g", "-fopenmp"]);
    let report = Report::of(&place.dataset());
    let advised: Vec<&Object> = report.objects.iter().filter(|object| object.advice.is_some()).collect();
    assert!(advised.is_empty(), "{advised:?}");
}

/// A block that lies where an earlier one had been touched has no first touch of its own.
#[test]
fn touches_of_recycled_pages_are_marked() {
    let source = r#"
        #include <malloc.h>
        #include <pthread.h>
        #include <stdlib.h>
        enum { LENGTH = 1 << 17 };
        static volatile long *second;
        static void *work(void *of) {
            for (int round = 0; round < 1500; round++)
                for (long i = 0; i < LENGTH; i++) second[i]++;
            return of;
        }
        int main(void) {
            mallopt(M_MMAP_THRESHOLD, 1 << 28); mallopt(M_TRIM_THRESHOLD, 1 << 28);
            volatile long *first = malloc(LENGTH * sizeof *first);
            for (long i = 0; i < LENGTH; i++) first[i] = i;
            free((void *)first);
            second = malloc(LENGTH * sizeof *second);
            pthread_t thread; pthread_create(&thread, 0, work, 0); pthread_join(thread, 0);
            return 0;
        }"#;
    let place = record(source, &["-O1", "-g", "-pthread"]);
    let report = Report::of(&place.dataset());
    let second = report.object("second");
    let recycled: u64 = second.first_touch.iter().filter(|of| of.recycled).map(|of| of.pages).sum();
    assert!(recycled as f64 > 0.9 * second.pages as f64, "{second:?}");
    assert!(second.advice.as_ref().is_none_or(|advice| advice.kind == "plan"), "{second:?}");
}

/// The zeros that calloc writes are the first touches of its own block.
#[test]
fn touches_of_a_fresh_block_are_not_recycled() {
    let calloc = "#include <stdlib.h>
        int main(void) {
            volatile long *fresh = calloc(1 << 17, 8);
            for (int round = 0; round < 1500; round++) for (long i = 0; i < 1 << 17; i++) fresh[i]++;
            return 0;
        }";
    let place = record(calloc, &["-O1", "-g"]);
    let fresh = Report::of(&place.dataset());
    assert!(fresh.object("fresh").first_touch.iter().all(|of| !of.recycled), "{fresh:?}");
}

/// The first thread's block is unmapped, and realloc moves the second thread's there, without a copy.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define MiB (1l << 20)
#ifdef MAPPED
#define TAKE(bytes) mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
#define GROW(block, bytes) mremap(block, 4 * MiB, bytes, MREMAP_MAYMOVE)
#define DROP(block) munmap(block, 16 * MiB)
#else
#define TAKE malloc
#define GROW realloc
#define DROP free
#endif
static pthread_barrier_t turn;
static char *volatile earlier;
static void *first(void *unused) {
    pthread_barrier_wait(&turn);
    char *block = TAKE(16 * MiB);
    memset(block, 1, 16 * MiB);
    earlier = block;
    DROP(block);
    pthread_barrier_wait(&turn);
    return unused;
}
static void *second(void *unused) {
    /* Where it cannot grow. */
    char *grown = TAKE(4 * MiB);
    memset(grown, 2, 4 * MiB);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    grown = GROW(grown, 12 * MiB);
    if (!(grown >= earlier - 8 * MiB && grown < earlier + 16 * MiB)) puts("elsewhere");
    memset(grown + 4 * MiB, 3, 8 * MiB);
    long sum = 0;
    volatile char *moved = grown;
    for (int round = 0; round < 4000; round++)
        for (long i = 0; i < 4 * MiB; i += 64) sum += moved[i];
    return (void *)sum;
}
int main(void) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    pthread_barrier_init(&turn, 0, 2);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}"#;

#[test]
fn first_touches_move_with_the_pages() {
    for flags in [&["-O1", "-g", "-pthread"][..], &["-O1", "-g", "-pthread", "-DMAPPED"]] {
        let place = Place::alone();
        let program = place.compile("gcc", "program", MOVED, flags);
        let output = place.record().arg(&program).run().success().out();
        if output.contains("elsewhere") {
            return skip::skipped("first_touches_move_with_the_pages", "the kernel moves the pages somewhere else");
        }
        let report = Report::of(&place.dataset());
        let grown = report.objects.iter().find(|of| of.bytes == 12 << 20).expect("the block that moved");
        assert!(grown.samples > 30, "{grown:?}");
        assert!(grown.first_touch.iter().all(|of| of.thread == 2 && !of.recycled), "{grown:?}");
        assert!(grown.advice.is_none(), "{grown:?}");
    }
}

/// Each round of the loop reads eight rows of a table, and eight nodes of a chain that lie anywhere: a sample shows them all.
const MANY_AT_ONCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { ROW = 1 << 15, NODES = 1 << 17 };
struct node { long value, pad[3]; };
static double *table;
static struct node *nodes[NODES];
static void *work(void *of) {
    unsigned long x = (unsigned long)of + 1;
    volatile double *t = table;
    double sum = 0;
    for (long n = 0; n < 12000000; n++) {
        long i = n & (ROW - 1);
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        struct node **at = &nodes[(x >> 40) & (NODES - 8)];
        volatile struct node *a = at[0], *b = at[1], *c = at[2], *d = at[3];
        sum += t[i] + t[ROW + i] + t[2 * ROW + i] + t[3 * ROW + i] + t[4 * ROW + i] + t[5 * ROW + i] + t[6 * ROW + i] + t[7 * ROW + i];
        sum += a->value + b->value + c->value + d->value;
    }
    table[(long)of] = sum;
    return 0;
}
int main(void) {
    table = calloc(8 * ROW, sizeof *table);
    for (long n = 0; n < NODES; n++) nodes[n] = calloc(1, sizeof **nodes);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}"#;

#[test]
fn a_sample_that_shows_many_pages_or_instances_is_one_piece_of_evidence() {
    let place = record(MANY_AT_ONCE, &["-O1", "-g", "-pthread"]);
    let report = Report::of(&place.dataset());
    let unattributed = |reason: &str| report.samples.unattributed.get(reason).copied().unwrap_or_default();
    let data = report.samples.recorded - unattributed("no_memory_access") - unattributed("spin_wait");
    for object in &report.objects {
        assert!(object.pattern.samples <= data, "{data} samples, and of {}: {:?}", object.name, object.pattern);
    }
    let table = report.object("table");
    assert!(table.samples > 30, "{table:?}");
    let nodes = report.objects.iter().find(|of| of.instances > 100_000).expect("the nodes");
    assert!(nodes.pattern.samples > 30 && nodes.pattern.kind != "private", "{nodes:?}");
}
