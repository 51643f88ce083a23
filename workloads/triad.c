/* STREAM triad: three heap arrays, each thread owns one block of each, and touches it first. */
#include "workload.h"

enum { N = (2 << 20) / WORKLOAD_PARTS }; /* 16 MiB an array */

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *a = malloc(N * sizeof *a); /* site: a */
    double *b = malloc(N * sizeof *b); /* site: b */
    double *c = malloc(N * sizeof *c); /* site: c */

#pragma omp parallel for schedule(static)
    for (long i = 0; i < N; i++) {
        a[i] = 2; /* touch: a; not 0, or gcc makes it a memset */
        b[i] = i; /* touch: b */
        c[i] = 1; /* touch: c */
    }
    for (double end = cpu_now() + seconds; cpu_now() < end;) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < N; i++)
            a[i] = b[i] + 3.0 * c[i];
    }
    for (long i = 0; i < N; i += 4099)
        require(a[i] == (double)i + 3.0, "a = b + 3 c");
    say_cpu_times();
    puts("triad ok");
    free(a);
    free(b);
    free(c);
    return 0;
}
