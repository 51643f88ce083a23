/* Address reuse across threads: a realloc of thread 0 moves its block, and thread 1 is given the old place at once. A
 * realloc whose release is recorded late makes two objects live at one address. Known times: before 1, moved 2, taken 1. */
#include "workload.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>

enum { N = 65536, MIB = 1 << 20 }; /* 512 KiB */

static uintptr_t old_place;
static int same, rounds;
static pthread_barrier_t barrier;
static double unit;

static void *second(void *unused)
{
    for (int i = 0; i < rounds; i++) {
        pthread_barrier_wait(&barrier); /* thread 0 has moved its block */
        double *p = malloc(N * sizeof *p); /* site: taken */
        same += (uintptr_t)p == old_place;
        memset(p, 0, N * sizeof *p);
        sweep_for(p, N, unit);
        free(p);
        pthread_barrier_wait(&barrier); /* the place is free again */
    }
    return unused;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    pthread_t thread;

    unit = 0.0023; /* no whole milliseconds: they would beat with a sampler of 1 kHz */
    rounds = (int)(seconds / (4 * unit));
    /* One arena for both threads, no block mapped on its own: else thread 1 would not be given a place of thread 0's. */
    require(mallopt(M_ARENA_MAX, 1) && mallopt(M_MMAP_THRESHOLD, 32 * MIB), "mallopt");
    require(mallopt(M_TRIM_THRESHOLD, 64 * MIB), "mallopt");
    require(pthread_barrier_init(&barrier, NULL, 2) == 0, "barrier");
    require(pthread_create(&thread, NULL, second, NULL) == 0, "pthread_create");
    for (int i = 0; i < rounds; i++) {
        double *p = malloc(N * sizeof *p); /* site: before */
        /* Behind it, so that realloc cannot grow in place; volatile, or gcc leaves it out. */
        char *volatile wall = malloc(MIB);
        memset(p, 0, N * sizeof *p);
        sweep_for(p, N, unit);
        old_place = (uintptr_t)p;
        p = realloc(p, 2 * N * sizeof *p); /* site: moved */
        pthread_barrier_wait(&barrier);
        sweep_for(p, 2 * N, 2 * unit);
        pthread_barrier_wait(&barrier);
        free(p);
        free(wall);
    }
    pthread_join(thread, NULL);
    require(same >= rounds / 2, "thread 1 is given the old place");
    puts("reuse_threads ok");
    return 0;
}
