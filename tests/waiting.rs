//! Loops that wait for another thread are no accesses, whatever they wait with; loops that work are no waits.

use numamma_tests::report::Report;
use numamma_tests::{Place, Run, skip};

/// What these programs begin with.
const MAIN: &str = r#"
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <time.h>
    static void rest(void) { struct timespec t = {1, 0}; while (nanosleep(&t, &t)) {} }
"#;

fn record_with(place: &Place, source: &str, flags: &[&str], env: &[(&str, &str)]) -> Report {
    let program = place.compile("gcc", "program", &format!("{MAIN}\n{source}"), flags);
    let run = env.iter().fold(place.record(), |run, (name, value)| run.env(name, value));
    run.arg(&program).run().success();
    Report::of(&place.dataset())
}

fn record(source: &str, flags: &[&str]) -> Report {
    record_with(&Place::alone(), source, flags, &[])
}

/// Thread time that was spent waiting, of all, and the function that did most of it.
fn waiting(report: &Report) -> (f64, String) {
    let of = report.waiting.as_ref();
    of.map_or((0.0, String::new()), |of| (of.share, of.places[0].function.clone()))
}

/// Thread 1 spent its time waiting: nearly none of it is charged to data.
#[track_caller]
fn waits(report: &Report, function: &str) {
    let (share, place) = waiting(report);
    assert!(place == function, "{share} in {place}: {:?}", report.samples);
    let told = &report.waiting.as_ref().expect("a wait").places;
    assert!(told[0].file.ends_with("program.c") && told[0].line > 0, "{told:?}");
    is_charged_to_nothing(report);
}

#[track_caller]
fn is_charged_to_nothing(report: &Report) {
    let told = &report.waiting.as_ref().expect("a wait").places;
    let waited: f64 = told.iter().filter(|of| of.thread == 1).map(|of| of.seconds).sum();
    let charged = report.threads.iter().find(|of| of.thread == 1).map_or(0.0, |of| of.cost_s);
    // A thread's start is some samples.
    assert!(waited > 0.02 && charged < 0.03 * waited + 0.004, "{charged} s beside {told:?}: {:?}", report.samples);
}

/// One thread waits in `wait` for another.
fn waiter(wait: &str) -> String {
    format!(
        "static _Atomic int flag; static volatile int plain; static _Atomic unsigned now, next;
         static __attribute__((noinline)) void wait(void) {{ {wait} }}
         static void *waiter(void *p) {{ wait(); return p; }}
         int main(void) {{
             now = 0; next = 1; flag = 0; plain = 0;
             pthread_t t; pthread_create(&t, 0, waiter, 0);
             rest(); flag = 1; plain = 1; now = 1;
             pthread_join(t, 0); return 0;
         }}"
    )
}

#[test]
fn a_loop_with_a_fence() {
    let wait = waiter("while (!plain) __sync_synchronize();");
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        waits(&record(&wait, &[level]), "wait");
    }
}

/// A round looks at the flags of several threads, whose number it reads anew for each.
#[test]
fn a_loop_that_adds_several_flags_up() {
    let source = "
        struct { _Alignas(64) atomic_long left; } flags[4];
        int count = 4;
        static __attribute__((noinline)) void wait(void) {
            for (;;) {
                long left = 0;
                for (int n = 0; n < count; n++) left += flags[n].left;
                if (!left) break;
            }
        }
        static void *waiter(void *p) { wait(); return p; }
        int main(void) {
            flags[1].left = flags[3].left = 1;
            pthread_t t; pthread_create(&t, 0, waiter, 0);
            rest(); flags[1].left = flags[3].left = 0;
            pthread_join(t, 0); return 0;
        }";
    for level in ["-O1", "-O2", "-O3"] {
        let report = record(source, &[level]);
        let (share, place) = waiting(&report);
        // The first samples tell of no other round yet.
        assert!(place == "wait" && share > 0.75, "{level}: {share} in {place}: {:?}", report.samples);
    }
}

