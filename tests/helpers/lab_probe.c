/* Placement and accesses that a test in the lab can foretell.
 *
 *   lab_probe read CPU NODE READS          READS loads by CPU of memory on NODE; prints the nanoseconds of each
 *   lab_probe marked CPU NODE READS        the same, and only they are counted
 *   lab_probe split CPU:NODE:WRITES...     a thread for each, at the same time, and only they are counted; prints
 *                                          the nanoseconds that it took
 *   lab_probe weighted                     whether the kernel takes weighted interleaving */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/include/numamma_lab.h"

enum { BYTES = 1 << 20, BIND = 2, WEIGHTED_INTERLEAVE = 6 };

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(99);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static volatile long *memory_on(int node)
{
    unsigned long mask = 1ul << node;
    long *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    must(syscall(SYS_mbind, memory, BYTES, BIND, &mask, 65, 0) == 0, "mbind");
    for (size_t i = 0; i < BYTES; i += 4096)
        *(volatile char *)((char *)memory + i) = 1;
    return memory;
}

static void read_all(char **words, int marked)
{
    const int node = atoi(words[1]);
    const long reads = atol(words[2]);
    struct timespec begin, end;
    pin(atoi(words[0]));
    volatile long *memory = memory_on(node);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (marked) {
        NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
        NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
    }
    for (long i = 0; i < reads; i++)
        (void)memory[i * 8 % (BYTES / 8)];
    if (marked)
        NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)reads);
}

struct part {
    int cpu, node;
    long writes;
};

static pthread_barrier_t barrier;

static void *write_part(void *argument)
{
    /* Not read again in the loop. */
    const struct part part = *(const struct part *)argument;
    pin(part.cpu);
    volatile long *memory = memory_on(part.node);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < part.writes; i++)
        memory[i * 8 % (BYTES / 8)] = i;
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void split(int count, char **words)
{
    pthread_t threads[64];
    static struct part parts[64];
    must(count <= 64 && pthread_barrier_init(&barrier, NULL, (unsigned)count + 1) == 0, "barrier");
    for (int i = 0; i < count; i++) {
        must(sscanf(words[i], "%d:%d:%ld", &parts[i].cpu, &parts[i].node, &parts[i].writes) == 3, words[i]);
        must(pthread_create(&threads[i], NULL, write_part, &parts[i]) == 0, "pthread_create");
    }
    struct timespec begin, end;
    /* What the loader and the setting up have written does not count. */
    pthread_barrier_wait(&barrier);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.0f\n", (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void weighted(void)
{
    unsigned long mask = 3;
    const long status = syscall(SYS_set_mempolicy, WEIGHTED_INTERLEAVE, &mask, 65);
    printf("%s\n", status == 0 ? "taken" : strerror(errno));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "read") == 0 && argc == 5)
        read_all(argv + 2, 0);
    else if (strcmp(what, "marked") == 0 && argc == 5)
        read_all(argv + 2, 1);
    else if (strcmp(what, "split") == 0)
        split(argc - 2, argv + 2);
    else if (strcmp(what, "weighted") == 0)
        weighted();
    else
        return 2;
    return 0;
}
