#define _GNU_SOURCE
#include "count.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"
#include "touched.h"

/* Accesses between two looks at the clock: some milliseconds. A counter cannot overflow in the meantime. */
#define LOOK 1000000u
/* Counters are sent this often, nanoseconds: what a program that is killed takes with it. */
#define EPOCH 100000000u
/* Pages with counters for each 4 bytes that a thread may have: 16 MiB of them. */
#define FINE_PAGES 2048u
#define FIRST_PLACES 1024u
#define MOST_PLACES (1u << 19)
/* Counters without accesses that an event may carry in between, rather than be split. */
#define LARGEST_GAP 3u

/* What others look at too. */
struct nmx_table {
    pthread_mutex_t lock;
    struct nmx_thread thread;
    struct nmx_writer writer;
    int tid;
    uint64_t sent;          /* when, nanoseconds */
    struct nmx_page *places;
    uint32_t places_count, used;
    struct nmx_counter *fine; /* FINE_PAGES pages of counters, the used ones first */
    uint32_t fine_used;
    struct nmx_table *next, **link;
};

__thread struct nmx_thread *nmx_self;

static struct nmx_table *tables;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
/* Fits no address. */
static struct nmx_page no_page = {.numbers = {NMX_NONE, NMX_NONE}};

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fputs("numamma: out of memory for the counters of accesses\n", stderr);
        _exit(125);
    }
    return memory;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void forget_cache(struct nmx_table *table)
{
    for (unsigned i = 0; i < NMX_CACHE; i++)
        table->thread.cache[i] = &no_page;
}

static void begin_thread(void)
{
    struct nmx_table *table = map(sizeof *table);
    pthread_mutex_init(&table->lock, NULL);
    table->tid = (int)syscall(SYS_gettid);
    table->sent = now();
    table->places_count = FIRST_PLACES;
    table->places = map(FIRST_PLACES * sizeof *table->places);
    table->fine = map((size_t)FINE_PAGES * NMX_WORDS * sizeof *table->fine);
    table->thread.table = table;
    table->thread.until_look = LOOK;
    forget_cache(table);
    nmx_attach(&table->writer);
    pthread_mutex_lock(&tables_lock);
    table->next = tables;
    table->link = &tables;
    if (tables)
        tables->link = &table->next;
    tables = table;
    pthread_mutex_unlock(&tables_lock);
    nmx_self = &table->thread;
}

struct nmx_writer *nmx_writer(void)
{
    if (nmx_self == NULL)
        begin_thread();
    return &nmx_self->table->writer;
}

static uint32_t place_of(const struct nmx_table *table, uint64_t page)
{
    return (uint32_t)(page * 0x9e3779b97f4a7c15ull >> 32) & (table->places_count - 1);
}

/* The place of a page, or the free one where it is to be put. */
static struct nmx_page *lookup(const struct nmx_table *table, uint64_t page)
{
    uint32_t at = place_of(table, page);
    while (table->places[at].key != 0 && table->places[at].key != page + 1)
        at = (at + 1) & (table->places_count - 1);
    return &table->places[at];
}

static void send(struct nmx_writer *to, const struct nmx_table *of, uint64_t address, const struct nmx_counter *counters, size_t count)
{
    const uint64_t payload[] = {address, (uint64_t)of->tid};
    _Static_assert(sizeof *counters == sizeof(uint64_t), "a counter is a word of the event");
    nmx_emit(to, NMM_ACCESSES, 0, payload, 2, (const uint64_t *)counters, count);
}

static bool is_zero(const struct nmx_counter *counter) { return counter->reads == 0 && counter->writes == 0; }

/* Sends and clears the counters `from` to `to` of a fine page, in runs. */
static void send_fine(struct nmx_writer *writer, const struct nmx_table *of, const struct nmx_page *page, unsigned from, unsigned to)
{
    const uint64_t address = (page->key - 1) << 12;
    for (unsigned at = from; at < to;) {
        if (is_zero(&page->fine[at])) {
            at++;
            continue;
        }
        unsigned end = at + 1;
        for (unsigned next = end; next < to && next - end <= LARGEST_GAP; next++)
            if (!is_zero(&page->fine[next]))
                end = next + 1;
        send(writer, of, address + 4 * at, &page->fine[at], end - at);
        memset(&page->fine[at], 0, (end - at) * sizeof *page->fine);
        at = end;
    }
}

static void send_coarse(struct nmx_writer *writer, const struct nmx_table *of, struct nmx_page *page)
{
    if (!is_zero(&page->coarse))
        send(writer, of, (page->key - 1) << 12, &page->coarse, 1);
    page->coarse = (struct nmx_counter){0, 0};
}

/* Sends all of a table and empties it. Under its lock; by another thread only if its own stands still. */
static void empty(struct nmx_writer *writer, struct nmx_table *table)
{
    for (uint32_t i = 0; table->used > 0 && i < table->places_count; i++) {
        struct nmx_page *page = &table->places[i];
        if (page->key == 0)
            continue;
        if (page->fine)
            send_fine(writer, table, page, 0, NMX_WORDS);
        else
            send_coarse(writer, table, page);
        *page = (struct nmx_page){0};
    }
    table->used = table->fine_used = 0;
    forget_cache(table);
    table->sent = now();
}

