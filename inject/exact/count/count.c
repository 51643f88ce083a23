#define _GNU_SOURCE
#include "count.h"

#include <string.h>
#include <sys/mman.h>

#include "blocks.h"
#include "lock.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Counters are sent this often, nanoseconds: what a program that is killed takes with it. More seldom if it takes the thread, which
 * may have to wait for the recorder, more than this part of its time. */
#define EPOCH 100000000u
#define SENDING 10u
/* Pages with counters for each 4 bytes that a thread may have: 64 MiB of them, in parts that are mapped when they are needed. */
#define FINE_PAGES 8192u
#define FINE_PART 1024u
#define FIRST_PLACES 1024u
#define MOST_PLACES (1u << 19)
#define GROWTHS 9u /* from the first number to the last */
/* Counters without accesses that an event may carry in between, rather than be split. */
#define LARGEST_GAP 3u
/* Accesses between two looks at the clock while each of them is sent: a power of two. */
#define TRACE_LOOK 4096u

/* What others look at too. */
struct nmx_table {
    nmx_lock_t lock;
    struct nmx_thread thread;
    struct nmx_writer writer;
    int tid;
    uint32_t traced;        /* accesses that were sent one by one */
    uint64_t due;           /* when they are to be sent again, nanoseconds */
    struct nmx_page *places;
    uint32_t places_count, used;
    /* Tables that were too small stay mapped as long as the thread: a handler on a stack that we do not know may have come in while one
     * was looked at. */
    struct nmx_page *outgrown[GROWTHS];
    uint32_t growths;
    struct nmx_counter *fine[FINE_PAGES / FINE_PART];
    uint32_t fine_used, fine_next; /* when all are used: whose are taken next */
    uint64_t fine_of[FINE_PAGES]; /* the pages that they were given to */
    struct nmx_table *next, **link;
};

__thread struct nmx_thread *nmx_self;

static struct nmx_table *tables;
static nmx_lock_t tables_lock;
/* Fits no address. */
static struct nmx_page no_page = {.numbers = {NMX_NONE, NMX_NONE}};

