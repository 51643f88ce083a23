/* A table of addresses, open addressing without a lock: a key is written by compare-and-swap, and one address has one owner at
 * a time. Whoever finds no room in a bounded number of places goes without: the object is placed, but not read back. */
#include "list.h"
#include "policy.h"

#include "../base/sys.h"
#include "../hooks/hooks.h"

#define SLOTS (1u << 15)
#define TRIES 64u

uint32_t nmm_placed_any;
uint64_t nmm_placed_bits[NMM_PLACED_BITS / 64];

struct slot {
    uint64_t key;       /* 0: never used; 1: given back; 2: being filled */
    uint32_t entry;
    uint32_t pad;
};

static struct slot slots[SLOTS];

static uint32_t hash(uintptr_t key) { return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 49); }

static struct nmm_placed *take_entry(uint32_t *index)
{
    const uint32_t count = nmm_place.plan->placed.count;
    const uint32_t first = __atomic_fetch_add(&nmm_place.plan->next_placed, 1, __ATOMIC_RELAXED);
    /* It only ever grows beyond the list, so that all of the list counts as used from then on. */
    if (first >= 1u << 31)
        nmm_store(&nmm_place.plan->next_placed, count);
    for (uint32_t i = 0; i < NMM_PLACED_TRIES && i < count; i++) {
        *index = (first + i) % count;
        struct nmm_placed *entry = &nmm_place.placed[*index];
        uint32_t none = NMM_PLACED_FREE;
        if (nmm_load(&entry->state) == none
            && __atomic_compare_exchange_n(&entry->state, &none, NMM_PLACED_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return entry;
    }
    return NULL;
}

/* The child of a fork has its parent's table, but what is in the list is its parent's. What is being placed anew at this moment is
 * left to whoever does that: it may be this very thread, interrupted by a handler. */
static struct nmm_placed *own(struct nmm_placed *entry)
{
    if (nmm_load(&entry->pid) != nmm_getpid())
        return NULL;
    for (;;) {
        uint32_t live = NMM_PLACED_LIVE, moving = NMM_PLACED_MOVING;
        if (__atomic_compare_exchange_n(&entry->state, &live, NMM_PLACED_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return entry;
        if (live != NMM_PLACED_MOVING
            || __atomic_compare_exchange_n(&entry->state, &moving, NMM_PLACED_ENDED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return NULL;
    }
}

bool nmm_list_hold(struct nmm_placed *entry)
{
    uint32_t live = NMM_PLACED_LIVE;
    return nmm_load(&entry->pid) == nmm_getpid()
        && __atomic_compare_exchange_n(&entry->state, &live, NMM_PLACED_MOVING, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void nmm_list_let(struct nmm_placed *entry)
{
    uint32_t moving = NMM_PLACED_MOVING;
    if (__atomic_compare_exchange_n(&entry->state, &moving, NMM_PLACED_LIVE, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    /* It may be another's memory by now, which then lies as if nothing had been asked for. */
    nmm_ask_nothing(entry->address, entry->address + entry->bytes);
    nmm_list_give(entry);
}

uint32_t nmm_list_length(void)
{
    const uint32_t next = nmm_load(&nmm_place.plan->next_placed), count = nmm_place.plan->placed.count;
    return next < count && next + NMM_PLACED_TRIES < count ? next + NMM_PLACED_TRIES : count;
}

/* `numamma apply` may be reading it: the state is written last. */
static void fill(struct nmm_placed *entry, const struct nmm_placed *what)
{
    nmm_store(&entry->address, what->address);
    nmm_store(&entry->bytes, what->bytes);
    nmm_store(&entry->base, what->base);
    nmm_store(&entry->length, what->length);
    nmm_store(&entry->rule, what->rule);
    nmm_store(&entry->pid, what->pid);
    nmm_store(&entry->node, what->node);
    nmm_store(&entry->pieces, what->pieces);
    nmm_store_release(&entry->state, NMM_PLACED_LIVE);
}

struct nmm_placed *nmm_list_open(const struct nmm_placed *what)
{
    uint32_t index;
    struct nmm_placed *entry = take_entry(&index);
    if (entry != NULL)
        fill(entry, what);
    return entry;
}

void nmm_list_add(uintptr_t key, const struct nmm_placed *what)
{
    uint32_t index;
    struct nmm_placed *entry = take_entry(&index);
    struct slot *slot = NULL;
    for (uint32_t i = 0; entry != NULL && slot == NULL && i < TRIES; i++) {
        struct slot *candidate = &slots[(hash(key) + i) % SLOTS];
        uint64_t old = nmm_load(&candidate->key);
        if (old < 2 && __atomic_compare_exchange_n(&candidate->key, &old, 2, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            slot = candidate;
    }
    if (slot == NULL) {
        if (entry != NULL)
            nmm_store_release(&entry->state, NMM_PLACED_FREE);
        __atomic_fetch_add(&nmm_place.rules[what->rule].unlisted, 1, __ATOMIC_RELAXED);
        return;
    }
    fill(entry, what);
    slot->entry = index;
    nmm_store_release(&slot->key, key);
    const uint32_t bit = nmm_placed_bit(key);
    __atomic_fetch_or(&nmm_placed_bits[bit / 64], 1ull << bit % 64, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&nmm_placed_any, 1, __ATOMIC_ACQ_REL))
        nmm_find_quick();
}

static struct nmm_placed *take_slot(struct slot *slot, uint64_t key)
{
    const uint32_t index = nmm_load(&slot->entry);
    if (!__atomic_compare_exchange_n(&slot->key, &key, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return NULL;
    return index < nmm_place.plan->placed.count ? own(&nmm_place.placed[index]) : NULL;
}

const struct nmm_placed *nmm_list_find(uintptr_t key)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const struct slot *slot = &slots[(hash(key) + i) % SLOTS];
        const uint64_t found = nmm_load_acquire(&slot->key);
        if (found == 0)
            break;
        if (found != key)
            continue;
        const uint32_t index = nmm_load(&slot->entry);
        const bool known = index < nmm_place.plan->placed.count;
        return known && nmm_load(&nmm_place.placed[index].pid) == nmm_getpid() ? &nmm_place.placed[index] : NULL;
    }
    return NULL;
}

struct nmm_placed *nmm_list_take(uintptr_t key)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        struct slot *slot = &slots[(hash(key) + i) % SLOTS];
        const uint64_t found = nmm_load_acquire(&slot->key);
        if (found == key)
            return take_slot(slot, key);
        if (found == 0)
            break;
    }
    return NULL;
}

void nmm_list_give(struct nmm_placed *placed)
{
    nmm_give_pieces(nmm_load(&placed->pieces));
    nmm_store_release(&placed->state, NMM_PLACED_FREE);
}

void nmm_list_take_all(void (*each)(struct nmm_placed *))
{
    for (uint32_t i = 0, length = nmm_list_length(); i < length; i++) {
        struct nmm_placed *entry = &nmm_place.placed[i];
        if (nmm_load_acquire(&entry->state) == NMM_PLACED_LIVE && own(entry) != NULL)
            each(entry);
    }
}

/* Mappings are found by their first page. So few pages are looked up one by one, most of them by a bit each; for many it takes less
 * to go through the table. */
bool nmm_list_take_range(uintptr_t low, uintptr_t high, void (*each)(struct nmm_placed *))
{
    bool some = false;
    if (!nmm_load(&nmm_placed_any))
        return false;
    const bool few = (high - low) / 4096 < SLOTS;
    for (uintptr_t page = low; few && page < high; page += 4096) {
        struct nmm_placed *placed = nmm_may_be_placed((const void *)page) ? nmm_list_take(page) : NULL;
        if (placed != NULL) {
            each(placed);
            some = true;
        }
    }
    for (uint32_t i = 0; !few && i < SLOTS; i++) {
        const uint64_t key = nmm_load_acquire(&slots[i].key);
        struct nmm_placed *placed = key > 2 && key % 2 == 0 && key - low < high - low ? take_slot(&slots[i], key) : NULL;
        if (placed != NULL) {
            each(placed);
            some = true;
        }
    }
    return some;
}
