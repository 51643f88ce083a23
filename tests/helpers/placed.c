/* Ways in which threads use memory that the main thread has set up, for placements in the lab. What is counted there is the use alone.
 *
 *   placed serial ROUNDS     one array, each thread its quarter
 *   placed cyclic ROUNDS     two arrays, dealt out in blocks of 16 and of 4 pages
 *   placed table ROUNDS      one table, all threads at random
 *   placed lists ROUNDS      small nodes from one place, each thread its own list
 *   placed kinds ROUNDS      a static array, a heap block and a mapping, each thread its quarter of each
 *
 * Prints the milliseconds of the use, and a sum. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../lab/include/numamma_lab.h"

#define PAGE 4096L
#define MOST_THREADS 64
#define BYTES (8L << 20)
#define NODES 20000L

struct node {
    struct node *next;
    uint64_t value;
    char rest[48];
};

static int threads = 4;
static long rounds;
static char *array, *second, *mapping;
static char grid[BYTES] __attribute__((aligned(PAGE)));
static struct node *lists[MOST_THREADS];
static uint64_t sums[MOST_THREADS][8];
static pthread_barrier_t barrier;

/* Reads and writes one word of each cache line. */
static uint64_t sweep(char *from, char *to)
{
    uint64_t sum = 0;
    for (volatile uint64_t *p = (uint64_t *)from; (char *)p < to; p += 8)
        sum += (*p += 1);
    return sum;
}

static uint64_t quarter(char *of, long thread)
{
    return sweep(of + BYTES / threads * thread, of + BYTES / threads * (thread + 1));
}

static uint64_t dealt(char *of, long block, long thread)
{
    uint64_t sum = 0;
    for (long at = block * thread; at < BYTES; at += block * threads)
        sum += sweep(of + at, of + at + block);
    return sum;
}

static uint64_t at_random(char *of, uint64_t *state)
{
    uint64_t sum = 0, r = *state;
    for (int i = 0; i < 100000; i++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17;
        sum += *(volatile uint64_t *)(of + (r % (BYTES / 8)) * 8);
    }
    *state = r;
    return sum;
}

static uint64_t along(struct node *node)
{
    uint64_t sum = 0;
    for (; node; node = node->next)
        sum += node->value++;
    return sum;
}

static const char *what;

static void *work(void *number)
{
    const long thread = (long)number;
    uint64_t sum = 0, state = 88172645463325252u + (uint64_t)thread;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (long round = 0; round < rounds; round++) {
        switch (*what) {
        case 's': sum += quarter(array, thread); break;
        case 'c': sum += dealt(array, 16 * PAGE, thread) + dealt(second, 4 * PAGE, thread); break;
        case 't': sum += at_random(array, &state); break;
        case 'l': sum += along(lists[thread]); break;
        case 'k': sum += quarter(array, thread) + quarter(grid, thread) + quarter(mapping, thread); break;
        }
    }
    pthread_barrier_wait(&barrier);
    sums[thread][0] = sum;
    return NULL;
}

__attribute__((noinline)) static char *make_array(void)
{
    char *made = malloc(BYTES);
    memset(made, 1, BYTES);
    return made;
}

__attribute__((noinline)) static char *make_second(void)
{
    char *made = malloc(BYTES);
    memset(made, 2, BYTES); /* or the two functions would be made one */
    return made;
}

__attribute__((noinline)) static char *map_memory(void)
{
    char *made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(made, 1, BYTES);
    return made;
}

__attribute__((noinline)) static struct node *make_node(struct node *next)
{
    struct node *node = malloc(sizeof *node);
    node->next = next;
    node->value = 1;
    return node;
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (argc > 3 && (threads = atoi(argv[3])) > MOST_THREADS))
        return 2;
    what = argv[1];
    rounds = atol(argv[2]);
    /* The main thread is the first of them. */
    pthread_t others[MOST_THREADS];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (long n = 0; n < threads; n++)
        pthread_create(&others[n], NULL, work, (void *)n);
    pthread_barrier_wait(&barrier);
    if (*what == 'l') {
        for (long thread = 0; thread < threads; thread++)
            for (long i = 0; i < NODES / threads; i++)
                lists[thread] = make_node(lists[thread]);
    } else {
        array = make_array();
        if (*what == 'c')
            second = make_second();
        if (*what == 'k') {
            mapping = map_memory();
            memset(grid, 1, sizeof grid);
        }
    }
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
    const double began = milliseconds();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    const double ended = milliseconds();
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    uint64_t sum = 0;
    for (int n = 0; n < threads; n++) {
        pthread_join(others[n], NULL);
        sum += sums[n][0];
    }
    printf("%.0f %llu\n", ended - began, (unsigned long long)sum);
    return 0;
}