/// Arrays that are summed up or searched again and again, which would stop at something that never comes.
#[test]
fn rounds_that_work_store_nothing_either() {
    let source = "
        static volatile long array[4096];
        int count = 4096;
        static __attribute__((noinline)) long sums(long rounds, long most) {
            long sum = 0;
            for (; rounds > 0; rounds--) {
                sum = 0;
                for (int n = 0; n < count; n++) sum += array[n];
                if (sum > most) break;
            }
            return sum;
        }
        static __attribute__((noinline)) long searches(long rounds, long key) {
            for (; rounds > 0; rounds--)
                for (int n = 0; n < count; n++)
                    if (array[n] == key) return n;
            return -1;
        }
        /* Once, and again if that was too little: never. */
        static __attribute__((noinline)) long enough(long least) {
            long sum;
            do {
                sum = 1;
                for (int n = 0; n < count; n++) sum += array[n];
            } while (sum < least);
            return sum;
        }
        int main(void) {
            long all = sums(40000, 5) + searches(40000, 5);
            for (int n = 0; n < 40000; n++) all += enough(1);
            return all < 0;
        }";
    for level in ["-O1", "-O2", "-O3"] {
        let report = record(source, &[level]);
        let (share, place) = waiting(&report);
        assert!(share < 0.02, "{level}: {share} in {place}");
        assert!(report.object("array").cost.share > 0.8, "{level}: {:?}", report.samples);
    }
}

#[test]
fn a_loop_that_loads() {
    waits(&record(&waiter("while (!atomic_load_explicit(&flag, memory_order_acquire)) {}"), &["-O2"]), "wait");
    waits(&record(&waiter("unsigned own = next; while (now != own) {}"), &["-O2"]), "wait");
}

#[test]
fn a_loop_that_counts_its_rounds() {
    let wait = "for (;;) { for (long i = 0; i < 1000000; i++) if (atomic_load(&flag)) return; }";
    waits(&record(&waiter(wait), &["-O2"]), "wait");
}

#[test]
fn a_lock_that_is_held() {
    let source = r#"
        static atomic_flag lock;
        static _Atomic int word;
        static __attribute__((noinline)) void take(void) {
            while (atomic_flag_test_and_set(&lock)) {}
            for (int expected = 0; !atomic_compare_exchange_weak(&word, &expected, 1); expected = 0) {}
        }
        static void *taker(void *p) { take(); return p; }
        int main(void) {
            atomic_flag_test_and_set(&lock); word = 1;
            pthread_t t; pthread_create(&t, 0, taker, 0);
            rest(); atomic_flag_clear(&lock); rest(); word = 0;
            pthread_join(t, 0); return 0;
        }"#;
    for level in ["-O1", "-O2"] {
        waits(&record(source, &[level]), "take");
    }
}

#[test]
fn the_c_librarys_spin_lock() {
    let source = r#"
        static pthread_spinlock_t lock;
        static void *taker(void *p) { pthread_spin_lock(&lock); return p; }
        int main(void) {
            pthread_spin_init(&lock, 0); pthread_spin_lock(&lock);
            pthread_t t; pthread_create(&t, 0, taker, 0);
            rest(); pthread_spin_unlock(&lock);
            pthread_join(t, 0); return 0;
        }"#;
    is_charged_to_nothing(&record(source, &[]));
}

/// A lock that nobody holds, a list, a search, additions that are tried again, numbers that are read again and again.
#[test]
fn work_is_no_wait() {
    let source = r#"
        #include <stdlib.h>
        #define N (1 << 16)
        struct item { struct item *next; atomic_flag lock; long value; char rest[40]; };
        static struct item *items; static _Atomic long sum; static volatile long plain; static volatile char text[N];
        static __attribute__((noinline)) long locked(unsigned n) {
            struct item *of = &items[n * 2654435761u % N];
            while (atomic_flag_test_and_set(&of->lock)) {}
            long value = of->value++;
            atomic_flag_clear(&of->lock);
            return value;
        }
        static __attribute__((noinline)) long list(void) {
            long n = 0;
            for (volatile struct item *at = items; at; at = at->next) n += at->value == 7;
            return n;
        }
        static __attribute__((noinline)) long length(void) { volatile char *at = text; while (*at) at++; return at - text; }
        static __attribute__((noinline)) void add(long n) {
            for (long old = sum; !atomic_compare_exchange_weak(&sum, &old, old + n); ) {}
        }
        static __attribute__((noinline)) long reads(long n) { long all = 0; while (n--) all += plain; return all; }
        int main(void) {
            items = calloc(N, sizeof *items);
            for (int i = 0; i < N; i++) { items[i].next = i + 1 < N ? &items[i + 1] : 0; text[i] = i + 1 < N; }
            long all = 0;
            for (int r = 0; r < 30; r++) {
                for (unsigned i = 0; i < N; i++) all += locked(i);
                for (int k = 0; k < 20; k++) all += list() + length() + reads(N);
                for (int i = 0; i < 4 * N; i++) add(i);
            }
            return all == 42;
        }"#;
    for level in ["-O0", "-O1", "-O2"] {
        let report = record(source, &[level]);
        let (share, place) = waiting(&report);
        assert!(share < 0.02, "{level}: {share} in {place}");
    }
}

