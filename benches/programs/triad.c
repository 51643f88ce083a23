/* A fixed number of passes of the STREAM triad by two threads. The workload of that name runs for a fixed time, which
 * shows no overhead. */
#include "report_times.h"

enum { N = 2 << 20 };

int main(int argc, char **argv)
{
    long passes = count_of(argc, argv, 400);
    double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = malloc(N * sizeof *c);
#pragma omp parallel for schedule(static) num_threads(2)
    for (long i = 0; i < N; i++) {
        a[i] = 2;
        b[i] = (double)i;
        c[i] = 1;
    }
    work_begins();
#pragma omp parallel num_threads(2)
    for (long pass = 0; pass < passes; pass++) {
#pragma omp for schedule(static)
        for (long i = 0; i < N; i++)
            a[i] = b[i] + 3.0 * c[i];
    }
    work_ends();
    double last = a[N - 1];
    free(a);
    free(b);
    free(c);
    return last == (double)(N - 1) + 3.0 ? 0 : 3;
}
