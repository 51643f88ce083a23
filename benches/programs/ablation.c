/* One loop over two or three arrays, of which any can be kept in the first-level cache: what the others then save in time is what
 * that array costs.
 *
 *   ablation CASE OBJECTS ROUNDS    OBJECTS: letters of the arrays to keep in the cache, `-` for none
 *
 * Each index goes through a mask: of all elements, or of the first 4 KiB. So every variant executes the same instructions, on
 * numbers of the same kind; what differs is where one array's data comes from. */
#include "report_times.h"

#include <stdint.h>
#include <string.h>

enum { ELEMENTS = 16 << 20, NEAR = 1 << 10 }; /* of 4 bytes: 64 MiB, beyond the caches; 4 KiB, well within the first */

/* The masks of arrays a, b, c. */
static uint32_t mask[3];

/* Odd factors and a rotation: another place in each round, in an order that no prefetcher follows. */
static inline uint32_t scatter(uint32_t n)
{
    n *= 2654435761u;
    return (n ^ n >> 15) * 2246822519u >> 3;
}

/* All three read in order. */
__attribute__((noinline)) static uint32_t streams(const uint32_t *a, const uint32_t *b, const uint32_t *c, long rounds)
{
    uint32_t sum = 0, ma = mask[0], mb = mask[1], mc = mask[2];
    for (long i = 0; i < rounds; i++)
        sum += a[16 * i & ma] + b[16 * i & mb] + c[16 * i & mc];
    return sum;
}

/* Each load's address is known only when the load before it is done: misses wait for each other. */
__attribute__((noinline)) static uint32_t chase(const uint32_t *a, const uint32_t *b, long rounds)
{
    uint32_t at = 0, ma = mask[0], mb = mask[1];
    for (long i = 0; i < rounds; i++) {
        at = a[scatter(at + (uint32_t)i) & ma];
        at = b[scatter(at + (uint32_t)i) & mb];
    }
    return at;
}

/* Addresses are known long before: misses of both, and of several rounds, overlap. */
__attribute__((noinline)) static uint32_t gathers(const uint32_t *a, const uint32_t *b, long rounds)
{
    uint32_t sum = 0, ma = mask[0], mb = mask[1];
    for (long i = 0; i < rounds; i++)
        sum += a[scatter((uint32_t)i) & ma] ^ b[scatter((uint32_t)i + 77) & mb];
    return sum;
}

/* `a` is chased; `b` is read at places that do not depend on it, so its misses hide behind those of `a`. */
__attribute__((noinline)) static uint32_t hidden(const uint32_t *a, const uint32_t *b, long rounds)
{
    uint32_t at = 0, sum = 0, ma = mask[0], mb = mask[1];
    for (long i = 0; i < rounds; i++) {
        at = a[scatter(at + (uint32_t)i) & ma];
        sum += b[scatter((uint32_t)i + 77) & mb];
    }
    return at + sum;
}

/* `a` is read in order, `b` at random: two misses of different kinds side by side. */
__attribute__((noinline)) static uint32_t mixed(const uint32_t *a, const uint32_t *b, long rounds)
{
    uint32_t sum = 0, ma = mask[0], mb = mask[1];
    for (long i = 0; i < rounds; i++)
        sum += a[16 * i & ma] + b[scatter((uint32_t)i) & mb];
    return sum;
}

static void fill(uint32_t *p)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        p[i] = scatter(i);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *near = argc > 2 ? argv[2] : "-";
    long rounds = count_of(argc - 2, argv + 2, 1000000);
    const size_t bytes = ELEMENTS * sizeof(uint32_t);
    uint32_t *a = malloc(bytes);
    uint32_t *b = malloc(bytes);
    uint32_t *c = malloc(bytes);
    volatile uint32_t sink;

    for (int n = 0; n < 3; n++)
        mask[n] = (strchr(near, 'a' + n) ? NEAR : ELEMENTS) - 1;
    fill(a);
    fill(b);
    fill(c);
    work_begins();
    if (!strcmp(name, "streams"))
        sink = streams(a, b, c, rounds);
    else if (!strcmp(name, "chase"))
        sink = chase(a, b, rounds);
    else if (!strcmp(name, "gathers"))
        sink = gathers(a, b, rounds);
    else if (!strcmp(name, "hidden"))
        sink = hidden(a, b, rounds);
    else if (!strcmp(name, "mixed"))
        sink = mixed(a, b, rounds);
    else
        return 2;
    work_ends();
    (void)sink;
    free(a);
    free(b);
    free(c);
    return 0;
}
