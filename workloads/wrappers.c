/* Memory from a program's own allocator of two layers, from a function that the user calls one, and from a function that
 * makes something of what it allocates: that one is no wrapper, though it is called as often. */
#include "workload.h"

enum { N = 1 << 17 }; /* 1 MiB each */

static long allocated;

__attribute__((noinline)) static void *raw_alloc(size_t bytes)
{
    void *p = malloc(bytes);
    require(p != NULL, "memory");
    return p;
}

__attribute__((noinline)) static void *my_alloc(size_t bytes)
{
    void *p = raw_alloc(bytes);
    allocated += (long)bytes;
    return p;
}

/* Nothing but its name says that it is a wrapper: it returns doubles and fills them. */
__attribute__((noinline)) static double *grid_alloc(size_t n)
{
    double *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = 1;
    return p;
}

__attribute__((noinline)) static double *init_matrix(size_t n)
{
    double *m = malloc(n * sizeof *m); /* site: matrix */
    for (size_t i = 0; i < n; i++)
        m[i] = 2;
    return m;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *first = my_alloc(N * sizeof *first);   /* site: first */
    double *second = my_alloc(N * sizeof *second); /* site: second */
    double *third = my_alloc(N * sizeof *third);   /* site: third */
    double *coarse = grid_alloc(N);                /* site: coarse */
    double *fine = grid_alloc(N);                  /* site: fine */
    double *matrices[3];
    matrices[0] = init_matrix(N);
    matrices[1] = init_matrix(N);
    matrices[2] = init_matrix(N);

    sweep_for(first, N, 0.30 * seconds);
    sweep_for(second, N, 0.10 * seconds);
    sweep_for(third, N, 0.05 * seconds);
    sweep_for(coarse, N, 0.20 * seconds);
    sweep_for(fine, N, 0.05 * seconds);
    for (int m = 0; m < 3; m++)
        sweep_for(matrices[m], N, 0.10 * seconds);
    require(allocated == 3 * (long)(N * sizeof(double)), "bytes");
    puts("wrappers ok");
    return 0;
}