/// The run-time library's own loop, whatever the wait policy: no sample of it is at an object.
#[test]
fn threads_of_openmp_that_wait_for_the_last() {
    let source = r#"
        int main(void) {
            volatile double a[1024];
            for (int r = 0; r < 20; r++) {
                #pragma omp parallel
                {
                    #pragma omp master
                    for (int k = 0; k < 40000; k++) for (int i = 0; i < 1024; i++) a[i] = i + k;
                }
            }
            return 0;
        }"#;
    for policy in ["active", ""] {
        let env = [("OMP_NUM_THREADS", "2"), ("OMP_WAIT_POLICY", policy)];
        let env = if policy.is_empty() { &env[..1] } else { &env[..] };
        let report = record_with(&Place::alone(), source, &["-fopenmp"], env);
        let stack: f64 = report.objects.iter().filter(|of| of.kind == "stack").map(|of| of.cost.share).sum();
        let others: Vec<_> = report.objects.iter().filter(|of| of.kind != "stack" && of.cost.share > 0.01).collect();
        assert!(stack > 0.97 && others.is_empty(), "{policy}: {stack} {others:?}");
    }
}

/// The run time of LLVM asks an object for its flag, looks for tasks and reads the clock while it waits.
#[test]
fn threads_wait_in_the_run_time_of_llvm() {
    if !skip::installed("clang") {
        return skip::missing("threads_wait_in_the_run_time_of_llvm", "clang");
    }
    let source = "int main(void) {
            for (int n = 0; n < 3; n++) {
                #pragma omp parallel
                {
                    #pragma omp single
                    rest();
                }
            }
            return 0;
        }";
    let place = Place::alone();
    let program = place.compile("clang", "program", &format!("{MAIN}\n{source}"), &["-fopenmp"]);
    let run = place.record().env("OMP_NUM_THREADS", "2").env("KMP_BLOCKTIME", "infinite");
    run.arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let waits = report.waiting.as_ref().expect("a wait");
    let waited: f64 = waits.places.iter().map(|of| of.seconds).sum();
    // One of two threads waits at any time. Its samples in what the loop calls went to its stack and to objects of the run time.
    let charged: f64 = report.threads.iter().map(|of| of.cost_s).sum();
    assert!(waited > 0.1 && charged < 0.03 * waited + 0.004, "{charged} s beside {waited} s: {waits:?}");
}

/// gfortran's flush is a fence.
#[test]
fn a_fortran_loop_with_a_flush() {
    let test = "a_fortran_loop_with_a_flush";
    if !skip::installed("gfortran") {
        return skip::missing(test, "gfortran");
    }
    let place = Place::alone();
    let source = "
program pipe
  implicit none
  integer, volatile :: ready
  integer :: i
  real(8) :: a(4096)
  ready = 0
  !$omp parallel num_threads(2) private(i)
  !$omp sections
  !$omp section
    do i = 1, 300000
      a = a + i
    end do
    ready = 1
    !$omp flush
  !$omp section
    call wait_for(ready)
  !$omp end sections
  !$omp end parallel
  print *, a(1)
contains
  subroutine wait_for(flag)
    integer, volatile :: flag
    do while (flag == 0)
      !$omp flush
    end do
  end subroutine
end program
";
    std::fs::write(place.path("pipe.f90"), source).expect("the source");
    let program = place.path("pipe");
    let build = Run::new("gfortran").args(["-O1", "-g", "-fopenmp", "-o"]).arg(&program);
    build.arg(place.path("pipe.f90")).run().success();
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let told = report.waiting.as_ref().expect("a wait");
    let waited: f64 = told.places.iter().filter(|of| of.function.contains("wait_for")).map(|of| of.seconds).sum();
    let charged: f64 =
        report.lines.iter().filter(|of| of.function.contains("wait_for")).map(|of| of.cost.seconds).sum();
    assert!(waited > 0.02 && charged < 0.05 * waited, "{charged} s beside {told:?}");
}

/// The clock of the vdso reads its data again while the kernel writes it, which is next to never.
#[test]
fn reading_the_clock_is_no_wait() {
    let source = "int main(void) {
            struct timespec now; long sum = 0;
            for (int n = 0; n < 20000000; n++) { clock_gettime(CLOCK_MONOTONIC, &now); sum += now.tv_nsec; }
            return sum == 0;
        }";
    let report = record(source, &["-O1"]);
    let (share, place) = waiting(&report);
    assert!(share < 0.02 && report.samples.recorded > 20, "{share} in {place}: {:?}", report.samples);
}
