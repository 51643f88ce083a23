//! `--sampler exact` on a program of each class of memory and of instructions, whose counts are known: by the emulator, and by the
//! program's own hooks.

use std::fs;
use std::path::{Path, PathBuf};

use numamma_tests::report::Report;
use numamma_tests::{Place, Run, run, skip};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Emulator,
    Hooks,
}

/// Compiles for it; none if that cannot be done here.
fn compile(place: &Place, way: Way, language: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (compiler, more): (_, &[&str]) = match language {
        "f90" => ("gfortran", &["-ffree-line-length-none"]),
        _ => ("gcc", &["-fno-builtin", "-pthread"]),
    };
    if !skip::installed(compiler) || way == Way::Emulator && !skip::installed("qemu-x86_64") {
        return None;
    }
    let (file, program) = (place.path(&format!("program.{language}")), place.path("program"));
    fs::write(&file, source).expect("the source");
    let run =
        Run::new(compiler).args(["-O1", "-g", "-fno-inline", "-o"]).arg(&program).arg(&file).args(more).args(flags);
    match way {
        Way::Emulator => Some(run.limit(120).run().success()),
        // Its library may be missing.
        Way::Hooks => Some(run.arg("-fsanitize=thread").limit(120).run()).filter(|run| run.status.success()),
    }
    .map(|_| program)
}

#[track_caller]
fn record(place: &Place, way: Way, program: &Path, stdin: &str) -> Report {
    let dataset = place.path(&format!("{stdin}.numamma"));
    let run =
        Run::numamma().args(["record", "--quiet", "--sampler", "exact", "-o"]).arg(&dataset).arg("--").arg(program);
    // Hooks must do without the emulator, which would be found by PATH.
    let run = if way == Way::Hooks { run.env("PATH", "/nonexistent") } else { run };
    let run = run.stdin(stdin).limit(240).run().success();
    assert_eq!(run.err(), "", "{run}");
    let report = Report::of(&dataset);
    assert!(report.losses.is_empty(), "{way:?}: {:?}", report.losses);
    assert_eq!(report.sampler.hooks, way == Way::Hooks);
    report
}

/// Records a program in each way that there is.
#[track_caller]
fn each_way(test: &str, language: &str, source: &str, flags: &[&str], check: impl Fn(Way, &Report)) {
    for way in [Way::Emulator, Way::Hooks] {
        let place = Place::together();
        match compile(&place, way, language, source, flags) {
            Some(program) => check(way, &record(&place, way, &program, "")),
            None => skip::missing(test, &format!("what it takes to count by {way:?}")),
        }
    }
}

/// Variables of a thread's own, as the program and its libraries have them side by side in one page.
#[test]
fn thread_local_variables() {
    let source = r"
        #include <errno.h>
        #include <pthread.h>
        enum { THREADS = 4 };
        static __thread int table[1024];
        static __thread char letters[1000] __attribute__((aligned(8)));
        __thread long lonely;
        static void *work(void *p) {
            volatile int *t = table; volatile char *c = letters; volatile long *l = &lonely;
            for (int k = 0; k < 10; k++) for (int i = 0; i < 1024; i++) t[i]++;
            for (int i = 0; i < 1000; i++) c[i] = i;
            for (int i = 0; i < 100; i++) { *l += i; errno = i; }
            return p;
        }
        int main(void) {
            pthread_t t[THREADS];
            for (int i = 1; i < THREADS; i++) pthread_create(&t[i], 0, work, 0);
            work(0);
            for (int i = 1; i < THREADS; i++) pthread_join(t[i], 0);
            return 0;
        }";
    each_way("thread_local_variables", "c", source, &[], |way, report| {
        assert_eq!(report.accesses_of("table"), (40_960.0, 40_960.0), "{way:?}");
        assert_eq!(report.accesses_of("letters"), (0.0, 4_000.0), "{way:?}");
        assert_eq!(report.accesses_of("lonely"), (400.0, 400.0), "{way:?}");
        assert!(report.object("table").threads.iter().all(|of| of.access_share == Some(0.25)), "{way:?}");
        // `errno` is libc's.
        let of_libraries = report.accesses_of("[thread-local storage of libraries]");
        match way {
            Way::Emulator => assert!((400.0..1_000.0).contains(&of_libraries.1), "{of_libraries:?}"),
            Way::Hooks => assert_eq!(of_libraries, (0.0, 400.0)),
        }
    });
}

