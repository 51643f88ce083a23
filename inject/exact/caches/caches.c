#define _GNU_SOURCE
#include "caches.h"

#include <string.h>
#include <sys/mman.h>

#include "../count/lock.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Threads at once: as many as rings. */
#define MOST_THREADS 4096u
#define LOCKS 4096u
#define MASK_BITS 64u
/* A prefetcher knows no addresses of other pages. */
#define PAGE_SHIFT 12u

/* A cache that is a thread's own. */
struct level {
    uint64_t sets_mask;
    uint32_t ways;
    uint64_t first; /* where its lines begin */
};

/* A set of the last level: first the lines that it holds, then those whose holders it still knows. */
struct set {
    uint64_t *lines;   /* as in struct nmc_private; alone: who holds it, holds it alone */
    uint64_t *holders; /* a bit for threads of that number, modulo 64 */
};

struct nmc_model nmc_model;

static struct level levels[2]; /* L1, L2 */
static unsigned levels_count;
static uint64_t lines_count; /* of all levels of a thread */
static uint64_t last_sets;
static uint32_t last_ways, depth, sockets, prefetch;
static uint64_t *last; /* for each socket, each set: the lines, then their holders */

static nmx_lock_t *locks; /* LOCKS of them, in front of the last level: in the child of a fork they are free at once */
static struct nmc_private *threads[MOST_THREADS];
static uint32_t threads_count;
static nmx_lock_t threads_lock;

static void *map(size_t bytes)
{
    void *memory = nmm_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (memory)
        nmm_advise(memory, bytes, MADV_WIPEONFORK);
    return memory;
}

bool nmc_begin(const struct nmm_caches *shape)
{
    levels_count = 0;
    lines_count = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (shape->ways[i] == 0)
            continue;
        levels[levels_count++] = (struct level){shape->sets[i] - 1, shape->ways[i], lines_count};
        lines_count += (uint64_t)shape->sets[i] * shape->ways[i];
    }
    last_sets = shape->sets[2];
    last_ways = shape->ways[2];
    depth = 2 * last_ways;
    sockets = shape->sockets;
    prefetch = shape->prefetch;
    locks = map(LOCKS * sizeof *locks + sockets * last_sets * depth * 2 * sizeof *last);
    if (locks == NULL)
        return false;
    last = (uint64_t *)(locks + LOCKS);
    if (levels_count > 0) {
        nmc_model.first_mask = levels[0].sets_mask;
        nmc_model.first_ways = levels[0].ways;
    }
    nmc_model.line_shift = (unsigned)__builtin_ctz(shape->line);
    nmc_model.line_rest = shape->line - 1;
    return true;
}

/* ---- L1 and L2 */

static inline uint64_t entry_of(uint64_t line) { return (line + 1) << 1; }

static inline bool is_of(uint64_t entry, uint64_t line) { return (entry | 1) == (entry_of(line) | 1); }

static inline uint64_t *set_of(struct nmc_private *self, const struct level *level, uint64_t line)
{
    return &self->lines[level->first + (line & level->sets_mask) * level->ways];
}

/* Makes the line the most recent of its set: its entry; NULL if it is not there. */
static uint64_t *to_front(uint64_t *set, uint32_t ways, uint64_t line)
{
    for (uint32_t i = 0; i < ways; i++) {
        const uint64_t entry = set[i];
        if (!is_of(entry, line))
            continue;
        for (; i > 0; i--)
            set[i] = set[i - 1];
        set[0] = entry;
        return set;
    }
    return NULL;
}

/* Puts an entry first, of a line that is not there. */
static void put(uint64_t *set, uint32_t ways, uint64_t entry)
{
    uint64_t moved = entry;
    for (uint32_t i = 0; i < ways && moved != 0; i++) {
        const uint64_t next = set[i];
        set[i] = moved;
        moved = next;
    }
}

static void put_at(struct nmc_private *self, unsigned level, uint64_t line, bool alone)
{
    put(set_of(self, &levels[level], line), levels[level].ways, entry_of(line) | alone);
}

/* What is known of a line in a thread's caches is no longer so: it is gone, or no longer held alone. */
static void change(struct nmc_private *self, uint64_t line, uint64_t to)
{
    for (unsigned i = 0; i < levels_count; i++) {
        uint64_t *set = set_of(self, &levels[i], line);
        for (uint32_t way = 0; way < levels[i].ways; way++)
            if (is_of(set[way], line))
                set[way] = to;
    }
}

/* ---- Messages: a number of 16 bits, the line, and whether it is taken away or only no longer held alone. */

static void post(struct nmc_private *to, uint64_t line, bool take)
{
    const uint64_t number = __atomic_fetch_add(&to->posted, 1, __ATOMIC_ACQ_REL);
    if (number - nmm_load_acquire(&to->taken) >= NMC_MAIL)
        nmm_store_release(&to->overflowed, 1);
    else
        nmm_store_release(&to->mail[number % NMC_MAIL], number << 48 | entry_of(line) | take);
}

