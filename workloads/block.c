/* One array in contiguous blocks: thread t of 4 owns the t-th quarter. */
#include "workload.h"

enum { N = (1 << 20) / WORKLOAD_PARTS }; /* 8 MiB, 2048 pages, 512 a thread */

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *field = aligned_alloc(4096, N * sizeof *field); /* site: field */

#pragma omp parallel for schedule(static)
    for (long i = 0; i < N; i++)
        field[i] = 2; /* touch: field */
    for (double end = cpu_now() + seconds; cpu_now() < end;) {
        for (int k = 0; k < 4; k++) {
#pragma omp parallel for schedule(static)
            for (long i = 0; i < N; i++)
                field[i] = field[i] * 0.5 + 1.0;
        }
    }
    for (long i = 0; i < N; i++)
        require(field[i] == 2.0, "2 is a fixed point");
    say_cpu_times();
    puts("block ok");
    free(field);
    return 0;
}
