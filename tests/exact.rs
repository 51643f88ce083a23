//! `--sampler exact`: counts must be those of the program's loops, to the last one.

use std::path::Path;

use numamma_tests::report::Report;
use numamma_tests::{Place, Run, addresses, build, skip, traces};
use numamma_trace::{Dataset, TraceRow};

const SIGSEGV: i32 = 11;

/// True if the emulator is there.
fn applies(test: &str) -> bool {
    let there = skip::installed("qemu-x86_64");
    if !there {
        skip::missing(test, "qemu-x86_64");
    }
    there
}

fn exact(place: &Place) -> Run {
    Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset()).arg("--").limit(120)
}

/// Records a C program that prints nothing, compiled without optimisation of what it counts.
fn record(source: &str, flags: &[&str]) -> (Place, Report) {
    let place = Place::together();
    let program = place.compile("gcc", "program", source, flags);
    let run = exact(&place).arg(&program).run().success();
    assert_eq!((run.out().as_str(), run.remarks().as_str()), ("", ""), "{run}");
    let report = Report::of(&place.dataset());
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    (place, report)
}

#[test]
fn counts_are_those_of_the_loops() {
    if !applies("counts_are_those_of_the_loops") {
        return;
    }
    // `volatile`: as many accesses as are written, whatever the compiler would rather do.
    let source = r"
        #include <stdlib.h>
        enum { N = 50000, PASSES = 20 };
        static volatile int table[1000];
        static volatile char letters[3000];
        static volatile char one, other;
        int main(void) {
            volatile double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = malloc(N * sizeof *c);
            for (long i = 0; i < N; i++) { b[i] = i; c[i] = 1; }
            for (int k = 0; k < PASSES; k++)
                for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i];
            for (int i = 0; i < 1000; i++) table[i] += i;
            for (int i = 0; i < 3000; i++) letters[i] = i;
            for (int i = 0; i < 100; i++) { one = i; if (i % 2) other = one; }
            return 0;
        }";
    let (place, report) = record(source, &["-O1", "-g"]);
    assert_eq!(report.sampler.kind, "exact");
    assert_eq!(report.accesses_of("a"), (0.0, 1_000_000.0));
    assert_eq!(report.accesses_of("b"), (1_000_000.0, 50_000.0));
    assert_eq!(report.accesses_of("c"), (1_000_000.0, 50_000.0));
    assert_eq!(report.accesses_of("table"), (1_000.0, 1_000.0));
    assert_eq!(report.accesses_of("letters"), (0.0, 3_000.0));
    // Every sample is an access, and has an object or a reason.
    let samples = &report.samples;
    assert_eq!(samples.recorded, samples.attributed + samples.unattributed.values().sum::<u64>());
    let of_objects: f64 = report.objects.iter().map(|o| o.accesses.reads + o.accesses.writes).sum();
    assert_eq!(of_objects as u64, samples.attributed);
    // A page has its part: 512 numbers of 8 bytes in each, 20 times.
    let table = Report::object_of(&place.dataset(), "a").page_table.expect("its pages");
    assert_eq!(table.len(), 98);
    // The block begins 16 bytes into a page of its own mapping.
    assert!(table[1..97].iter().all(|page| page.samples == 512 * 20), "{table:?}");
    assert_eq!(table.iter().map(|page| page.samples).sum::<u64>(), 1_000_000);
    // But for the first, where the allocator writes the size of the block.
    let touched = report.object("a").first_touch.iter().filter(|touch| touch.line == 11).map(|touch| touch.pages);
    assert_eq!(touched.sum::<u64>(), 97);
}

