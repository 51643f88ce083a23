/* Policies of memory, as system calls. */
#ifndef NMM_POLICY_H
#define NMM_POLICY_H

#include "place.h"

/* Pages of an object that are its alone. */
struct nmm_pages {
    uintptr_t low, high;        /* whole pages */
    uintptr_t base;             /* from which pages are counted: `low`, rounded down to the size of the rule's pages */
    uint64_t unit;              /* that size */
    bool settled;               /* what is there lies right: nothing is moved */
};

/* The whole pages of a range; none if low >= high. */
struct nmm_pages nmm_whole_pages(const struct nmm_plan_rule *rule, uintptr_t address, uint64_t bytes);

static inline uint64_t nmm_page_count(const struct nmm_pages *pages)
{
    return (pages->high - pages->base + pages->unit - 1) / pages->unit;
}

/* Asks for the rule's policy; `node` is the index of the one node that all of it goes to, -1: as the policy says. Returns how many
 * pieces that makes of the process' mappings; nmm_give_pieces when they are gone. */
uint32_t nmm_ask(uint32_t rule, const struct nmm_pages *pages, int32_t node);

void nmm_give_pieces(uint32_t pieces);

/* Back to the policy of the process, for memory that goes to somebody else. */
void nmm_ask_nothing(uintptr_t low, uintptr_t high);

#endif