static void grow(struct nmx_table *table)
{
    struct nmx_page *old = table->places;
    const uint32_t count = table->places_count;
    table->places_count = 2 * count;
    table->places = map(2ull * count * sizeof *old);
    for (uint32_t i = 0; i < count; i++)
        if (old[i].key != 0)
            *lookup(table, old[i].key - 1) = old[i];
    munmap(old, count * sizeof *old);
    forget_cache(table);
}

static struct nmx_page *find(struct nmx_thread *self, uint64_t address, uint64_t ip, bool write)
{
    struct nmx_table *table = self->table;
    const uint64_t number = address >> 12;
    pthread_mutex_lock(&table->lock);
    struct nmx_page *page = lookup(table, number);
    if (page->key == 0) {
        const bool full = table->used == MOST_PLACES / 2 || table->fine_used == FINE_PAGES;
        if (full)
            empty(&table->writer, table);
        else if (table->used == table->places_count / 2)
            grow(table);
        page = lookup(table, number);
        page->key = number + 1;
        page->numbers[0] = page->numbers[1] = NMX_NONE;
        table->used++;
    }
    if (page->numbers[write] == NMX_NONE && nmx_touch(address, write)) {
        const uint64_t payload[] = {address, ip};
        nmx_emit(&table->writer, NMM_TOUCH, write ? 2 : 1, payload, 2, NULL, 0);
    }
    if (page->numbers[0] == NMX_NONE) {
        page->coarse = (struct nmx_counter){0, 0};
        /* Retired, so that its kind is to be decided anew; or never used. */
        if (!nmx_block_holds(number << 12)) {
            if (table->fine_used == FINE_PAGES) {
                empty(&table->writer, table);
                page = lookup(table, number);
                page->key = number + 1;
                page->numbers[1] = NMX_NONE;
                table->used++;
            }
            page->fine = &table->fine[(size_t)table->fine_used++ * NMX_WORDS];
        }
        page->numbers[0] = number;
    }
    if (write)
        page->numbers[1] = number;
    pthread_mutex_unlock(&table->lock);
    self->cache[number & (NMX_CACHE - 1)] = page;
    return page;
}

static void look(struct nmx_thread *self)
{
    struct nmx_table *table = self->table;
    self->until_look = LOOK;
    if (now() - table->sent < EPOCH)
        return;
    pthread_mutex_lock(&table->lock);
    empty(&table->writer, table);
    pthread_mutex_unlock(&table->lock);
}

void nmx_count_slowly(uint64_t address, uint64_t ip, bool write)
{
    if (nmx_self == NULL)
        begin_thread();
    struct nmx_thread *self = nmx_self;
    if (--self->until_look == 0)
        look(self);
    nmx_add(find(self, address, ip, write), address, write);
}

static void take_page(struct nmx_writer *writer, struct nmx_table *table, struct nmx_page *page, uint64_t low, uint64_t high)
{
    const uint64_t start = (page->key - 1) << 12;
    if (page->numbers[0] == NMX_NONE)
        return;
    if (page->fine) {
        const unsigned from = low > start ? (unsigned)(low - start) / 4 : 0;
        const unsigned to = high < start + 4096 ? (unsigned)(high - start + 3) / 4 : NMX_WORDS;
        send_fine(writer, table, page, from, to);
    } else {
        send_coarse(writer, table, page);
        page->numbers[0] = page->numbers[1] = NMX_NONE;
    }
}

void nmx_take(uint64_t low, uint64_t high)
{
    struct nmx_writer *writer = nmx_writer();
    const uint64_t first = low >> 12, end = (high + 4095) >> 12;
    if (high <= low || first >> 35 != 0)
        return;
    pthread_mutex_lock(&tables_lock);
    for (struct nmx_table *table = tables; table; table = table->next) {
        pthread_mutex_lock(&table->lock);
        if (end - first < table->places_count) {
            for (uint64_t number = first; number < end; number++) {
                struct nmx_page *page = lookup(table, number);
                if (page->key != 0)
                    take_page(writer, table, page, low, high);
            }
        } else {
            for (uint32_t i = 0; i < table->places_count; i++) {
                struct nmx_page *page = &table->places[i];
                if (page->key != 0 && page->key - 1 >= first && page->key - 1 < end)
                    take_page(writer, table, page, low, high);
            }
        }
        pthread_mutex_unlock(&table->lock);
    }
    pthread_mutex_unlock(&tables_lock);
}

void nmx_take_all(void) { nmx_take(0, 1ull << 47); }

void nmx_end_thread(void)
{
    if (nmx_self == NULL)
        return;
    struct nmx_table *table = nmx_self->table;
    /* First: who begins a block meanwhile must find what this thread has counted there, or wait until it is sent. */
    pthread_mutex_lock(&table->lock);
    empty(&table->writer, table);
    pthread_mutex_unlock(&table->lock);
    pthread_mutex_lock(&tables_lock);
    *table->link = table->next;
    if (table->next)
        table->next->link = table->link;
    pthread_mutex_unlock(&tables_lock);
    nmx_self = NULL;
    munmap(table->places, table->places_count * sizeof *table->places);
    munmap(table->fine, (size_t)FINE_PAGES * NMX_WORDS * sizeof *table->fine);
    pthread_mutex_destroy(&table->lock);
    munmap(table, sizeof *table);
}

void nmx_reborn(void)
{
    /* The parent's tables stay where they are, unused: its other threads, whose they were, may have held their locks. */
    tables = NULL;
    pthread_mutex_init(&tables_lock, NULL);
    nmx_blocks_reborn();
    nmx_self = NULL;
}