#[test]
fn vectors_are_one_access_each() {
    if !applies("vectors_are_one_access_each") {
        return;
    }
    let source = r"
        #include <immintrin.h>
        static double from[4096] __attribute__((aligned(32))), to[4096] __attribute__((aligned(32)));
        static double narrow[1024] __attribute__((aligned(32)));
        static __int128 words[64];
        int main(void) {
            for (int k = 0; k < 10; k++)
                for (int i = 0; i < 4096; i += 4)
                    *(volatile __m256d *)&to[i] = *(volatile __m256d *)&from[i];
            for (int i = 0; i < 1024; i++) *(volatile double *)&narrow[i] += 1;
            for (int i = 0; i < 64; i++) *(volatile __m128i *)&words[i] = _mm_setzero_si128();
            return 0;
        }";
    let (_place, report) = record(source, &["-O2", "-mavx2", "-g"]);
    assert_eq!(report.accesses_of("from"), (10_240.0, 0.0));
    assert_eq!(report.accesses_of("to"), (0.0, 10_240.0));
    assert_eq!(report.accesses_of("narrow"), (1_024.0, 1_024.0));
    assert_eq!(report.accesses_of("words"), (0.0, 64.0));
}

#[test]
fn an_address_that_is_used_again_is_another_object() {
    if !applies("an_address_that_is_used_again_is_another_object") {
        return;
    }
    let (_place, report) = record(addresses::PROGRAM, addresses::FLAGS);
    addresses::counted(&report);
}

/// Blocks of many sizes go from thread to thread; what the allocator does in free memory is not theirs.
#[test]
fn blocks_that_other_threads_free() {
    if !applies("blocks_that_other_threads_free") {
        return;
    }
    let source = r"
        #include <pthread.h>
        #include <stdlib.h>
        enum { THREADS = 4, ROUNDS = 5000, SHELVES = 64 };
        static char *shelf[SHELVES]; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static void use(volatile char *p) { for (int i = 0; i < 8; i++) p[i] = i; }
        static void *run(void *x) {
            unsigned s = (unsigned)(long)x * 77 + 1;
            for (int r = 0; r < ROUNDS; r++) {
                s = s * 1103515245 + 12345;
                char *p = malloc(16 + (s >> 20) % 200);
                use(p);
                pthread_mutex_lock(&lock);
                char *old = shelf[(s >> 10) % SHELVES]; shelf[(s >> 10) % SHELVES] = p;
                pthread_mutex_unlock(&lock);
                if (old) { use(old); free(old); }
            }
            return 0;
        }
        int main(void) {
            pthread_t t[THREADS];
            for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, run, (void *)i);
            for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
            for (int i = 0; i < SHELVES; i++) if (shelf[i] == 0) return 2;
            return 0;
        }";
    let (_place, report) = record(source, &[]);
    assert_eq!(report.accesses_made_by("run"), (0.0, 8.0 * (2.0 * 4.0 * 5000.0 - 64.0)));
}

#[test]
fn threads_and_their_atomics_are_counted_apart() {
    if !applies("threads_and_their_atomics_are_counted_apart") {
        return;
    }
    let source = r"
        #include <pthread.h>
        #include <stdatomic.h>
        #include <stdlib.h>
        enum { N = 40000 };
        static volatile long *numbers; static _Atomic long shared;
        static void *half(void *p) {
            long t = (long)p;
            for (int k = 0; k < 10 * (t + 1); k++) for (long i = t * N / 2; i < (t + 1) * N / 2; i++) numbers[i]++;
            for (int i = 0; i < 1000; i++) atomic_fetch_add(&shared, 1);
            return 0;
        }
        int main(void) {
            numbers = malloc(N * sizeof *numbers);
            for (long i = 0; i < N; i++) numbers[i] = 0;
            pthread_t t[2];
            for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, half, (void *)i);
            for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
            return 0;
        }";
    let (place, report) = record(source, &["-O1", "-g", "-pthread"]);
    // The emulator's own threads are none of the program's.
    assert_eq!(report.run.threads, 3);
    assert_eq!(report.accesses_of("shared"), (2_000.0, 2_000.0));
    let (reads, writes) = report.accesses_of("numbers");
    assert_eq!((reads, writes), (600_000.0, 640_000.0));
    let share =
        |thread| report.object("numbers").threads.iter().find(|t| t.thread == thread).and_then(|t| t.access_share);
    assert_eq!(share(0), Some(40_000.0 / 1_240_000.0));
    assert_eq!(share(1), Some(400_000.0 / 1_240_000.0));
    assert_eq!(share(2), Some(800_000.0 / 1_240_000.0));
    let table = Report::object_of(&place.dataset(), &report.object("numbers").name).page_table.expect("its pages");
    assert!(table.iter().all(|page| page.first_touch_thread == Some(0)), "{table:?}");
    assert_eq!(table.iter().filter(|page| page.by_thread.contains_key("1")).count(), 40);
}