/// What else lies on a stack is the same however often an array there is gone through.
#[test]
fn arrays_on_stacks() {
    let source = r"
        #include <pthread.h>
        #include <unistd.h>
        static long rounds;
        /* Compilers leave out the hooks of what no other thread can see. */
        static volatile long *volatile seen;
        static void *work(void *p) {
            volatile long own[500];
            seen = own;
            for (int i = 0; i < 500; i++) own[i] = i;
            for (long k = 0; k < 10 * rounds; k++) for (int i = 0; i < 500; i++) own[i] += k;
            return p;
        }
        int main(void) {
            char digit = 0;
            if (read(0, &digit, 1) != 1) return 2;
            rounds = digit - '0';
            pthread_t t;
            if (THREAD) { pthread_create(&t, 0, work, 0); pthread_join(t, 0); } else work(0);
            return 0;
        }";
    // What libc writes to another thread's stack depends on who is first: hooks do not see that.
    for (way, stack, thread) in [
        (Way::Emulator, "stack of the main thread", "-DTHREAD=0"),
        (Way::Hooks, "stack of the main thread", "-DTHREAD=0"),
        (Way::Hooks, "stacks of threads", "-DTHREAD=1"),
    ] {
        let place = Place::together();
        let Some(program) = compile(&place, way, "c", source, &[thread]) else {
            skip::missing("arrays_on_stacks", &format!("what it takes to count by {way:?}"));
            continue;
        };
        let [few, many] = ["2", "5"].map(|rounds| record(&place, way, &program, rounds).accesses_of(stack));
        let off = [many.0 - few.0, many.1 - few.1].map(|difference| (difference - 15_000.0).abs());
        assert!(off.iter().all(|&off| off == 0.0), "{way:?} {stack}: {off:?}");
    }
}

#[test]
fn fortran_commons() {
    let source = "
        subroutine work(n)
          integer :: n, i, k
          real(8) :: a(1000), b(1000)
          common /shared/ a, b
          do k = 1, n
            do i = 1, 1000
              a(i) = a(i) + b(i)
            end do
          end do
        end subroutine
        program p
          real(8) :: a(1000), b(1000)
          common /shared/ a, b
          integer :: i
          do i = 1, 1000
            b(i) = i
          end do
          call work(20)
          if (a(500) < 0) stop 1
        end program";
    each_way("fortran_commons", "f90", source, &[], |way, report| {
        // The block, or its members.
        let of = report.objects.iter().filter(|object| object.name.starts_with("/shared/") && object.kind == "static");
        let sum = of.fold((0.0, 0.0), |(r, w), object| (r + object.accesses.reads, w + object.accesses.writes));
        assert_eq!(sum, (40_001.0, 21_000.0), "{way:?}");
    });
}

/// Each member of a structure is an object if several have pages of their own.
#[test]
fn large_members_of_structures() {
    let source = r"
        static struct { long step; double left[1024]; char tag[16]; double right[2048]; } volatile grid;
        int main(void) {
            for (int i = 0; i < 1024; i++) grid.left[i] = i;
            for (int k = 0; k < 3; k++) for (int i = 0; i < 2048; i++) grid.right[i] += 1;
            for (int i = 0; i < 100; i++) grid.step += 1;
            return 0;
        }";
    each_way("large_members_of_structures", "c", source, &[], |way, report| {
        assert_eq!(report.accesses_of("grid.left"), (0.0, 1024.0), "{way:?}");
        assert_eq!(report.accesses_of("grid.right"), (6144.0, 6144.0), "{way:?}");
        assert_eq!(report.accesses_of("grid.step"), (100.0, 100.0), "{way:?}");
    });
}

#[test]
fn atomics() {
    let source = r"
        #include <pthread.h>
        #include <stdatomic.h>
        static _Atomic long counter, stored; static _Atomic char narrow[8];
        static void *work(void *p) {
            for (int i = 0; i < 1000; i++) {
                long wrong = -1;
                atomic_fetch_add(&counter, 1);
                atomic_compare_exchange_strong(&counter, &wrong, 5);
                atomic_fetch_xor(&narrow[i % 8], 3);
            }
            for (int i = 0; i < 300; i++) { atomic_exchange(&counter, i); if (atomic_load(&counter) < 0) return 0; }
            for (int i = 0; i < 200; i++) { atomic_store(&stored, i); atomic_store_explicit(&stored, i, memory_order_release); }
            return p;
        }
        int main(void) {
            pthread_t t;
            work(0);
            pthread_create(&t, 0, work, 0); work(0); pthread_join(t, 0);
            return 0;
        }";
    each_way("atomics", "c", source, &[], |way, report| {
        assert_eq!(report.accesses_of("counter"), (3.0 * 2_600.0, 3.0 * 2_300.0), "{way:?}");
        assert_eq!(report.accesses_of("narrow"), (3.0 * 1_000.0, 3.0 * 1_000.0), "{way:?}");
        // A store that is the last word on the order is an exchange to the processor.
        let reads = if way == Way::Emulator { 3.0 * 200.0 } else { 0.0 };
        assert_eq!(report.accesses_of("stored"), (reads, 3.0 * 400.0), "{way:?}");
    });
}

