/* Which page of an object goes where, for the policies that give each page a place of its own. */
#ifndef NMM_LAY_H
#define NMM_LAY_H

#include "../../wire/include/numamma_plan.h"
#include "../base/common.h"

/* Pages `first` to `last` (not included) of the object go to the rule's node number `node`. */
struct nmm_piece {
    uint64_t first, last;
    uint32_t node;
};

/* Goes through the pieces of an object of `pages` pages of `page` bytes: `piece` is all zero before the first call. False when
 * there are no more. */
bool nmm_next_piece(const struct nmm_plan *plan, const struct nmm_plan_rule *rule, uint64_t pages, uint64_t page, struct nmm_piece *piece);

static inline bool nmm_has_pieces(const struct nmm_plan_rule *rule) { return rule->policy >= NMM_POLICY_BLOCK; }

#endif
