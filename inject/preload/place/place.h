/* The applier: puts objects where the plan wants them.
 *
 *   hooks (a block, a mapping, a thread, dlopen) -> which rule (match.c) -> which pages (lay.c) -> mbind (policy.c)
 *                                                                                  |
 *                                   pages as they lie at the end (verify.c) <- list of what was placed (list.c)
 *
 * Objects keep their addresses, but for small ones that a rule gathers (gather.c). The kernel does the work: a policy is set on
 * the whole pages of an object before they are used, and pages that are there already are moved. Nothing here fails the program.
 * All tables are private memory of the process, but for the plan's own counters and list, which are shared. */
#ifndef NMM_PLACE_H
#define NMM_PLACE_H

#include "../../wire/include/numamma_plan.h"
#include "../base/common.h"

struct nmm_place {
    struct nmm_plan *plan;          /* NULL: nothing is to be placed */
    struct nmm_plan_rule *rules;
    const uint32_t *nodes;
    struct nmm_placed *placed;
    uint32_t *instances;            /* by rule: objects of this process */
    uint32_t *everywhere;           /* rules that are not of places, ascending */
    uint32_t everywhere_count;
    uint32_t counting;              /* one more than the last rule for some instances only */
    uint32_t opened;                /* threads that look whether a library has come */
    uint32_t gathers;               /* rules that gather small objects */
    uint32_t bases;                 /* rules that have targets, before those of phases */
    uint64_t least;                 /* what nmm_place_least is when there is nothing to look for */
    uint32_t has_threads;           /* 1: more than the main one were created */
    uint32_t labels;                /* 1: memory that the program names was placed; it may lie in any block */
    struct nmm_plan_process *own;   /* of this process, or of the one that it was forked from; NULL: there was no room */
};

extern struct nmm_place nmm_place;

/* Blocks of at least so many bytes are looked at, also by who knows nothing of plans: SIZE_MAX where there is none. While a
 * library may have come it is 0, so that the next allocation looks. */
extern uint64_t nmm_place_least;

/* Maps the plan that the environment names, and places static objects. Once, by nmm_start. */
void nmm_place_join(void);

/* What the loader tells debuggers; NULL: it does not. Found by nmm_start. */
struct r_debug;
extern const struct r_debug *nmm_r_debug;

/* dlopen is about to be called. */
void nmm_place_opened(void);

/* A heap block, or a mapping, has come to be. `frame`: the hook's. */
void nmm_place_block(void *block, uint64_t bytes, const uintptr_t *frame);
void nmm_place_mapping(void *address, uint64_t bytes, const uintptr_t *frame);

const char *nmm_plan_text(uint32_t at);
bool nmm_is_text(const char *a, const char *b);

/* The program names memory, takes a name back, or says that a phase begins; NULL: that none is left. */
void nmm_place_label(uintptr_t address, uint64_t bytes, const char *name);
void nmm_place_unlabel(uintptr_t address);
void nmm_place_phase(const char *name);

/* Places the whole pages of an object under a rule, or the one that stands in for it in this phase, and lists them; `node` as for
 * nmm_ask. */
void nmm_place_pages(uint32_t rule, uintptr_t address, uint64_t bytes, uintptr_t key, int32_t node);

static inline void nmm_placed_block(void *block, uint64_t bytes, const uintptr_t *frame)
{
    if (unlikely(bytes >= nmm_load(&nmm_place_least)) && block != NULL)
        nmm_place_block(block, bytes, frame);
}

/* Bits of pages that placed objects begin in, by a hash: nearly all blocks that are freed are none of them. */
#define NMM_PLACED_BITS (1u << 16)
extern uint32_t nmm_placed_any;
extern uint64_t nmm_placed_bits[NMM_PLACED_BITS / 64];

static inline uint32_t nmm_placed_bit(uintptr_t address)
{
    return (uint32_t)((address >> 12) * 0x9e3779b97f4a7c15ull >> 48);
}

/* Before a block is freed, or mappings end: what lay in them is read back, and is forgotten. */
bool nmm_place_end_block(uintptr_t block);
bool nmm_place_end_mappings(uintptr_t address, uint64_t bytes);

/* Before a block is freed that names of the program's may lie in. */
void nmm_place_end_labels(uintptr_t block);

/* The same before mappings move: they become one. Whether there was anything. */
bool nmm_place_join_mappings(uintptr_t address, uint64_t bytes);

static inline bool nmm_may_be_placed(const void *block)
{
    const uint32_t bit = nmm_placed_bit((uintptr_t)block);
    return unlikely(nmm_load(&nmm_placed_bits[bit / 64]) >> bit % 64 & 1);
}

static inline void nmm_placed_ends(const void *block)
{
    if (nmm_may_be_placed(block))
        nmm_place_end_block((uintptr_t)block);
    if (unlikely(nmm_load(&nmm_place.labels)))
        nmm_place_end_labels((uintptr_t)block);
}

/* The program is about to end: reads back what it still has. */
void nmm_place_finish(void);

/* The main thread begins where it will be pinned, and so does the memory that it uses first. It stays free, and may use all CPUs,
 * until it creates a thread: run times count the CPUs that they may use. */
void nmm_place_main_thread(void);

/* From now on its memory goes where it runs: it is pinned, or this is the child of a fork. */
void nmm_place_leave_main_node(void);

/* The number of a thread that is about to be created, 0 if threads run where they like; the thread then pins itself. Its number is free
 * again when it has ended or could not be created, and all are in the child of a fork. */
uint32_t nmm_place_new_thread(void);
void nmm_place_pin(uint32_t thread);
void nmm_place_thread_ended(uint32_t thread);
void nmm_place_forget_threads(void);

#endif