/// A vector is an access. Of a structure hooks are told as a whole, and the emulator what the compiler copies it with.
#[test]
fn vectors_and_structures() {
    let source = r"
        typedef double four __attribute__((vector_size(32)));
        four to[256], from[256]; // not static: what nobody reads would be left out
        struct large { char bytes[256]; };
        struct large copies[64] __attribute__((aligned(4096))), originals[64] __attribute__((aligned(4096)));
        static void add(int n) { for (int i = 0; i < n; i++) to[i] += from[i]; }
        static void copy(int n) { for (int i = 0; i < n; i++) copies[i] = originals[i]; }
        int main(void) { for (int k = 0; k < 10; k++) { add(256); copy(64); } return 0; }";
    if !std::arch::is_x86_feature_detected!("avx2") {
        return skip::missing("vectors_and_structures", "a processor with AVX2");
    }
    each_way("vectors_and_structures", "c", source, &["-mavx2"], |way, report| {
        assert_eq!(report.accesses_of("to"), (2_560.0, 2_560.0), "{way:?}");
        assert_eq!(report.accesses_of("from"), (2_560.0, 0.0), "{way:?}");
        let ((read, nothing), copied) = (report.accesses_of("originals"), report.accesses_of("copies"));
        assert_eq!((nothing, copied), (0.0, (0.0, read)), "{way:?}");
        let bytes = 256.0 * 640.0 / read;
        assert!(bytes == 32.0 || way == Way::Emulator && [8.0, 16.0, 64.0].contains(&bytes), "{way:?}: {bytes} bytes");
    });
}

/// Instructions that no compiler makes for the program, so hooks see none of them.
#[test]
fn string_instructions() {
    let source = r#"
        #include <string.h>
        #define OWN(name, size) static char name[size] __attribute__((aligned(4096)))
        OWN(filled, 65536); OWN(small, 4096); OWN(words, 4096); OWN(from, 4096); OWN(to, 4096); OWN(edge, 8192); OWN(backwards, 4096);
        OWN(searched, 4096); OWN(compared, 4096); OWN(with, 4096); OWN(by_libc, 65536);
        static void fill(void *p, long n) { __asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(1) : "memory"); }
        int main(void) {
            for (int k = 0; k < 10; k++) fill(filled, sizeof filled);
            for (int i = 0; i < 100; i++) fill(small + 10 * i, 10);
            fill(edge + 4096 - 8, 40);
            fill(edge, 0);
            void *d = words, *s; long n = 100;
            __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(1L) : "memory");
            d = to, s = from, n = 1000;
            __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
            d = backwards + 400, n = 50;
            __asm__ volatile("std; rep stosl; cld" : "+D"(d), "+c"(n) : "a"(1) : "memory");
            d = searched, n = 200;
            __asm__ volatile("repne scasb" : "+D"(d), "+c"(n) : "a"(7) : "memory", "cc");
            d = compared, s = with, n = 30;
            __asm__ volatile("repe cmpsl" : "+D"(d), "+S"(s), "+c"(n) : : "memory", "cc");
            void *(*volatile set)(void *, int, size_t) = memset;
            set(by_libc, 3, sizeof by_libc);
            return 0;
        }"#;
    let place = Place::together();
    let Some(program) = compile(&place, Way::Emulator, "c", source, &[]) else {
        return skip::missing("string_instructions", "qemu-x86_64");
    };
    let report = record(&place, Way::Emulator, &program, "");
    // 32 bytes of what is filled or copied, in one page and by one instruction.
    assert_eq!(report.accesses_of("filled"), (0.0, 10.0 * 2_048.0));
    assert_eq!(report.accesses_of("small"), (0.0, 100.0));
    assert_eq!(report.accesses_of("edge"), (0.0, 2.0));
    assert_eq!(report.accesses_of("words"), (0.0, 25.0));
    assert_eq!((report.accesses_of("from"), report.accesses_of("to")), ((32.0, 0.0), (0.0, 32.0)));
    // Processors do all else one by one.
    assert_eq!(report.accesses_of("backwards"), (0.0, 50.0));
    assert_eq!(report.accesses_of("searched"), (200.0, 0.0));
    assert_eq!((report.accesses_of("compared"), report.accesses_of("with")), ((30.0, 0.0), (30.0, 0.0)));
    // By an instruction or by vectors: it may begin and end with one that overlaps others.
    let (reads, writes) = report.accesses_of("by_libc");
    assert!(reads == 0.0 && (2_048.0..=2_052.0).contains(&writes), "{writes}");
}

