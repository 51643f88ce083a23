/* Allocations made to confuse an object with its successor at the same address: order THREADS OPS SEED LOG.
 *
 * Threads allocate, release, reallocate and hand blocks over to each other, all of few sizes; the first one forks now and then,
 * and its children do the same. Each process writes what it did to LOG.PID: records of `struct entry`.
 *
 * The number of an entry is taken after an acquisition has returned and before a release is called. So the entries about one
 * address are in the order of what happened there, whichever threads they are of.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACQUIRED = 1, RELEASED = 2, HELD = 64, SLOTS = 16, FORKS = 6, CHILD_OPS = 2000, MOST_THREADS = 64 };

struct entry {
    uint64_t number, address;
    uint32_t size, thread, site, what;
};

struct block {
    char *at;
    uint32_t size;
};

struct worker {
    pthread_t thread;
    unsigned index;
    uint32_t tid;
    uint64_t random;
    struct entry *log;
    size_t logged, room;
    struct block held[HELD];
};

static atomic_ullong next_number;
static _Atomic(char *) slots[SLOTS];
static struct worker workers[MOST_THREADS];
static unsigned threads;
static long ops;
static const char *log_name;
static pthread_barrier_t together;

/* The checker knows our blocks by their sizes: all are 7 more than a multiple of 16. */
static const uint32_t sizes[] = {23, 23, 39, 71, 71, 135, 263, 1031, 5127};

static unsigned below(struct worker *self, unsigned bound)
{
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((self->random >> 33) % bound);
}

static void note(struct worker *self, int what, const void *address, uint32_t size, uint32_t site)
{
    if (self->logged == self->room)
        abort();
    self->log[self->logged++] = (struct entry){atomic_fetch_add(&next_number, 1), (uintptr_t)address, size, self->tid, site, (uint32_t)what};
}

/* Call sites: a function each. */
#define SITE(name, call) \
    static __attribute__((noinline)) void *name(size_t size) \
    { \
        void *p = call; \
        __asm__ volatile("" : : "r"(p) : "memory"); \
        return p; \
    }
static void *aligned(size_t alignment, size_t size)
{
    void *p;
    return posix_memalign(&p, alignment, size) ? NULL : p;
}
SITE(site0, malloc(size))
SITE(site1, malloc(size))
SITE(site2, calloc(1, size))
SITE(site3, realloc(NULL, size))
SITE(site4, aligned(64, size))
SITE(site5, aligned_alloc(32, size))
SITE(site6, memalign(128, size))
SITE(site7, malloc(size))
enum { SITES = 8, PLACES = 4, SITE_OF_REALLOC = SITES * PLACES };
static void *(*const sites[SITES])(size_t) = {site0, site1, site2, site3, site4, site5, site6, site7};

/* Called in PLACES places: each makes another call stack of each site, and the log tells them apart. */
static __attribute__((noinline)) struct block acquire(struct worker *self, uint32_t size, uint32_t place)
{
    uint32_t site = below(self, SITES);
    struct block block = {sites[site](size), size};
    if (!block.at)
        abort();
    note(self, ACQUIRED, block.at, size, site * PLACES + place);
    memset(block.at, (int)size, 8);
    return block;
}

static void release(struct worker *self, char *at)
{
    note(self, RELEASED, at, 0, 0);
    free(at);
}

static __attribute__((noinline)) void change(struct worker *self, struct block *block, uint32_t size)
{
    note(self, RELEASED, block->at, 0, 0);
    block->at = realloc(block->at, size);
    if (!block->at)
        abort();
    note(self, ACQUIRED, block->at, size, SITE_OF_REALLOC);
    block->size = size;
}

static uint32_t some_size(struct worker *self) { return sizes[below(self, sizeof sizes / sizeof *sizes)]; }

static void step(struct worker *self)
{
    struct block *held = &self->held[below(self, HELD)];
    const unsigned what = below(self, 16);
    if (what < 5) { /* come and go */
        if (held->at) {
            release(self, held->at);
            held->at = NULL;
        } else {
            *held = acquire(self, some_size(self), 0);
            __asm__ volatile("# place 0");
        }
    } else if (what < 8) { /* released at once: the next of this size, of whichever thread, may have its address */
        struct block block = acquire(self, some_size(self), 1);
        __asm__ volatile("# place 1");
        release(self, block.at);
    } else if (what < 11) { /* handed over, and released by whom it comes to */
        struct block block = acquire(self, some_size(self), 2);
        __asm__ volatile("# place 2");
        char *got = atomic_exchange(&slots[below(self, SLOTS)], block.at);
        if (got)
            release(self, got);
    } else if (held->at && what < 14) { /* moves, grows and shrinks */
        change(self, held, some_size(self));
    } else if (held->at && what == 14) { /* fails: it lives on */
        if (realloc(held->at, (size_t)1 << 62))
            abort();
    } else if (held->at) { /* its successor at the same address, most probably */
        release(self, held->at);
        *held = acquire(self, held->size, 3);
        __asm__ volatile("# place 3");
    }
}

static void write_log(const struct worker *first, unsigned count)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", log_name, getpid());
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    for (const struct worker *self = first; self < first + count; self++)
        for (size_t done = 0, bytes = self->logged * sizeof *self->log; done < bytes;) {
            ssize_t written = write(file, (char *)self->log + done, bytes - done);
            if (written <= 0)
                abort();
            done += (size_t)written;
        }
    close(file);
}

static void child(struct worker *self)
{
    self->tid = (uint32_t)syscall(SYS_gettid);
    self->logged = 0; /* what was before is the parent's */
    for (int i = 0; i < CHILD_OPS; i++)
        step(self);
    write_log(self, 1);
    _exit(0);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    self->tid = (uint32_t)syscall(SYS_gettid);
    pthread_barrier_wait(&together);
    for (long i = 0; i < ops; i++) {
        if (self->index == 0 && i % (ops / FORKS) == ops / FORKS / 2) {
            pid_t pid = fork();
            if (pid == 0)
                child(self);
            int status;
            if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
                abort();
        }
        step(self);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5 || (threads = (unsigned)atoi(argv[1])) > MOST_THREADS || threads < 1 || (ops = atol(argv[2])) < 100)
        return 2;
    log_name = argv[4];
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        struct worker *self = &workers[i];
        self->index = i;
        self->random = strtoull(argv[3], NULL, 10) * 1000003 + i;
        self->room = (size_t)(ops > CHILD_OPS ? ops : CHILD_OPS) * 2;
        self->log = mmap(NULL, self->room * sizeof *self->log, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (self->log == MAP_FAILED)
            return 3;
    }
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            return 4;
    work(&workers[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    write_log(workers, threads);
    return 0;
}
