#define _GNU_SOURCE
#include "gather.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../base/sys.h"
#include "../emit/state.h"
#include "list.h"
#include "match.h"
#include "policy.h"

#define SPAN (1ull << 30)       /* of a region: address space, not memory */
#define STEP (2ull << 20)       /* as much of it becomes usable at a time: a program may lock all that it has */
#define MOST_REGIONS 512u
#define SLAB (64ull << 10)
#define SLABS (SPAN / SLAB)
#define GRAIN 16u
#define FINE 1024u              /* up to here sizes grow by a grain, then by COARSE */
#define COARSE 256u
#define SIZES (FINE / GRAIN + (NMM_GATHER_MOST - FINE) / COARSE)

/* At the start of a region, fresh memory is all zero. Blocks are named by their distance from its start, in grains; 0 is none. */
struct region {
    struct nmm_placed *entry;   /* grows with the slabs; NULL: there was no room in the list */
    uint32_t next_slab;         /* those of this structure come first */
    uint32_t pad;
    /* By size: blocks that were freed (a tag above, against reuse between two looks), and the next fresh block with the grains
     * that its slab has left. */
    uint64_t freed[SIZES];
    uint64_t fresh[SIZES];
    uint8_t size_of[SLABS];     /* size number of each slab */
    uint8_t usable[SPAN / STEP];
};

#define OWN_SLABS ((sizeof(struct region) + SLAB - 1) / SLAB)

uintptr_t nmm_gathered_low, nmm_gathered_bytes;

static uint32_t states[MOST_REGIONS];
#define CLOSED 0u
#define OPENING 1u
#define READY 2u

/* First region of each rule that gathers. */
#define MOST_GATHERS 64u
static struct {
    uint32_t rule, region, nodes;
} gathers[MOST_GATHERS];
static uint32_t gather_count;

static uint32_t size_number(uint64_t bytes)
{
    bytes = bytes > 0 ? bytes : 1;
    return bytes <= FINE ? (uint32_t)(bytes + GRAIN - 1) / GRAIN - 1
                         : FINE / GRAIN + (uint32_t)(bytes - FINE + COARSE - 1) / COARSE - 1;
}

static uint32_t size_bytes(uint32_t number)
{
    return number < FINE / GRAIN ? (number + 1) * GRAIN : FINE + (number - FINE / GRAIN + 1) * COARSE;
}

static struct region *region_at(uint32_t number) { return (struct region *)(nmm_gathered_low + number * SPAN); }

static struct region *region_of(const void *block)
{
    return region_at((uint32_t)(((uintptr_t)block - nmm_gathered_low) / SPAN));
}

static uint32_t size_of_block(const void *block)
{
    const struct region *region = region_of(block);
    return nmm_load(&region->size_of[((uintptr_t)block - (uintptr_t)region) / SLAB]);
}

