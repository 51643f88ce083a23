/* k-means over points that thread 0 reads in, with a table that all threads look up at random: one is partitioned, one is shared.
 *
 *   kmeans ROUNDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 1 << 14, DIMENSIONS = 8, CENTRES = 8, TABLE = 1 << 17 }; /* 1 MiB of points, 1 MiB of weights */

static double (*points)[DIMENSIONS];
static double *weights;
static double centres[CENTRES][DIMENSIONS];

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void set_up(void)
{
    uint64_t state = 88172645463325252u;
    points = malloc(POINTS * sizeof *points);
    weights = malloc(TABLE * sizeof *weights);
    for (long i = 0; i < POINTS; i++)
        for (int d = 0; d < DIMENSIONS; d++)
            points[i][d] = (double)(next(&state) % 1000);
    for (long i = 0; i < TABLE; i++)
        weights[i] = 1 + (double)(i % 3);
    for (int c = 0; c < CENTRES; c++)
        for (int d = 0; d < DIMENSIONS; d++)
            centres[c][d] = (double)(next(&state) % 1000);
}

static int nearest(const double *point)
{
    int best = 0;
    double least = 1e300;
    for (int c = 0; c < CENTRES; c++) {
        double sum = 0;
        for (int d = 0; d < DIMENSIONS; d++)
            sum += (point[d] - centres[c][d]) * (point[d] - centres[c][d]);
        best = sum < least ? c : best;
        least = sum < least ? sum : least;
    }
    return best;
}

static void iterate(void)
{
    double sums[CENTRES][DIMENSIONS] = {{0}}, counts[CENTRES] = {0};
#pragma omp parallel for schedule(static) reduction(+ : sums, counts)
    for (long i = 0; i < POINTS; i++) {
        const int c = nearest(points[i]);
        const double weight = weights[(uint64_t)(i * 2654435761u + (uint64_t)c * 40503u) % TABLE];
        for (int d = 0; d < DIMENSIONS; d++)
            sums[c][d] += weight * points[i][d];
        counts[c] += weight;
    }
    for (int c = 0; c < CENTRES; c++)
        for (int d = 0; d < DIMENSIONS && counts[c] > 0; d++)
            centres[c][d] = sums[c][d] / counts[c];
}

int main(int argc, char **argv)
{
    set_up();
    for (int round = argc > 1 ? atoi(argv[1]) : 4; round > 0; round--)
        iterate();
    printf("%g\n", centres[0][0]);
    return 0;
}
