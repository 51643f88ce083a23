//! Memory that the C library unmaps by itself: nobody reports it, so only what is mapped there later tells. Whatever lies at an
//! address last has its samples.

use numamma_tests::report::{Object, Report};
use numamma_tests::{Place, Run, skip};

/// What the threads of these programs do: work on an array on their stack.
const WORK: &str = r#"
    #define _GNU_SOURCE
    #include <alloca.h>
    #include <fcntl.h>
    #include <iconv.h>
    #include <locale.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    static volatile char *overlap;
    static long bytes;
    #define WORDS 2048
    static void rounds(volatile double *a, int n) {
        double s = 0;
        for (int i = 0; i < WORDS; i++) a[i] = i;
        for (int r = 0; r < n; r++) for (int i = 0; i < WORDS; i++) s += a[i];
        a[0] = s;
    }
    static void *work(void *p) {
        /* The kernel maps large files at multiples of 2 MiB, so a stack in the same gap may begin above. */
        char here;
        long above = overlap ? &here - (char *)(overlap + bytes) : 0;
        if (above > 0 && above < 32 << 20) *(volatile char *)alloca(above) = 1;
        volatile double *a = alloca(WORDS * sizeof *a);
        int over = (char *)(a + WORDS) > overlap && (char *)a < overlap + bytes;
        rounds(a, 100000);
        if (!over) printf("%p is not in %p..%p\n", (void *)a, (void *)overlap, (void *)(overlap + bytes));
        return over ? 0 : (void *)1;
    }
    static int thread(long stack) {
        pthread_attr_t attr; pthread_attr_init(&attr); pthread_attr_setstacksize(&attr, stack);
        pthread_t t; void *elsewhere;
        if (pthread_create(&t, &attr, work, 0)) exit(9);
        pthread_join(t, &elsewhere);
        return elsewhere != 0;
    }
    /* As the C library does it: without a call that anybody could stand in for. */
    static void map_and_unmap(const char *file, long n) {
        int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY);
        bytes = n;
        overlap = (char *)syscall(SYS_mmap, 0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (overlap == MAP_FAILED) exit(8);
        for (long i = 0; i < n; i += 4096) overlap[i]++;
        syscall(SYS_munmap, overlap, n);
        close(fd);
    }
"#;

/// A file of zeros, to be mapped.
fn file(place: &Place, bytes: usize) -> std::path::PathBuf {
    let file = place.path("file");
    std::fs::write(&file, vec![0; bytes]).expect("a file");
    file
}

#[track_caller]
fn most_is_of_kind(report: &Report, kind: &str) {
    let first = report.objects.first().expect("an object");
    let all: Vec<(&str, f64)> = report.objects.iter().map(|of| (of.name.as_str(), of.cost.share)).collect();
    assert_eq!(first.kind, kind, "{all:?}");
    assert!(first.cost.share > 0.9, "{all:?}");
}

fn record(place: &Place, main: &str, args: &[&std::path::Path]) -> Report {
    let program = place.compile("gcc", "program", &format!("{WORK}\n{main}"), &[]);
    place.record().env("LC_ALL", "C.UTF-8").arg(&program).args(args).run().success();
    Report::of(&place.dataset())
}

#[test]
fn a_stack_where_locale_files_were() {
    let place = Place::alone();
    let main = r#"
        int main(void) {
            locale_t l = newlocale(LC_ALL_MASK, "C.UTF-8", 0);
            if (l) freelocale(l);
            thread(1 << 20);
            return 0;
        }"#;
    most_is_of_kind(&record(&place, main, &[]), "stack");
}

#[test]
fn a_stack_where_a_file_was() {
    let place = Place::alone();
    let file = file(&place, 64 << 20);
    let main = "int main(int n, char **v) { map_and_unmap(v[1], 64 << 20); return thread(48 << 20); }";
    most_is_of_kind(&record(&place, main, &[&file]), "stack");
}

/// The stack of a thread that has ended is the next one's, and then another mapping's.
#[test]
fn a_file_where_a_stack_was_and_a_stack_there_again() {
    let place = Place::alone();
    let file = file(&place, 40 << 20);
    // More than 40 MiB of stacks are given back to the kernel. The file fits where they were.
    let main = r#"
        int main(int n, char **v) {
            overlap = 0; bytes = (1ul << 63) - 1;
            for (int i = 0; i < 2; i++) thread(48 << 20);
            map_and_unmap(v[1], 40 << 20);
            return thread(48 << 20);
        }"#;
    let report = record(&place, main, &[&file]);
    most_is_of_kind(&report, "stack");
    assert_eq!(report.objects[0].threads.len(), 3, "{:?}", report.objects[0].threads);
}

