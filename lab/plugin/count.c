#define _GNU_SOURCE
#include "count.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "caches.h"
#include "numamma_lab.h"

/* A CPU that has to wait for longer lets others run, and sleeps; nanoseconds. */
#define YIELDS 2000
#define SLEEPS 20000
/* So much before the end it is to be awake. */
#define WAKES 8000

static struct lab_table *table;
static double ticks_per_ns;
static struct nmc_private *caches[LAB_CPUS];

/* When a node has served all that it was asked for, in ticks. */
static struct {
    uint64_t free;
    char unshared[56];
} nodes[LAB_NODES] __attribute__((aligned(64)));

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

/* QEMU interrupts nothing here. */
uint64_t nmc_guard(void) { return 0; }

void nmc_unguard(uint64_t before) { (void)before; }

static bool make_caches(void)
{
    const struct nmm_caches shape = table->caches;
    if (shape.line == 0)
        return true;
    if (shape.sockets == 0 || table->cpus % shape.sockets != 0 || !nmc_begin(&shape))
        return false;
    for (uint64_t cpu = 0; cpu < table->cpus; cpu++)
        if ((caches[cpu] = nmc_new((uint32_t)(cpu / (table->cpus / shape.sockets)))) == NULL)
            return false;
    return true;
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
        && table->span != 0 && make_caches();
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

bool lab_caches(void) { return __atomic_load_n(&table->caching, __ATOMIC_RELAXED) != 0; }

/* True if one of the two ways of an access reaches memory. */
static bool reaches(unsigned cpu, const struct lab_access *access, bool write)
{
    if (access->goes_on)
        return nmc_reaches_on(caches[cpu], access->address, access->bytes, access->ip, write);
    return nmc_reaches(caches[cpu], access->address, access->bytes, access->ip, write);
}

/* A node serves one access after the other: when it has served this one. */
static uint64_t served(uint64_t node, uint64_t service)
{
    const uint64_t now = __rdtsc();
    uint64_t free = __atomic_load_n(&nodes[node].free, __ATOMIC_RELAXED), end;
    do {
        end = (free > now ? free : now) + service;
    } while (!__atomic_compare_exchange_n(&nodes[node].free, &free, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return end;
}

static uint64_t ticks(uint64_t nanoseconds) { return (uint64_t)((double)nanoseconds * ticks_per_ns); }

/* Lets the host do other things until shortly before that time. What sleeps is woken before what computes is done with its slice; what
 * yields is not, so that on a busy host each wait could take milliseconds. */
static void sleep_until(uint64_t end, uint64_t now)
{
    static __thread bool is_exact;
    if (!is_exact)
        is_exact = prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul) == 0;
    const double nanoseconds = (double)(end - now) / ticks_per_ns - WAKES;
    const struct timespec rest = {.tv_sec = (time_t)(nanoseconds / 1e9), .tv_nsec = (long)nanoseconds % 1000000000};
    nanosleep(&rest, NULL);
}

/* The CPU goes on when memory has answered. */
static void wait(unsigned cpu, uint64_t node)
{
    const uint64_t delay = table->delay[cpu][node], queue = table->queue;
    if (delay == 0 && queue == 0)
        return;
    const uint64_t end = (queue ? served(node, ticks(queue)) : __rdtsc()) + ticks(delay);
    for (uint64_t now; (now = __rdtsc()) < end;) {
        /* In a queue others that wait may have less of it left, and no CPU of the host. */
        if (end - now > ticks(SLEEPS))
            sleep_until(end, now);
        else if (queue != 0 && end - now > ticks(YIELDS))
            sched_yield();
    }
}

void lab_access(unsigned cpu, struct lab_access access)
{
    const uint64_t node = access.address / table->span;
    if (cpu >= table->cpus || node >= table->nodes) {
        __atomic_fetch_add(&table->astray, 1, __ATOMIC_RELAXED);
        return;
    }
    if (lab_caches()) {
        access.reads = access.reads && reaches(cpu, &access, false);
        access.writes = access.writes && reaches(cpu, &access, true);
        if (!access.reads && !access.writes)
            return;
    }
    struct lab_cell *cell = &table->counted[cpu][node];
    if (access.reads)
        add_one(&cell->reads);
    if (access.writes)
        add_one(&cell->writes);
    wait(cpu, node);
}
