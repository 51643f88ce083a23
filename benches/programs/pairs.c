/* What a malloc and its free cost, 12 frames of ours deep: pairs fixed|mixed THREADS PAIRS.
 *
 * `fixed`: 64 bytes, released at once, one call site. `mixed`: sizes from 16 bytes to 4 KiB from eight call sites, each block
 * released when 64 younger ones exist. To be compiled without frame pointers: that is what programs are.
 *
 * Prints `ns N`, nanoseconds of a pair on each thread, the best of five turns: what disturbs a turn makes it longer.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_THREADS 16
#define TURNS 5
#define NOINLINE __attribute__((noinline))
#define USED(p) __asm__ volatile("" : : "r"(p) : "memory")

static long count;
static int mixed;
static pthread_barrier_t together;
static double best[MOST_THREADS];

static NOINLINE void fixed_pairs(void)
{
    for (long i = 0; i < count; i++) {
        void *p = malloc(64);
        USED(p);
        free(p);
    }
}

#define SITE(name) \
    static NOINLINE void *name(size_t size) \
    { \
        void *p = malloc(size); \
        USED(p); \
        return p; \
    }
SITE(site0) SITE(site1) SITE(site2) SITE(site3) SITE(site4) SITE(site5) SITE(site6) SITE(site7)

static NOINLINE void mixed_pairs(void)
{
    static void *(*const sites[])(size_t) = {site0, site1, site2, site3, site4, site5, site6, site7};
    static const size_t sizes[] = {16, 24, 24, 32, 40, 48, 64, 72, 96, 128, 200, 256, 400, 700, 1500, 4096};
    void *live[64] = {NULL};
    unsigned random = 1;
    for (long i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        void **slot = &live[i % 64];
        free(*slot);
        *slot = sites[random >> 16 & 7](sizes[random >> 24 & 15]);
    }
    for (int i = 0; i < 64; i++)
        free(live[i]);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static NOINLINE void down(int depth)
{
    if (depth > 1)
        down(depth - 1);
    else if (mixed)
        mixed_pairs();
    else
        fixed_pairs();
    USED(&depth); /* no tail call */
}

static void *work(void *which)
{
    double *mine = which;
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_barrier_wait(&together);
        double begin = now();
        down(10); /* with work and the pairs: 12 */
        double ns = (now() - begin) / (double)count;
        if (turn == 0 || ns < *mine)
            *mine = ns;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc == 4 ? atoi(argv[2]) : 0;
    if (threads < 1 || threads > MOST_THREADS || (count = atol(argv[3])) < 1) {
        fputs("usage: pairs fixed|mixed THREADS PAIRS\n", stderr);
        return 2;
    }
    mixed = strcmp(argv[1], "mixed") == 0;
    pthread_t others[MOST_THREADS];
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &best[i]))
            return 1;
    work(&best[0]);
    double sum = best[0];
    for (int i = 1; i < threads; i++) {
        pthread_join(others[i], NULL);
        sum += best[i];
    }
    printf("ns %.2f\n", sum / threads);
    return 0;
}
