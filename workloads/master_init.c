/* The classic mistake: thread 0 initialises an array that all threads then use in blocks. */
#include "workload.h"

enum { N = (2 << 20) / WORKLOAD_PARTS }; /* 16 MiB, 4096 pages */

static void fill(double *p)
{
    for (long i = 0; i < N; i++)
        p[i] = 2; /* touch: field */
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *field = malloc(N * sizeof *field); /* site: field */

    fill(field);
    for (double end = cpu_now() + seconds; cpu_now() < end;) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < N; i++)
            field[i] = field[i] * 0.5 + 1.0;
    }
    for (long i = 0; i < N; i++)
        require(field[i] == 2.0, "2 is a fixed point");
    say_cpu_times();
    puts("master_init ok");
    free(field);
    return 0;
}
