/* Globals of equal size side by side, each used for another share of the time; one of them never. Built four ways: PIE,
 * non-PIE, stripped and statically linked. */
#include "workload.h"

enum { N = 1 << 15 }; /* 256 KiB each */

double equal_a[N], equal_b[N], equal_never[N], equal_c[N];
extern double equal_shared[N];

static double *local_static(void)
{
    static double equal_local[N];
    return equal_local;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    sweep_for(equal_a, N, 0.34 * seconds);
    sweep_for(equal_b, N, 0.26 * seconds);
    sweep_for(equal_c, N, 0.18 * seconds);
    sweep_for(equal_shared, N, 0.13 * seconds);
    sweep_for(local_static(), N, 0.09 * seconds);
    require(equal_never[argc] == 0, "never used"); /* keeps the linker from dropping it */
    puts("globals ok");
    return 0;
}
