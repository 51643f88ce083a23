/* Address reuse: two call sites get the same address in turn, one uses it for 3.3 ms, the other for 1.1 ms. Who looks only at
 * the address charges one of them with everything. (No whole milliseconds: they would beat with a sampler of 1 kHz.) */
#include "workload.h"

#include <string.h>

enum { N = 8192 }; /* 64 KiB */

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    int rounds = (int)(seconds / 0.0044), same = 0;

    for (int i = 0; i < rounds; i++) {
        double *p = malloc(N * sizeof *p); /* site: long */
        memset(p, 0, N * sizeof *p);
        sweep_for(p, N, 0.0033);
        uintptr_t was = (uintptr_t)p;
        free(p);
        p = malloc(N * sizeof *p); /* site: short */
        same += (uintptr_t)p == was;
        memset(p, 0, N * sizeof *p);
        sweep_for(p, N, 0.0011);
        free(p);
    }
    /* Without this the truth would be too easy to find. */
    require(same >= rounds - 1, "the second block is where the first one was");
    puts("reuse ok");
    return 0;
}