/* To all that may hold the line, but the one who asks. */
static void post_all(const struct nmc_private *from, uint64_t holders, uint64_t line, bool take)
{
    const uint32_t count = nmm_load_acquire(&threads_count);
    for (; holders != 0; holders &= holders - 1) {
        for (uint32_t number = (uint32_t)__builtin_ctzll(holders); number < count; number += MASK_BITS) {
            struct nmc_private *to = nmm_load(&threads[number]);
            if (to != NULL && to != from && nmm_load(&to->used))
                post(to, line, take);
        }
    }
}

static void lose_all(struct nmc_private *self)
{
    memset(self->lines, 0, lines_count * sizeof *self->lines);
}

static NMM_COLD void take_mail(struct nmc_private *self)
{
    for (;;) {
        if (nmm_load_acquire(&self->overflowed)) {
            nmm_store(&self->overflowed, 0);
            nmm_store_release(&self->taken, nmm_load_acquire(&self->posted));
            lose_all(self);
        }
        const uint64_t number = self->taken;
        if (number == nmm_load_acquire(&self->posted))
            return;
        const uint64_t message = nmm_load_acquire(&self->mail[number % NMC_MAIL]);
        /* Not written yet, if it is not that of this number: at the next access. */
        if (message == 0 || message >> 48 != (number & 0xffff))
            return;
        const uint64_t entry = message & ((1ull << 48) - 2);
        change(self, (entry >> 1) - 1, message & 1 ? 0 : entry);
        nmm_store_release(&self->taken, number + 1);
    }
}

/* ---- The last level */

static struct set last_set(uint32_t socket, uint64_t number)
{
    uint64_t *at = last + (socket * last_sets + number) * depth * 2;
    return (struct set){at, at + depth};
}

/* `depth` if it is not there. */
static uint32_t find(const struct set *set, uint64_t line)
{
    uint32_t at = 0;
    while (at < depth && !is_of(set->lines[at], line))
        at++;
    return at;
}

/* Puts a line first that is not there: up to the first free place the others move. */
static void put_last(const struct set *set, uint64_t entry, uint64_t holders)
{
    uint32_t free = 0;
    while (free < depth && set->lines[free] != 0)
        free++;
    if (free == depth) {
        free--;
        /* Who held it is forgotten. */
        post_all(NULL, set->holders[free], (set->lines[free] >> 1) - 1, true);
    }
    memmove(&set->lines[1], &set->lines[0], free * sizeof *set->lines);
    memmove(&set->holders[1], &set->holders[0], free * sizeof *set->holders);
    set->lines[0] = entry;
    set->holders[0] = holders;
}

/* What a line's other sockets learn of an access; whether some thread there may hold it from now on. */
static bool tell_others(const struct nmc_private *self, uint64_t number, uint64_t line, bool write)
{
    bool held = false;
    for (uint32_t socket = 0; socket < sockets; socket++) {
        if (socket == self->socket)
            continue;
        const struct set set = last_set(socket, number);
        const uint32_t at = find(&set, line);
        if (at == depth)
            continue;
        if (write) {
            post_all(self, set.holders[at], line, true);
            set.lines[at] = set.holders[at] = 0;
            continue;
        }
        held = true;
        if (set.lines[at] & 1)
            post_all(self, set.holders[at], line, false);
        set.lines[at] &= ~1ull;
    }
    return held;
}

/* Asks the last level for a line where there is one thread: nobody is to be told, and nobody else is at the sets. When a second one begins
 * this one loses all that it holds, so it does not matter who held what until then; if both are at one set in that moment, a line of it may be
 * forgotten. Whether the line was not there. */
static bool ask_alone(const struct nmc_private *self, uint64_t number, uint64_t line)
{
    uint64_t *lines = last_set(self->socket, number).lines;
    uint64_t moved = entry_of(line) | 1;
    for (uint32_t at = 0; at < last_ways; at++) {
        const uint64_t next = lines[at];
        lines[at] = moved;
        if (is_of(next, line))
            return false;
        if (next == 0)
            return true;
        moved = next;
    }
    return true;
}

/* Asks the last level for a line, or, if the thread has it, to hold it alone (`has`: then the order of the lines stays). Whether it was not there; `alone`:
 * whether it is held alone now. */
static bool ask(struct nmc_private *self, uint64_t line, bool write, bool has, bool *alone)
{
    const uint64_t number = last_sets & (last_sets - 1) ? line % last_sets : line & (last_sets - 1);
    if (nmm_load(&threads_count) == 1) {
        *alone = true;
        return ask_alone(self, number, line);
    }
    const uint64_t own = 1ull << self->number % MASK_BITS;
    const uint64_t guard = nmc_guard();
    nmx_lock(&locks[number % LOCKS]);
    bool held = sockets > 1 && tell_others(self, number, line, write);
    const struct set set = last_set(self->socket, number);
    const uint32_t at = find(&set, line);
    uint64_t holders = 0;
    if (at < depth) {
        /* Where several threads have a bit, it may be another's. */
        const uint64_t others = nmm_load(&threads_count) > MASK_BITS ? set.holders[at] : set.holders[at] & ~own;
        if (write) {
            post_all(self, others, line, true);
        } else {
            if (set.lines[at] & 1)
                post_all(self, others, line, false);
            holders = set.holders[at];
            held = held || others != 0;
        }
    }
    *alone = !held;
    const uint64_t entry = entry_of(line) | *alone;
    holders |= own;
    if (has && at < depth) {
        set.lines[at] = entry;
        set.holders[at] = holders;
    } else {
        if (at < depth)
            set.lines[at] = 0;
        put_last(&set, entry, holders);
    }
    nmx_unlock(&locks[number % LOCKS]);
    nmc_unguard(guard);
    return at >= last_ways;
}