/// Of an operand that a mask chooses elements of there is one access; elements of a gather are accesses of their own.
#[test]
fn masks_and_gathers() {
    let source = r"
        #include <immintrin.h>
        static float masked[512] __attribute__((aligned(32))), table[512] __attribute__((aligned(32))), sums[8];
        static char image[512] __attribute__((aligned(16)));
        int main(void) {
            const __m256i odd = _mm256_set_epi32(-1, 0, -1, 0, -1, 0, -1, 0), numbers = _mm256_set_epi32(0, 9, 18, 27, 36, 45, 54, 63);
            __m256 sum = _mm256_setzero_ps();
            for (int i = 0; i < 512; i += 8) {
                sum = _mm256_add_ps(sum, _mm256_maskload_ps(masked + i, odd));
                _mm256_maskstore_ps(masked + i, odd, sum);
                sum = _mm256_add_ps(sum, _mm256_i32gather_ps(table + i % 256, numbers, 4));
            }
            _mm256_storeu_ps(sums, sum);
            _fxsave(image);
            return 0;
        }";
    let place = Place::together();
    let Some(program) = compile(&place, Way::Emulator, "c", source, &["-mavx2", "-mfxsr"]) else {
        return skip::missing("masks_and_gathers", "qemu-x86_64");
    };
    let report = record(&place, Way::Emulator, &program, "");
    assert_eq!(report.accesses_of("masked"), (64.0, 64.0));
    assert_eq!(report.accesses_of("table"), (512.0, 0.0));
    assert_eq!(report.accesses_of("image"), (0.0, 1.0));
}

/// Ctrl-C: the terminal sends SIGINT to the recorder and the program alike. Both end, and what was counted until then is written.
#[test]
fn control_c_ends_the_program_and_the_recording() {
    const SIGINT: i32 = 2;
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <time.h>
        static volatile long numbers[1000];
        static void *work(void *p) { for (;;) for (int i = 0; i < 1000; i++) numbers[i]++; return p; }
        int main(void) {
            pthread_t t;
            pthread_create(&t, 0, work, 0);
            while (clock() < 2 * CLOCKS_PER_SEC) for (int i = 0; i < 1000; i++) numbers[i]++;
            puts("go");
            fflush(stdout);
            pthread_join(t, 0);
            return 0;
        }"#;
    for way in [Way::Emulator, Way::Hooks] {
        let place = Place::together();
        let Some(program) = compile(&place, way, "c", source, &[]) else {
            skip::missing(
                "control_c_ends_the_program_and_the_recording",
                &format!("what it takes to count by {way:?}"),
            );
            continue;
        };
        let running =
            Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset()).arg("--").arg(program);
        let running = running.limit(240).start();
        running.wait_for_output("go");
        run::signal(-running.pid(), SIGINT);
        running.wait().exits(128 + SIGINT);
        let report = Report::of(&place.dataset());
        assert_eq!(report.run.exit, Some(128 + SIGINT), "{way:?}");
        assert!(report.accesses_of("numbers").1 > 100_000.0, "{way:?}");
    }
}

/// The recorder's library reads tables of each file that lie beside constants of the program.
#[test]
fn nobody_of_ours_is_a_first_toucher() {
    let source = r#"
        #include <stdlib.h>
        static unsigned long length(const char *text) { unsigned long n = 0; while (text[n]) n++; return n; }
        int main(void) {
            volatile char *block = malloc(100000);
            block[0] = 1;
            const char *volatile text = "a constant that is read through a pointer";
            unsigned long sum = 0;
            for (int k = 0; k < 1000; k++) sum += length(text);
            return sum == 0;
        }"#;
    each_way("nobody_of_ours_is_a_first_toucher", "c", source, &[], |way, report| {
        let constants: Vec<_> = report.objects.iter().filter(|object| object.accesses.reads >= 40_000.0).collect();
        assert!(!constants.is_empty(), "{way:?}");
        let ours = constants.iter().flat_map(|o| &o.first_touch).filter(|t| t.function.starts_with("nm"));
        assert_eq!(ours.map(|touch| &touch.function).collect::<Vec<_>>(), Vec::<&String>::new(), "{way:?}");
    });
}
