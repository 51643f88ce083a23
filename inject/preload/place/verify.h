/* Where the pages of placed objects lie. */
#ifndef NMM_VERIFY_H
#define NMM_VERIFY_H

#include "place.h"

struct nmm_tally {
    uint64_t right, elsewhere, absent, unread;
    uint64_t by_node[NMM_PLAN_COUNTED];
};

/* Where the pages of an object lie; false if its rule wants them nowhere. And adds that to the rule's counters. */
bool nmm_tally(const struct nmm_placed *placed, struct nmm_tally *tally);
void nmm_count_tally(uint32_t rule, const struct nmm_tally *tally);

/* Both at once: adds to the rule's counters where the pages of an object lie that is about to go. True if none lies elsewhere. */
bool nmm_read_back(const struct nmm_placed *placed);

#endif