/* ---- Prefetching */

/* Brings a line into L2 and the last level that nobody has asked for yet. */
static void bring(struct nmc_private *self, uint64_t line)
{
    const struct level *l2 = levels_count == 2 ? &levels[1] : NULL;
    bool alone;
    if (l2 == NULL) {
        ask(self, line, false, false, &alone);
        return;
    }
    uint64_t *set = set_of(self, l2, line);
    for (uint32_t i = 0; i < l2->ways; i++)
        if (is_of(set[i], line))
            return;
    ask(self, line, false, false, &alone);
    put_at(self, 1, line, alone);
}

/* A line was not in L1. */
static void look_ahead(struct nmc_private *self, uint64_t line, uint64_t ip)
{
    int64_t ahead = 1;
    if (prefetch == NMC_PREFETCH_STRIDE) {
        struct nmc_stride *known = &self->strides[ip * 0x9e3779b97f4a7c15ull >> 58];
        const int64_t stride = known->ip == ip ? (int64_t)(line - known->line) : 0;
        const bool again = stride != 0 && stride == known->stride;
        *known = (struct nmc_stride){ip, line, stride};
        if (!again)
            return;
        ahead = stride;
    }
    const uint64_t next = line + (uint64_t)ahead;
    const unsigned page = PAGE_SHIFT - nmc_model.line_shift;
    if (next >> page == line >> page)
        bring(self, next);
}

/* ---- An access */

static bool reach(struct nmc_private *self, uint64_t line, uint64_t ip, bool write)
{
    uint64_t *entry = NULL;
    unsigned level = 0;
    for (; level < levels_count && entry == NULL; level++)
        entry = to_front(set_of(self, &levels[level], line), levels[level].ways, line);
    bool reaches = false;
    if (entry != NULL) {
        bool alone = *entry & 1;
        if (write && !alone) {
            ask(self, line, true, true, &alone);
            *entry = entry_of(line) | 1;
        }
        /* It was in L2. */
        if (level == 2)
            put_at(self, 0, line, alone);
    } else {
        bool alone;
        reaches = ask(self, line, write, false, &alone);
        for (unsigned i = 0; i < levels_count; i++)
            put_at(self, i, line, alone);
    }
    if (prefetch != 0 && (entry == NULL || level == 2))
        look_ahead(self, line, ip);
    return reaches;
}

bool nmc_reaches_slowly(struct nmc_private *self, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    if (nmm_load(&self->posted) != self->taken)
        take_mail(self);
    const uint64_t first = address >> nmc_model.line_shift, end = (address + bytes - 1) >> nmc_model.line_shift;
    bool reaches = false;
    for (uint64_t line = first; line <= end; line++)
        reaches |= reach(self, line, ip, write);
    return reaches;
}

/* ---- Threads */

/* A thread's caches that nobody uses any more. */
static struct nmc_private *take_unused(void)
{
    for (uint32_t i = 0; i < threads_count; i++)
        if (!threads[i]->used)
            return threads[i];
    return NULL;
}

struct nmc_private *nmc_new(uint32_t socket)
{
    nmx_lock(&threads_lock);
    struct nmc_private *self = take_unused();
    if (self != NULL) {
        lose_all(self);
        nmm_store(&self->taken, nmm_load_acquire(&self->posted));
    } else if (threads_count < MOST_THREADS && (self = map(sizeof *self + (lines_count + 1) * sizeof *self->lines)) != NULL) {
        self->number = threads_count;
        self->socket = socket == NMC_IN_TURN ? self->number % sockets : socket;
        nmm_store_release(&threads[threads_count], self);
        nmm_store_release(&threads_count, threads_count + 1);
        /* What it holds is not known of all of its lines. */
        if (threads_count == 2) {
            nmm_store_release(&threads[0]->overflowed, 1);
            __atomic_fetch_add(&threads[0]->posted, 1, __ATOMIC_ACQ_REL);
        }
    }
    if (self != NULL)
        nmm_store_release(&self->used, 1);
    nmx_unlock(&threads_lock);
    return self;
}

void nmc_end(struct nmc_private *self)
{
    if (self)
        nmm_store_release(&self->used, 0);
}

void nmc_reborn(void)
{
    /* Old kernels wipe nothing: then the child goes on with what its parent's caches held. */
    if (locks)
        memset(locks, 0, LOCKS * sizeof *locks);
    threads_lock = 0;
    threads_count = 0;
}
