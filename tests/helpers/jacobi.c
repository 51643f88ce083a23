/* Jacobi's method on a square grid that the main thread sets up: each thread has a band of rows, and reads a row of each neighbour.
 *
 *   jacobi ROUNDS */
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 320 }; /* 0.8 MiB a grid */

static void set_up(double *grid)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        grid[i] = i % SIDE == 0 ? 100 : 1;
}

static void relax(double *restrict to, const double *restrict from)
{
#pragma omp parallel for schedule(static)
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++) {
            const double *at = from + y * SIDE + x;
            to[y * SIDE + x] = 0.25 * (at[-1] + at[1] + at[-SIDE] + at[SIDE]);
        }
}

int main(int argc, char **argv)
{
    double *old = malloc(sizeof(double) * SIDE * SIDE);
    double *new = malloc(sizeof(double) * SIDE * SIDE);
    set_up(old);
    set_up(new);
    for (int round = argc > 1 ? atoi(argv[1]) : 8; round > 0; round -= 2) {
        relax(new, old);
        relax(old, new);
    }
    printf("%g\n", old[SIDE + 1]);
    return 0;
}
