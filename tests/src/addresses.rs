//! A program that uses addresses again and again, each time for another object, and what an exact recording says of it.

use crate::report::Report;

/// Small blocks lie at one address in turn; large ones, which have one counter a page, too; then mappings, over one another
/// and one after the other.
pub const PROGRAM: &str = r"
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        __attribute__((noinline)) static void use(volatile char *p, int n) { for (int i = 0; i < n; i++) p[i] = i; }
        __attribute__((noinline)) static void *odd(size_t n) { return malloc(n); }
        __attribute__((noinline)) static void *even(size_t n) { return malloc(n); }
        __attribute__((noinline)) static void *grown(void *p, size_t n) { return realloc(p, n); }
        static void *addresses[2];
        int main(void) {
            for (int k = 0; k < 500; k++) {
                char *p = odd(48); addresses[0] = p; use(p, 7); free(p);
                p = even(48); addresses[1] = p; use(p, 3); free(p);
            }
            if (addresses[0] != addresses[1]) return 2;
            for (int k = 0; k < 5; k++) {
                char *p = odd(100000); use(p, 90000); free(p);
                p = even(100000); use(p, 50000); free(p);
            }
            char *p = even(64); use(p, 64);
            p = grown(p, 32); use(p, 32); free(p);
            char *x = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            use(x, 1000);
            char *y = mmap(x, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            use(y, 2000);
            for (int k = 0; k < 3; k++) {
                char *m = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                use(m, 1 << 20);
                munmap(m, 1 << 20);
            }
            return 0;
        }";

/// Without them the frames of those who allocate would make room for malloc's.
pub const FLAGS: &[&str] = &["-fno-optimize-sibling-calls"];

/// Each object has its own accesses, and none of those that lay there before.
#[track_caller]
pub fn counted(report: &Report) {
    assert_eq!(report.accesses_made_by("odd"), (0.0, 500.0 * 7.0 + 5.0 * 90_000.0));
    assert_eq!(report.accesses_made_by("even"), (0.0, 500.0 * 3.0 + 5.0 * 50_000.0 + 64.0));
    assert_eq!(report.accesses_made_by("grown"), (0.0, 32.0));
    assert_eq!((report.accesses_of("x"), report.accesses_of("y")), ((0.0, 1_000.0), (0.0, 2_000.0)));
    assert_eq!(report.accesses_of("m"), (0.0, 3.0 * f64::from(1 << 20)));
}
