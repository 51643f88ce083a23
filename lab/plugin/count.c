#define _GNU_SOURCE
#include "count.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "numamma_lab.h"

static struct lab_table *table;
static double ticks_per_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time-stamp counter is read thousands of times for one reading of the clock that it would take. */
static void measure_ticks(void)
{
    const uint64_t begin = now_ns(), ticks = __rdtsc();
    uint64_t end;
    while ((end = now_ns()) - begin < 10000000)
        ;
    ticks_per_ns = (double)(__rdtsc() - ticks) / (double)(end - begin);
}

bool lab_join(const char *path, unsigned cpus)
{
    struct stat status;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return false;
    void *mapped = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_size == sizeof *table)
        mapped = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        return false;
    table = mapped;
    measure_ticks();
    return table->magic == LAB_TABLE_MAGIC && table->cpus == cpus && cpus <= LAB_CPUS && table->nodes <= LAB_NODES
        && table->span != 0;
}

/* Only a CPU writes its own counters; others may read them meanwhile. */
static void add_one(uint64_t *counter) { __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED); }

/* Counters only grow, so that none of the CPUs need to stop for this. */
static void forget(void)
{
    for (uint64_t cpu = 0; cpu < table->cpus; cpu++) {
        for (uint64_t node = 0; node < table->nodes; node++) {
            const struct lab_cell *cell = &table->counted[cpu][node];
            table->before[cpu][node].reads = __atomic_load_n(&cell->reads, __ATOMIC_RELAXED);
            table->before[cpu][node].writes = __atomic_load_n(&cell->writes, __ATOMIC_RELAXED);
        }
    }
}

void lab_mark(uint32_t mark)
{
    switch (mark) {
    case NUMAMMA_LAB_START:
        __atomic_store_n(&table->counting, 1, __ATOMIC_RELAXED);
        break;
    case NUMAMMA_LAB_STOP:
        __atomic_store_n(&table->counting, 0, __ATOMIC_RELAXED);
        break;
    case NUMAMMA_LAB_RESET:
        forget();
        break;
    }
}

bool lab_counts(void) { return __atomic_load_n(&table->counting, __ATOMIC_RELAXED) != 0; }

void lab_access(unsigned cpu, uint64_t address, bool reads, bool writes)
{
    const uint64_t node = address / table->span;
    if (cpu >= table->cpus || node >= table->nodes) {
        __atomic_fetch_add(&table->astray, 1, __ATOMIC_RELAXED);
        return;
    }
    struct lab_cell *cell = &table->counted[cpu][node];
    if (reads)
        add_one(&cell->reads);
    if (writes)
        add_one(&cell->writes);
    const uint64_t delay = table->delay[cpu][node];
    if (delay != 0) {
        const uint64_t begin = __rdtsc(), ticks = (uint64_t)((double)delay * ticks_per_ns);
        while (__rdtsc() - begin < ticks)
            ;
    }
}
