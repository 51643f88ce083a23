/* A program that says by itself what its memory is and when its phases begin.
 *
 *   annotated names MILLISECONDS     parts of one pool, by name; sampled between two marks
 *   annotated phases ROUNDS          one array by halves, then by interleaved blocks: phases "halves" and "mixed", by marks
 *   annotated functions ROUNDS       the same, by functions that begin them
 *   annotated quiet                  does nothing with it
 *
 * Prints what `names` touched, or the milliseconds of the phases. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../inject/annotate/numamma.h"
#include "../../lab/include/numamma_lab.h"

#define PAGE 4096L
#define BYTES (8L << 20)
#define THREADS 4

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static uint64_t sweep(char *from, char *to)
{
    uint64_t sum = 0;
    for (volatile uint64_t *p = (uint64_t *)from; (char *)p < to; p += 8)
        sum += (*p += 1);
    return sum;
}

static void sweep_for(char *from, char *to, double length)
{
    const double began = milliseconds();
    while (milliseconds() - began < length)
        sweep(from, to);
}

/* Three quarters of the time in one part of a pool, the rest in another; what comes before and after is not wanted. */
static int names(double length)
{
    char *pool = malloc(BYTES);
    memset(pool, 1, BYTES);
    numamma_label(pool, BYTES / 4, "input");
    numamma_label(pool + BYTES / 2, BYTES / 4, "output");
    sweep_for(pool + BYTES / 4, pool + BYTES / 2, length / 2);
    numamma_begin();
    sweep_for(pool, pool + BYTES / 4, length * 3 / 4);
    sweep_for(pool + BYTES / 2, pool + BYTES * 3 / 4, length / 4);
    numamma_end();
    sweep_for(pool + BYTES / 4, pool + BYTES / 2, length / 2);
    numamma_unlabel(pool);
    free(pool);
    /* Where the pool was lies something else now. */
    char *next = malloc(BYTES);
    memset(next, 1, BYTES);
    printf("%p %d\n", (void *)next, next[5]);
    free(next);
    return 0;
}

static char *array;
static long rounds;
static int mixed;
static pthread_barrier_t barrier;

__attribute__((noinline)) void begin_halves(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void begin_mixed(void) { __asm__ volatile("" ::: "memory"); }

static void *work(void *number)
{
    const long thread = (long)number;
    for (int phase = 0; phase < 2; phase++) {
        pthread_barrier_wait(&barrier);
        for (long round = 0; round < rounds; round++) {
            if (!mixed)
                sweep(array + BYTES / THREADS * thread, array + BYTES / THREADS * (thread + 1));
            else
                for (long at = 16 * PAGE * thread; at < BYTES; at += 16 * PAGE * THREADS)
                    sweep(array + at, array + at + 16 * PAGE);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

__attribute__((noinline)) static char *make_array(void)
{
    char *made = malloc(BYTES);
    memset(made, 1, BYTES);
    return made;
}

static int phases(int by_function)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    array = make_array();
    for (long n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, work, (void *)n);
    double took[2];
    for (mixed = 0; mixed < 2; mixed++) {
        if (!by_function)
            numamma_phase(mixed ? "mixed" : "halves");
        else if (mixed)
            begin_mixed();
        else
            begin_halves();
        if (by_function) {
            /* Who moves memory from outside is not waited for. */
            const struct timespec moment = {.tv_nsec = 500000000};
            nanosleep(&moment, NULL);
        }
        if (!mixed) {
            NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
            NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
        } else {
            NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
        }
        took[mixed] = milliseconds();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        took[mixed] = milliseconds() - took[mixed];
        NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    }
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    numamma_phase(NULL);
    printf("%.0f %.0f %d\n", took[0], took[1], array[5]);
    free(array);
    return 0;
}

int main(int argc, char **argv)
{
    rounds = argc > 2 ? atol(argv[2]) : 1;
    switch (argc > 1 ? argv[1][0] : 0) {
    case 'n': return names((double)rounds);
    case 'p': return phases(0);
    case 'f': return phases(1);
    case 'q':
        numamma_label(argv, 8, "arguments");
        numamma_phase("quiet");
        numamma_begin();
        numamma_end();
        numamma_unlabel(argv);
        return 0;
    }
    return 2;
}
