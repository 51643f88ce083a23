/* Counters of accesses: each thread has its own, so that counting takes no lock.
 *
 *   thread --> cache [page mod 4096] --> page: fine   --> for each 4 bytes: reads, writes
 *          '-> table (by page, all of them) ^  coarse -> reads, writes of the whole page
 *
 * Only its thread counts in a page. Who ends an object takes what was counted in its range from the pages of all threads: a
 * correct program has seen to it that none of them is at that object then, so nobody counts in the words that are taken. Adding
 * pages, moving and emptying a table, and taking from it happen under the thread's lock. A page of one counter that is taken
 * from is retired: its numbers then fit no address, so its thread looks again what kind of page it is to have.
 *
 * With a model of caches (caches.h), accesses that reach memory have counters of their own beside these: NMX_WORDS more of a fine page, one more
 * of a coarse one. */
#ifndef NMX_COUNT_H
#define NMX_COUNT_H

#include "../caches/caches.h"
#include "rows.h"

#define NMX_CACHE 4096u
#define NMX_WORDS 1024u /* of 4 bytes, in a page */
#define NMX_NONE (~0ull)
/* Accesses between two looks at the clock: some milliseconds. A counter cannot overflow in the meantime. */
#define NMX_LOOK 1000000
/* Bytes of a range that is copied or filled as a whole: so many are one access, those of libc's vectors. */
#define NMX_UNIT 32u

struct nmx_counter {
    uint32_t reads, writes;
};

struct nmx_page {
    /* address / 4096, for reads and for writes. NMX_NONE: the first one is to be told of, or the page is retired. */
    uint64_t numbers[2];
    struct nmx_counter *fine; /* NMX_WORDS of them; NULL: `coarse` is all there is */
    struct nmx_counter coarse;
    uint64_t key;           /* address / 4096 + 1; 0: the place is free */
    struct nmx_counter coarse_memory; /* of `coarse`, accesses that reach memory */
};

struct nmx_thread {
    struct nmx_page *cache[NMX_CACHE];
    bool tracing;           /* accesses are sent one by one, too: then `left` has no access take the short way */
    int64_t left;           /* accesses until the clock is looked at; the kernel puts 0 here in the child of a fork. Natively,
                             * while one is counted: the stack pointer then, negative */
    uint64_t next_read, next_write; /* where the pieces of the access that is being made go on */
    /* Of the repeated string instruction that is being executed, reads and writes: where the next round's access is, and where the unit
     * that it is of ends. */
    uint64_t string_next[2], string_end[2];
    struct nmx_table *table;
    struct nmc_private *caches; /* NULL: there is no model of caches */
    int64_t rest;           /* natively with a model: accesses until the clock is looked at; `left` then has no access take the short way */
};

extern __thread struct nmx_thread *nmx_self;

/* The slow path: a page that is not in the cache, and every million accesses. */
void nmx_count_slowly(uint64_t address, unsigned bytes, uint64_t ip, bool write);

/* An access that was counted reaches memory. */
void nmx_count_memory(struct nmx_thread *self, uint64_t address, uint64_t ip, bool write);

/* Its parts. The calling thread's counters; NULL if there is no memory for them. */
struct nmx_thread *nmx_begin_thread(void);
/* A page that the thread has counted in; NULL if it has not, or if it is to be found. */
struct nmx_page *nmx_known(struct nmx_thread *self, uint64_t address, bool write);
/* Finds or adds it. */
struct nmx_page *nmx_find(struct nmx_thread *self, uint64_t address, uint64_t ip, bool write);
/* Sends what was counted if it is time to, and finds out whether accesses are to be sent one by one. */
void nmx_look(struct nmx_thread *self);
/* Sends an access while they are sent one by one; `left` until the next look. */
int64_t nmx_trace_one(struct nmx_thread *self, uint64_t address, unsigned bytes, uint64_t ip, bool write, int64_t left);
/* Sends a piece more of the access that was sent last. */
void nmx_trace_more(struct nmx_thread *self, uint64_t address, unsigned bytes, uint64_t ip, bool write);

/* Sends and forgets what all threads have counted from `low` to `high`. `anew`: what comes to be there is looked at anew. */
void nmx_take(uint64_t low, uint64_t high, bool anew);

/* Sends and forgets all that was counted. */
void nmx_take_all(void);

/* The same of the calling thread, which ends. */
void nmx_end_thread(void);

/* The child of a fork has counted nothing. */
void nmx_reborn(void);

/* The ring of the calling thread; NULL if it could not begin. */
struct nmx_writer *nmx_writer(void);

/* What the program does to a range: it is told what was counted there until now. `inside`: see nmx_block_cut. */
void nmx_cut(uint64_t low, uint64_t high, bool inside);

/* What differs between the plug-in and the library of hooks. There is no memory for a thread's counters; a thread begins to count
 * or a page is accessed, or written, that it has not seen. */
void nmx_no_memory(void);
void nmx_thread_begins(struct nmx_thread *self);
void nmx_page_seen(struct nmx_writer *writer, uint64_t address, uint64_t ip, bool write);

/* Where the unit ends that begins at `address`: at the end of the page, if that comes first. */
static inline uint64_t nmx_unit_end(uint64_t address)
{
    const uint64_t end = address + NMX_UNIT, page = (address | 4095) + 1;
    return end < page ? end : page;
}

static inline void nmx_add(struct nmx_page *page, uint64_t address, bool write)
{
    struct nmx_counter *counter = page->fine ? &page->fine[address >> 2 & (NMX_WORDS - 1)] : &page->coarse;
    if (write)
        counter->writes++;
    else
        counter->reads++;
}

static inline void nmx_add_memory(struct nmx_page *page, uint64_t address, bool write)
{
    struct nmx_counter *counter = page->fine ? &page->fine[NMX_WORDS + (address >> 2 & (NMX_WORDS - 1))] : &page->coarse_memory;
    if (write)
        counter->writes++;
    else
        counter->reads++;
}

static inline void nmx_count(uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    struct nmx_thread *self = nmx_self;
    if (likely(self != NULL)) {
        const int64_t left = self->left - 1;
        struct nmx_page *page = self->cache[address >> 12 & (NMX_CACHE - 1)];
        if (likely(left > 0 && page->numbers[write] == address >> 12)) {
            self->left = left;
            nmx_add(page, address, write);
            return;
        }
    }
    nmx_count_slowly(address, bytes, ip, write);
}

#endif
