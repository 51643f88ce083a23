/* Random gather: `index` is read in order, `table` at random: one access each, and nearly all the time in `table`. */
#include "workload.h"

enum { TABLE = (4 << 20) / WORKLOAD_PARTS, PICKS = (1 << 20) / WORKLOAD_PARTS }; /* 16 MiB of floats, 4 MiB of indices */

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    float *table = malloc(TABLE * sizeof *table);       /* site: table */
    uint32_t *index = malloc(PICKS * sizeof *index);    /* site: index */
    double first = -1, sum = 0;

#pragma omp parallel for schedule(static)
    for (long i = 0; i < TABLE; i++)
        table[i] = (float)(i & 7);
    /* An odd factor and a power of two: every pick is another element, in an order no prefetcher follows. */
#pragma omp parallel for schedule(static)
    for (long i = 0; i < PICKS; i++)
        index[i] = (uint32_t)((i * 16 + 5) * 2654435761u) & (TABLE - 1);
    for (double end = cpu_now() + seconds; cpu_now() < end;) {
        sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (long i = 0; i < PICKS; i++)
            sum += table[index[i]];
        require(first < 0 || sum == first, "every pass gives the same sum");
        first = sum;
    }
    say_cpu_times();
    puts("gather ok");
    free(table);
    free(index);
    return 0;
}
