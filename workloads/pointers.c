/* Pointers in a local variable, a global one, a structure and behind a pointer: built without and with optimisation. */
#include "workload.h"

enum { N = 1 << 17 };

struct mesh {
    long cells;
    double *weights;
};

double *table;
struct mesh world;

__attribute__((noinline)) static void fill(struct mesh *mesh, long n)
{
    mesh->cells = n;
    mesh->weights = malloc((size_t)n * sizeof *mesh->weights); /* site: weights */
    for (long i = 0; i < n; i++)
        mesh->weights[i] = 1;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *matrix = calloc(N, sizeof *matrix); /* site: matrix */
    double *aligned;
    struct mesh mesh;

    table = malloc(N * sizeof *table);                    /* site: table */
    world.weights = malloc(N * sizeof *world.weights);    /* site: world */
    if (posix_memalign((void **)&aligned, 64, N * sizeof *aligned)) /* site: aligned */
        return 1;
    fill(&mesh, N);
    for (long i = 0; i < N; i++)
        table[i] = aligned[i] = world.weights[i] = 1;

    sweep_for(matrix, N, 0.35 * seconds);
    sweep_for(table, N, 0.25 * seconds);
    sweep_for(world.weights, N, 0.05 * seconds);
    sweep_for(mesh.weights, N, 0.15 * seconds);
    sweep_for(aligned, N, 0.20 * seconds);
    puts("pointers ok");
    return 0;
}