#[test]
fn children_are_counted_whether_forked_or_executed() {
    if !applies("children_are_counted_whether_forked_or_executed") {
        return;
    }
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int inherited[1000], own[1000];
        int main(int argc, char **argv) {
            if (argc > 1) { for (int i = 0; i < 1000; i++) own[i] = i; return 0; }
            for (int i = 0; i < 1000; i++) inherited[i] = i;
            if (fork() == 0) { for (int k = 0; k < 3; k++) for (int i = 0; i < 1000; i++) inherited[i]; _exit(0); }
            wait(0);
            if (fork() == 0) execl(argv[0], argv[0], "again", (char *)0);
            wait(0);
            return 0;
        }"#;
    let (_place, report) = record(source, &["-O1", "-g"]);
    assert_eq!(report.accesses_of("inherited"), (3_000.0, 1_000.0));
    assert_eq!(report.accesses_of("own"), (0.0, 1_000.0));
    // The second child was one of its own until it executed something. None of the threads is the emulator's.
    assert_eq!((report.run.threads, report.processes.len()), (4, 4));
    assert!(report.processes.iter().all(|process| process.command.ends_with("/program")), "{:?}", report.processes);
}

#[test]
fn a_script_and_what_it_runs() {
    if !applies("a_script_and_what_it_runs") {
        return;
    }
    let place = Place::together();
    let script = place.dataset().with_file_name("script");
    std::fs::write(&script, "#!/bin/sh\nread line; echo \"got $line\"; ls / | wc -l >/dev/null; exit 5\n")
        .and_then(|()| std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)))
        .expect("a script");
    let run = exact(&place).arg(&script).stdin("a line\n").run().exits(5);
    assert_eq!(run.out(), "got a line\n", "{run}");
    let report = Report::of(&place.dataset());
    let commands: Vec<&str> = report
        .processes
        .iter()
        .map(|p| Path::new(&p.command))
        .filter_map(Path::file_name)
        .filter_map(|n| n.to_str())
        .collect();
    assert!(commands.contains(&"ls") && commands.contains(&"wc"), "{commands:?}");
    assert!(!commands.iter().any(|name| name.starts_with("qemu")), "{commands:?}");
    assert_eq!(report.lost("not_emulated"), 0);
}

#[test]
fn a_program_that_dies_dies_as_it_would() {
    if !applies("a_program_that_dies_dies_as_it_would") {
        return;
    }
    let place = Place::together();
    let source = "int main(void) { *(volatile int *)0 = 1; return 0; }";
    let program = place.compile("gcc", "program", source, &[]);
    exact(&place).arg(&program).run().exits(128 + SIGSEGV);
    assert_eq!(Report::of(&place.dataset()).lost("accesses_cut"), 1);
}

#[test]
fn what_cannot_be_run_is_said_in_a_line() {
    if !applies("what_cannot_be_run_is_said_in_a_line") {
        return;
    }
    let place = Place::together();
    let source =
        r#"int main(void) { double x[8] = {1}; __asm__ volatile("vmovupd %0, %%zmm1" : : "m"(x)); return 0; }"#;
    let program = place.compile("gcc", "program", source, &[]);
    let run = exact(&place).arg(&program).run().exits(125);
    assert!(run.err().lines().any(|l| l.starts_with("numamma: ") && l.contains("AVX-512")), "{run}");

    let without = |file: &Path, words: &[&str]| {
        let place = Place::together();
        exact(&place).arg(file).env("PATH", "/nonexistent").run().fails_clearly(words);
        assert!(!place.dataset().exists());
    };
    without(&program, &["qemu-x86_64", "apt-get install qemu-user"]);
    let other = place.dataset().with_file_name("other");
    let mut elf = std::fs::read(&program).expect("a program");
    let mut refused = |at: usize, value: u8, word: &str| {
        let before = std::mem::replace(&mut elf[at], value);
        std::fs::write(&other, &elf).expect("a file");
        std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        elf[at] = before;
        let place = Place::together();
        exact(&place).arg(&other).run().exits(125).fails_clearly(&["--sampler exact", word]);
    };
    refused(4, 1, "32-bit");
    refused(18, 183, "another processor");
    std::fs::copy(&program, &other).expect("a copy");
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("set-user-id");
    let place = Place::together();
    exact(&place).arg(&other).run().exits(125).fails_clearly(&["set-user-id"]);
    let rate = Run::numamma().args(["record", "--sampler", "exact", "--rate", "10", "--", "true"]).run();
    rate.exits(125).fails_clearly(&["--rate"]);
}