static void *map(size_t bytes)
{
    return nmm_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Counters of a fine page: twice as many with a model of caches. */
static size_t fine_words(void) { return nmc_is_on() ? 2 * NMX_WORDS : NMX_WORDS; }

static size_t fine_part_bytes(void) { return FINE_PART * fine_words() * sizeof(struct nmx_counter); }

static void forget_cache(struct nmx_table *table)
{
    for (unsigned i = 0; i < NMX_CACHE; i++)
        table->thread.cache[i] = &no_page;
}

static void unmap_table(struct nmx_table *table)
{
    if (table->places)
        nmm_unmap(table->places, table->places_count * sizeof *table->places);
    for (uint32_t i = 0; i < table->growths; i++)
        nmm_unmap(table->outgrown[i], ((size_t)FIRST_PLACES << i) * sizeof *table->places);
    nmc_end(table->thread.caches);
    for (uint32_t i = 0; i < FINE_PAGES / FINE_PART && table->fine[i]; i++)
        nmm_unmap(table->fine[i], fine_part_bytes());
    nmm_unmap(table, sizeof *table);
}

struct nmx_thread *nmx_begin_thread(void)
{
    struct nmx_table *table = map(sizeof *table);
    if (table == NULL) {
        nmx_no_memory();
        return NULL;
    }
    table->tid = nmm_gettid();
    table->due = nmx_now() + EPOCH;
    table->places_count = FIRST_PLACES;
    table->places = map(FIRST_PLACES * sizeof *table->places);
    table->fine[0] = map(fine_part_bytes());
    table->thread.caches = nmc_is_on() ? nmc_new(NMC_IN_TURN) : NULL;
    if (table->places == NULL || table->fine[0] == NULL || (nmc_is_on() && table->thread.caches == NULL)) {
        unmap_table(table);
        nmx_no_memory();
        return NULL;
    }
    /* In the child of a fork, however it was made, the next access finds that it is to be looked at. */
    nmm_advise(table, sizeof *table, MADV_WIPEONFORK);
    table->thread.table = table;
    table->thread.tracing = nmx_may_trace();
    table->thread.left = table->thread.tracing ? 1 : NMX_LOOK;
    forget_cache(table);
    nmx_attach(&table->writer);
    nmx_lock(&tables_lock);
    table->next = tables;
    table->link = &tables;
    if (tables)
        tables->link = &table->next;
    tables = table;
    nmx_unlock(&tables_lock);
    nmx_self = &table->thread;
    nmx_thread_begins(nmx_self);
    return nmx_self;
}

struct nmx_writer *nmx_writer(void)
{
    struct nmx_thread *self = nmx_self ? nmx_self : nmx_begin_thread();
    return self ? &self->table->writer : NULL;
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

/* `memory`: those of them that reach memory; NULL if nobody knows. */
static void send(struct nmx_writer *to, const struct nmx_table *of, uint64_t address, const struct nmx_counter *counters,
    const struct nmx_counter *memory, size_t count)
{
    _Static_assert(sizeof *counters == sizeof(uint64_t), "a counter is a word of the event");
    nmx_emit_counts(to, address, of->tid, (const uint64_t *)counters, (const uint64_t *)memory, count);
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
        struct nmx_counter *memory = nmc_is_on() ? &page->fine[NMX_WORDS + at] : NULL;
        send(writer, of, address + 4 * at, &page->fine[at], memory, end - at);
        memset(&page->fine[at], 0, (end - at) * sizeof *page->fine);
        if (memory)
            memset(memory, 0, (end - at) * sizeof *memory);
        at = end;
    }
}

static void send_coarse(struct nmx_writer *writer, const struct nmx_table *of, struct nmx_page *page)
{
    if (!is_zero(&page->coarse))
        send(writer, of, (page->key - 1) << 12, &page->coarse, nmc_is_on() ? &page->coarse_memory : NULL, 1);
    page->coarse = page->coarse_memory = (struct nmx_counter){0, 0};
}

/* Sends all of a table. Under its lock, and by its own thread. */
static void send_all(struct nmx_table *table)
{
    const uint64_t began = nmx_now();
    for (uint32_t i = 0; table->used > 0 && i < table->places_count; i++) {
        struct nmx_page *page = &table->places[i];
        if (page->key == 0 || page->numbers[0] == NMX_NONE)
            continue;
        if (page->fine)
            send_fine(&table->writer, table, page, 0, NMX_WORDS);
        else
            send_coarse(&table->writer, table, page);
    }
    const uint64_t now = nmx_now(), took = now - began;
    table->due = now + (took * SENDING > EPOCH ? took * SENDING : EPOCH);
}

/* The same, and empties it. */
static void empty(struct nmx_table *table)
{
    send_all(table);
    memset(table->places, 0, table->places_count * sizeof *table->places);
    table->used = table->fine_used = table->fine_next = 0;
    forget_cache(table);
}

static bool grow(struct nmx_table *table)
{
    struct nmx_page *old = table->places;
    const uint32_t count = table->places_count;
    struct nmx_page *more = table->growths < GROWTHS ? map(2ull * count * sizeof *old) : NULL;
    if (more == NULL)
        return false;
    table->places_count = 2 * count;
    table->places = more;
    for (uint32_t i = 0; i < count; i++)
        if (old[i].key != 0)
            *lookup(table, old[i].key - 1) = old[i];
    table->outgrown[table->growths++] = old;
    forget_cache(table);
    return true;
}

/* Its place, which may be new. */
static struct nmx_page *place_for(struct nmx_table *table, uint64_t number)
{
    struct nmx_page *page = lookup(table, number);
    if (page->key == 0) {
        page->key = number + 1;
        page->numbers[0] = page->numbers[1] = NMX_NONE;
        table->used++;
    }
    return page;
}

/* Counters for each four bytes of a page, all zero. When there are none left, the page that has had its own for longest gives them. */
static struct nmx_counter *take_fine(struct nmx_table *table, uint64_t number)
{
    uint32_t at = table->fine_used;
    if (at < FINE_PAGES && table->fine[at / FINE_PART] == NULL)
        table->fine[at / FINE_PART] = map(fine_part_bytes());
    if (at < FINE_PAGES && table->fine[at / FINE_PART] != NULL) {
        table->fine_used++;
    } else {
        at = table->fine_next;
        table->fine_next = (at + 1) % table->fine_used;
    }
    struct nmx_counter *fine = &table->fine[at / FINE_PART][at % FINE_PART * fine_words()];
    struct nmx_page *before = lookup(table, table->fine_of[at]);
    if (before->key != 0 && before->fine == fine) {
        send_fine(&table->writer, table, before, 0, NMX_WORDS);
        before->numbers[0] = before->numbers[1] = NMX_NONE;
        before->fine = NULL;
    }
    table->fine_of[at] = number;
    return fine;
}

struct nmx_page *nmx_known(struct nmx_thread *self, uint64_t address, bool write)
{
    struct nmx_table *table = self->table;
    const uint64_t number = address >> 12;
    /* Wiped: in the child of a fork that a signal handler has made. */
    if (unlikely(table == NULL))
        return NULL;
    struct nmx_page *page = lookup(table, number);
    if (page->key == 0 || nmm_load(&page->numbers[write]) != number)
        return NULL;
    self->cache[number & (NMX_CACHE - 1)] = page;
    return page;
}

struct nmx_page *nmx_find(struct nmx_thread *self, uint64_t address, uint64_t ip, bool write)
{
    struct nmx_table *table = self->table;
    const uint64_t number = address >> 12;
    nmx_lock(&table->lock);
    if (lookup(table, number)->key == 0) {
        if (table->used == MOST_PLACES / 2)
            empty(table);
        else if (table->used == table->places_count / 2 && !grow(table))
            empty(table);
    }
    struct nmx_page *page = place_for(table, number);
    if (page->numbers[write] == NMX_NONE)
        nmx_page_seen(&table->writer, address, ip, write);
    if (page->numbers[0] == NMX_NONE) {
        page->coarse = page->coarse_memory = (struct nmx_counter){0, 0};
        /* Retired, so that its kind is to be decided anew; or never used. */
        if (nmx_block_holds(number << 12)) {
            page->fine = NULL;
        } else if (page->fine == NULL) {
            page->fine = take_fine(table, number);
        }
        nmm_store_release(&page->numbers[0], number);
    }
    if (write)
        nmm_store(&page->numbers[1], number);
    nmx_unlock(&table->lock);
    self->cache[number & (NMX_CACHE - 1)] = page;
    return page;
}

void nmx_look(struct nmx_thread *self)
{
    struct nmx_table *table = self->table;
    if (self->tracing && table->traced % TRACE_LOOK != 0)
        return;
    self->tracing = nmx_may_trace();
    if (nmx_now() < table->due)
        return;
    nmx_lock(&table->lock);
    send_all(table);
    nmx_unlock(&table->lock);
}

int64_t nmx_trace_one(struct nmx_thread *self, uint64_t address, unsigned bytes, uint64_t ip, bool write, int64_t left)
{
    struct nmx_table *table = self->table;
    table->traced++;
    self->tracing = nmx_emit_access(&table->writer, address, bytes, ip, write);
    return self->tracing ? 1 : left;
}

void nmx_trace_more(struct nmx_thread *self, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    nmx_emit_more(&self->table->writer, address, bytes, ip, write);
}

void nmx_count_slowly(uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    struct nmx_thread *self = nmx_self ? nmx_self : nmx_begin_thread();
    if (self == NULL)
        return;
    if (--self->left <= 0) {
        self->left = NMX_LOOK;
        nmx_look(self);
    }
    struct nmx_page *page = nmx_known(self, address, write);
    nmx_add(page ? page : nmx_find(self, address, ip, write), address, write);
    if (unlikely(self->tracing))
        self->left = nmx_trace_one(self, address, bytes, ip, write, self->left);
}

void nmx_count_memory(struct nmx_thread *self, uint64_t address, uint64_t ip, bool write)
{
    struct nmx_page *page = self->cache[address >> 12 & (NMX_CACHE - 1)];
    if (unlikely(nmm_load(&page->numbers[write]) != address >> 12) && (page = nmx_known(self, address, write)) == NULL)
        page = nmx_find(self, address, ip, write);
    nmx_add_memory(page, address, write);
}

static void take_page(struct nmx_writer *writer, struct nmx_table *table, struct nmx_page *page, uint64_t low, uint64_t high, bool anew)
{
    const uint64_t start = (page->key - 1) << 12;
    if (nmm_load_acquire(&page->numbers[0]) == NMX_NONE)
        return;
    if (page->fine) {
        const unsigned from = low > start ? (unsigned)(low - start) / 4 : 0;
        const unsigned to = high < start + 4096 ? (unsigned)(high - start + 3) / 4 : NMX_WORDS;
        send_fine(writer, table, page, from, to);
    } else {
        send_coarse(writer, table, page);
    }
    if (page->fine == NULL || (anew && low <= start && high >= start + 4096)) {
        nmm_store(&page->numbers[1], NMX_NONE);
        nmm_store(&page->numbers[0], NMX_NONE);
    }
}

void nmx_take(uint64_t low, uint64_t high, bool anew)
{
    struct nmx_writer *writer = nmx_writer();
    const uint64_t first = low >> 12, end = (high + 4095) >> 12;
    if (writer == NULL || high <= low || first >> 35 != 0)
        return;
    nmx_lock(&tables_lock);
    for (struct nmx_table *table = tables; table; table = table->next) {
        nmx_lock(&table->lock);
        if (end - first < table->places_count) {
            for (uint64_t number = first; number < end; number++) {
                struct nmx_page *page = lookup(table, number);
                if (page->key != 0)
                    take_page(writer, table, page, low, high, anew);
            }
        } else {
            for (uint32_t i = 0; i < table->places_count; i++) {
                struct nmx_page *page = &table->places[i];
                if (page->key != 0 && page->key - 1 >= first && page->key - 1 < end)
                    take_page(writer, table, page, low, high, anew);
            }
        }
        nmx_unlock(&table->lock);
    }
    nmx_unlock(&tables_lock);
}

void nmx_take_all(void) { nmx_take(0, 1ull << 47, false); }

void nmx_cut(uint64_t low, uint64_t high, bool inside)
{
    for (struct nmx_range old; (old = nmx_block_cut((struct nmx_range){low, high}, inside)).high != 0;)
        nmx_take(old.low, old.high, true);
    nmx_take(low, high, true);
}

void nmx_end_thread(void)
{
    if (nmx_self == NULL)
        return;
    struct nmx_table *table = nmx_self->table;
    /* First: who begins a block meanwhile must find what this thread has counted there, or wait until it is sent. */
    nmx_lock(&table->lock);
    empty(table);
    nmx_unlock(&table->lock);
    nmx_lock(&tables_lock);
    *table->link = table->next;
    if (table->next)
        table->next->link = table->link;
    nmx_unlock(&tables_lock);
    nmx_self = NULL;
    nmx_detach(&table->writer);
    unmap_table(table);
}

void nmx_reborn(void)
{
    /* The parent's tables stay where they are, unused: its other threads, whose they were, may have held their locks. */
    tables = NULL;
    tables_lock = 0;
    nmx_blocks_reborn();
    nmc_reborn();
    nmx_self = NULL;
}
