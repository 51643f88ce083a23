/* Without symbols and lines: heap 60 % of the time, a global 40 %. The heap site can still be told by module and offset,
 * the global at least by its module. */
#include "workload.h"

enum { N = 1 << 16 }; /* 512 KiB each */

static double global_table[N];

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *heap = calloc(N, sizeof *heap);
    sweep_for(heap, N, 0.6 * seconds);
    sweep_for(global_table, N, 0.4 * seconds);
    puts("stripped ok");
    free(heap);
    return 0;
}