#[test]
fn the_triad_is_counted_as_its_truth_says() {
    if !applies("the_triad_is_counted_as_its_truth_says") {
        return;
    }
    let Some(triad) = build::workload("triad") else { return };
    let place = Place::together();
    exact(&place).arg(triad).arg("0.3").env("OMP_NUM_THREADS", "2").run().success();
    let report = Report::of(&place.dataset());
    let (a, b, c) = (report.accesses_of("a"), report.accesses_of("b"), report.accesses_of("c"));
    // Vectors or not, each pass writes a as often as it reads b and c; before, each was written once.
    let n = 2.0 * 1024.0 * 1024.0;
    assert_eq!((b, b.1), (c, a.1 - b.0));
    // The check at the end reads every 4099th.
    assert_eq!(a.0, (n / 4099.0_f64).ceil());
    assert!(b.0 > 0.0 && b.0 % (n / 4.0) == 0.0, "{b:?}");
    let shares: Vec<f64> = report.object("b").threads.iter().filter_map(|t| t.access_share).collect();
    assert_eq!(shares, [0.5, 0.5]);
    // Whoever counts every access has a basis for each count, and no error.
    let text = Run::numamma().arg("report").arg(place.dataset()).run().success().out();
    assert!(!text.contains("cost only"), "{text}");
    for name in ["a", "b", "c"] {
        let share = format!(" {:.1} % ", 100.0 * report.object(name).accesses.share);
        let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        assert!(line.is_some_and(|line| line.contains(&share) && line.contains("M ")), "{name} has {share}: {text}");
    }
    assert!(!text.contains('±'), "{text}");
}

/// Records with a trace: what the recorder said.
fn traced(place: &Place, source: &str, flags: &[&str], options: &[&str]) -> String {
    let program = place.compile("gcc", "program", source, flags);
    let run = Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset()).args(options);
    run.arg("--").arg(&program).limit(120).run().success().remarks()
}

#[test]
fn a_trace_has_every_access_in_order() {
    if !applies("a_trace_has_every_access_in_order") {
        return;
    }
    let place = Place::together();
    assert_eq!(traced(&place, traces::PROGRAM, &["-O1", "-pthread"], &["--trace"]), "");
    traces::are_those_of_the_program(&place);
    // It has as many as were counted, and each has a line.
    let report = Report::of(&place.dataset());
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let rows = dataset.read::<TraceRow>().expect("its trace");
    assert_eq!(rows.len() as u64, report.samples.recorded);
    let code: Vec<numamma_trace::CodeRow> = dataset.read().expect("its code");
    let function = |row: &&TraceRow| code.iter().any(|of| of.ip == row.ip && of.function == "downwards");
    assert!(rows.iter().filter(function).count() > 2 * 334, "{}", code.len());
    let text = Run::numamma().arg("report").arg(place.dataset()).run().success().out();
    assert!(text.contains("accesses one by one, in trace.parquet") && text.contains("from the start"), "{text}");
}