void nmm_gather_prepare(void)
{
    uint32_t regions = 0;
    for (uint32_t i = 0; i < nmm_place.plan->rules.count && gather_count < MOST_GATHERS; i++) {
        const struct nmm_plan_rule *rule = &nmm_place.rules[i];
        if (rule->gather == NMM_GATHER_NOT || rule->nodes == 0 || regions + rule->nodes > MOST_REGIONS)
            continue;
        gathers[gather_count].rule = i;
        gathers[gather_count].nodes = rule->nodes;
        gathers[gather_count++].region = regions;
        regions += rule->nodes;
    }
    if (regions == 0)
        return;
    void *area = nmm_map(regions * SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (area == NULL) {
        for (uint32_t i = 0; i < gather_count; i++) {
            __atomic_fetch_add(&nmm_place.rules[gathers[i].rule].failed, 1, __ATOMIC_RELAXED);
            nmm_store(&nmm_place.rules[gathers[i].rule].last_error, ENOMEM);
        }
        return;
    }
    nmm_gathered_low = (uintptr_t)area;
    nmm_store_release(&nmm_gathered_bytes, regions * SPAN);
    nmm_place.gathers = gather_count;
}

/* Part of a region, up to the end of a step. */
static bool make_usable(struct region *region, uint64_t from, uint64_t to)
{
    const uint64_t low = from & ~(STEP - 1), high = (to + STEP - 1) & ~(STEP - 1);
    return nmm_syscall(SYS_mprotect, (long)((uintptr_t)region + low), (long)(high - low), PROT_READ | PROT_WRITE, 0, 0, 0) == 0;
}

/* Makes a region usable. Others meanwhile do without it. */
static NMM_COLD bool make_ready(uint32_t number, uint32_t rule, uint32_t node)
{
    if (nmm_load(&nmm_process.quiet) || __atomic_exchange_n(&states[number], OPENING, __ATOMIC_ACQUIRE) != CLOSED)
        return false;
    struct region *region = region_at(number);
    if (!make_usable(region, 0, OWN_SLABS * SLAB)) {
        __atomic_fetch_add(&nmm_place.rules[rule].failed, 1, __ATOMIC_RELAXED);
        nmm_store(&nmm_place.rules[rule].last_error, ENOMEM);
        return false; /* and never tried again */
    }
    const uintptr_t low = (uintptr_t)region + OWN_SLABS * SLAB;
    const struct nmm_pages pages = {low, (uintptr_t)region + SPAN, low, 4096, false};
    nmm_ask(rule, &pages, (int32_t)node);
    region->next_slab = OWN_SLABS;
    region->entry = nmm_list_open(&(struct nmm_placed){
        .address = low, .base = low, .rule = rule, .pid = nmm_getpid(), .node = (int32_t)node});
    nmm_store_release(&states[number], READY);
    return true;
}

static void *block_at(struct region *region, uint32_t grain) { return (char *)region + (uint64_t)grain * GRAIN; }

/* A block that was freed. The word that names the next one may be the program's by the time that it is read; then the tag has
 * changed, too. */
static void *take_freed(struct region *region, uint32_t size)
{
    uint64_t head = nmm_load_acquire(&region->freed[size]);
    while ((uint32_t)head != 0) {
        uint32_t *block = block_at(region, (uint32_t)head);
        const uint64_t next = ((head >> 32) + 1) << 32 | nmm_load(block);
        if (__atomic_compare_exchange_n(&region->freed[size], &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return block;
    }
    return NULL;
}

/* A block that was never used: the next of the slab that this size is at, or the first of a new slab. */
static void *take_fresh(struct region *region, uint32_t size)
{
    const uint32_t grains = size_bytes(size) / GRAIN;
    uint64_t fresh = nmm_load_acquire(&region->fresh[size]);
    for (;;) {
        const uint32_t at = (uint32_t)fresh, left = (uint32_t)(fresh >> 32);
        if (left >= grains) {
            const uint64_t next = (uint64_t)(left - grains) << 32 | (at + grains);
            if (__atomic_compare_exchange_n(&region->fresh[size], &fresh, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                return block_at(region, at);
            continue;
        }
        uint32_t slab = nmm_load(&region->next_slab);
        do {
            if (slab >= SLABS)
                return NULL;
        } while (!__atomic_compare_exchange_n(&region->next_slab, &slab, slab + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        /* Two threads may do so at once, to the same effect. */
        if (!nmm_load_acquire(&region->usable[slab * SLAB / STEP])) {
            if (nmm_load(&nmm_process.quiet) || !make_usable(region, slab * SLAB, (slab + 1) * SLAB))
                return NULL;
            nmm_store_release(&region->usable[slab * SLAB / STEP], 1);
        }
        nmm_store(&region->size_of[slab], (uint8_t)size);
        /* The child of a fork goes on in its copy, which the entry is not about. */
        if (region->entry != NULL && nmm_load(&region->entry->pid) == nmm_getpid())
            __atomic_fetch_add(&region->entry->bytes, SLAB, __ATOMIC_RELAXED);
        const uint64_t first = (uint64_t)(SLAB / GRAIN) << 32 | (uint32_t)(slab * (SLAB / GRAIN));
        /* Whoever loses this leaves a slab unused: address space that is never touched. */
        if (__atomic_compare_exchange_n(&region->fresh[size], &fresh, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            fresh = first;
    }
}

/* The node of the CPU that the thread runs on, as an index into the rule's nodes; asked for now and then, for threads move. */
static uint32_t own_node(const struct nmm_plan_rule *rule)
{
    static __thread struct {
        uint32_t node, left;
    } own __attribute__((tls_model("initial-exec")));
    if (own.left-- == 0) {
        unsigned cpu, node = 0;
        if (!nmm_load(&nmm_process.quiet))
            nmm_syscall(SYS_getcpu, (long)&cpu, (long)&node, 0, 0, 0, 0);
        own.node = node;
        own.left = 1000;
    }
    for (uint32_t i = 0; i < rule->nodes; i++)
        if (nmm_place.nodes[rule->node + i] == own.node)
            return i;
    return own.node % rule->nodes;
}

void *nmm_gather(uint64_t bytes, bool zeroed, const uintptr_t *frame)
{
    uint32_t instance, number = 0;
    if (bytes > NMM_GATHER_MOST)
        return NULL;
    const uint32_t rule = nmm_match_gathered(bytes, frame, &instance);
    if (rule == NMM_NO_RULE)
        return NULL;
    struct nmm_plan_rule *of = &nmm_place.rules[rule];
    while (number < gather_count && gathers[number].rule != rule)
        number++;
    /* The rules lie in memory that a stray pointer may write to. */
    if (number == gather_count || of->nodes == 0 || of->nodes > gathers[number].nodes)
        return NULL;
    uint32_t node;
    if (of->gather == NMM_GATHER_BY_INSTANCE) {
        const uint64_t part = (uint64_t)(instance - of->first) * of->nodes / (of->instances > 0 ? of->instances : 1);
        node = part < of->nodes ? (uint32_t)part : of->nodes - 1;
    } else {
        node = own_node(of);
    }
    const uint32_t at = gathers[number].region + node;
    if (unlikely(nmm_load_acquire(&states[at]) != READY) && !make_ready(at, rule, node)
        && nmm_load_acquire(&states[at]) != READY) {
        __atomic_fetch_add(&of->unlisted, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    struct region *region = region_at(at);
    const uint32_t size = size_number(bytes);
    void *block = take_freed(region, size);
    if (block != NULL) {
        if (zeroed)
            memset(block, 0, bytes);
    } else if ((block = take_fresh(region, size)) == NULL) {
        __atomic_fetch_add(&of->unlisted, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    __atomic_fetch_add(&of->matched, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&of->bytes, bytes, __ATOMIC_RELAXED);
    return block;
}

void nmm_gathered_free(void *block)
{
    struct region *region = region_of(block);
    const uint32_t size = size_of_block(block);
    const uint32_t grain = (uint32_t)(((uintptr_t)block - (uintptr_t)region) / GRAIN);
    uint64_t head = nmm_load(&region->freed[size]), next;
    do {
        nmm_store((uint32_t *)block, (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | grain;
    } while (!__atomic_compare_exchange_n(&region->freed[size], &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

uint64_t nmm_gathered_size(const void *block) { return size_bytes(size_of_block(block)); }