#[test]
fn the_heap_of_a_thread_where_a_file_was() {
    let place = Place::alone();
    let file = file(&place, 256 << 20);
    // The C library takes 128 MiB for the heap of a thread and gives back what it does not need.
    let main = r#"
        static void *work_on_heap(void *p) {
            volatile double *a = malloc(WORDS * sizeof *a);
            rounds(a, 200000);
            return (char *)a > overlap && (char *)a < overlap + bytes ? 0 : (void *)1;
        }
        int main(int n, char **v) {
            map_and_unmap(v[1], 256 << 20);
            pthread_t t; void *elsewhere;
            pthread_create(&t, 0, work_on_heap, 0); pthread_join(t, &elsewhere);
            return elsewhere != 0;
        }"#;
    most_is_of_kind(&record(&place, main, &[&file]), "heap");
}

/// Memory that a raw system call mapped, where an object was that a raw system call unmapped.
#[test]
fn a_file_where_an_object_was() {
    let place = Place::alone();
    let file = file(&place, 4 << 20);
    let main = r#"
        int main(int n, char **v) {
            char *object = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(object, 1, 4 << 20);
            syscall(SYS_munmap, object, 4 << 20);
            int fd = open(v[1], O_RDONLY);
            char *a = (char *)syscall(SYS_mmap, object, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
            if (a != object) return 1;
            rounds((volatile double *)a, 100000);
            return 0;
        }"#;
    let report = record(&place, main, &[&file]);
    assert_eq!((report.objects[0].name.as_str(), report.objects[0].cost.share > 0.9), ("file", true));
}

/// Character converters are libraries that the C library opens and closes by itself.
#[test]
fn a_stack_where_a_converter_was() {
    let place = Place::alone();
    let main = r#"
        int main(void) {
            static const char *of[] = {"UTF-16", "UTF-32", "UTF-7", "BIG5", "EUC-JP", "EUC-KR", "GBK", "ISO-2022-JP"};
            char in[64] = "text", out[256];
            for (int r = 0; r < 4; r++) for (int i = 0; i < 8; i++) {
                iconv_t c = iconv_open(of[i], "UTF-8");
                if (c == (iconv_t)-1) continue;
                char *from = in, *to = out; size_t left = 4, room = sizeof out;
                iconv(c, &from, &left, &to, &room);
                iconv_close(c);
            }
            for (int i = 0; i < 8; i++) thread(64 << 10);
            return 0;
        }"#;
    most_is_of_kind(&record(&place, main, &[]), "stack");
}

/// The names of memory end with it.
#[test]
fn thread_local_storage_ends_with_its_thread() {
    let place = Place::alone();
    let file = file(&place, 64 << 20);
    let main = r#"
        static __thread volatile double own[WORDS];
        static void *on_own(void *p) {
            overlap = (char *)own; bytes = sizeof own;
            rounds(own, 1000);
            return 0;
        }
        int main(int n, char **v) {
            pthread_attr_t attr; pthread_attr_init(&attr); pthread_attr_setstacksize(&attr, 48 << 20);
            pthread_t t;
            pthread_create(&t, &attr, on_own, 0); pthread_join(t, 0);
            int fd = open(v[1], O_RDONLY);
            char *at = (char *)((unsigned long)overlap & ~4095ul);
            int flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
            if ((char *)syscall(SYS_mmap, at, bytes + 4096, PROT_READ | PROT_WRITE, flags, fd, 0) != at) return 1;
            rounds((volatile double *)overlap, 100000);
            return 0;
        }"#;
    let report = record(&place, main, &[&file]);
    assert_eq!((report.objects[0].name.as_str(), report.objects[0].cost.share > 0.9), ("file", true));
}

/// The threads of nearly every Fortran program with OpenMP run where the run-time library had mapped locale files.
#[test]
fn stacks_of_a_fortran_program() {
    let test = "stacks_of_a_fortran_program";
    if !skip::installed("gfortran") {
        return skip::missing(test, "gfortran");
    }
    let place = Place::alone();
    let source = "
program locals
  implicit none
  real(8) :: total
  integer :: i
  total = 0
  !$omp parallel do reduction(+:total)
  do i = 1, 8
    total = total + work(i)
  end do
  print *, total
contains
  real(8) function work(seed)
    integer, intent(in) :: seed
    real(8) :: a(2048)
    integer :: r
    a = seed
    do r = 1, 40000
      a = a * 0.999d0 + r
    end do
    work = sum(a)
  end function
end program
";
    std::fs::write(place.path("locals.f90"), source).expect("the source");
    let program = place.path("locals");
    let build = Run::new("gfortran").args(["-O1", "-g", "-fopenmp", "-o"]);
    build.arg(&program).arg(place.path("locals.f90")).run().success();
    place.record().env("LC_ALL", "C.UTF-8").env("OMP_NUM_THREADS", "4").arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let stacks: f64 = report.objects.iter().filter(|of| of.kind == "stack").map(|of| of.cost.share).sum();
    let files: Vec<&Object> = report.objects.iter().filter(|of| of.name.starts_with("LC_")).collect();
    assert!(files.is_empty() && stacks > 0.9, "{stacks} {files:?}");
}