/// The emulator makes a vector in pieces; elements of a gather are accesses of their own.
#[test]
fn a_vector_is_traced_as_one_access() {
    if !applies("a_vector_is_traced_as_one_access") {
        return;
    }
    let source = r"
        #include <immintrin.h>
        static double from[64] __attribute__((aligned(32))), to[64] __attribute__((aligned(32)));
        int main(void) {
            for (int i = 0; i < 64; i += 4) *(volatile __m256d *)&to[i] = *(volatile __m256d *)&from[i];
            for (int i = 0; i < 64; i += 2) *(volatile __m128d *)&to[i] = _mm_setzero_pd();
            return 0;
        }";
    let place = Place::together();
    traced(&place, source, &["-O2", "-mavx2"], &["--trace"]);
    let loads: Vec<_> = (0..16).map(|i| (0, 32 * i, 32, false)).collect();
    assert_eq!(traces::of_object(&place, "from", |object| object.name == "from"), loads);
    let stores: Vec<_> = (0..16).map(|i| (0, 32 * i, 32, true)).chain((0..32).map(|i| (0, 16 * i, 16, true))).collect();
    assert_eq!(traces::of_object(&place, "to", |object| object.name == "to"), stores);
}

/// With two threads the emulator makes an atomic instruction in one, and says what it wrote first.
#[test]
fn an_atomic_is_traced_read_and_written() {
    if !applies("an_atomic_is_traced_read_and_written") {
        return;
    }
    let source = r"
        #include <pthread.h>
        static long counters[64];
        static void *count(void *x) {
            for (int i = 0; i < 64; i++) {
                __atomic_fetch_add(&counters[i], 1, __ATOMIC_SEQ_CST);
                long one = 1;
                __atomic_compare_exchange_n(&counters[i], &one, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            }
            return x;
        }
        int main(void) { pthread_t t; pthread_create(&t, 0, count, 0); pthread_join(t, 0); return 0; }";
    let place = Place::together();
    traced(&place, source, &["-O2", "-pthread"], &["--trace"]);
    let both = |i: i64| [(1, 8 * i, 8, false), (1, 8 * i, 8, true)];
    let expected: Vec<_> = (0..64).flat_map(|i| [both(i), both(i)].concat()).collect();
    assert_eq!(traces::of_object(&place, "counters", |object| object.name == "counters"), expected);
}

#[test]
fn a_trace_is_of_its_window_and_no_longer_than_asked() {
    if !applies("a_trace_is_of_its_window_and_no_longer_than_asked") {
        return;
    }
    // For three seconds, whatever the machine does.
    let source = r"
        #include <time.h>
        static volatile long count;
        static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
        int main(void) { for (double end = now() + 3; now() < end;) for (int i = 0; i < 1000; i++) count++; return 0; }";
    let place = Place::together();
    let said = traced(&place, source, &[], &["--trace=5000", "--after", "0.8", "--only", "write"]);
    assert_eq!(said, "numamma: --trace: it ends after 5000 accesses; --trace=N has more\n");
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let rows = dataset.read::<TraceRow>().expect("its trace");
    let start = dataset.meta().start;
    assert!(rows.iter().all(|row| row.time >= start + 800_000_000 && row.access == 2), "{:?}", rows.first());
    // Reads are told of, too, and left out.
    assert!((1000..4000).contains(&rows.len()), "{}", rows.len());

    let place = Place::together();
    let said = traced(&place, source, &[], &["--trace=1000000000", "--after", "0.5", "--for", "1"]);
    assert_eq!(said, "");
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let rows = dataset.read::<TraceRow>().expect("its trace");
    assert!(!rows.is_empty(), "a second of the program has no access");
    let (start, first, last) = (dataset.meta().start, rows[0].time, rows[rows.len() - 1].time);
    assert!(first >= start + 500_000_000 && last < start + 1_500_000_000, "{} {}", first - start, last - start);
    // Counts are of the whole run.
    let report = Report::of(&place.dataset());
    let (reads, writes) = report.accesses_of("count");
    assert!(reads == writes && writes > 2.0 * rows.len() as f64 / 4.0, "{writes} of {}", rows.len());
}

#[test]
fn a_trace_that_cannot_be_is_refused() {
    let refused = |options: &[&str], word| {
        Run::numamma()
            .arg("record")
            .args(options)
            .args(["--", "true"])
            .run()
            .exits(125)
            .fails_clearly(&["--trace", word]);
    };
    refused(&["--trace"], "--sampler exact");
    refused(&["--sampler", "exact", "--after", "1"], "--after");
    Run::numamma().args(["record", "--sampler", "exact", "--trace=0", "--", "true"]).run().exits(125);
}
