/* Small objects of one place in the code, gathered so that those of one node share no page with others.
 *
 *   one reservation:  | region of rule 0, node 0 | rule 0, node 1 | ... |      each has the policy of its node from the start
 *   region:           | what is known of it | slab | slab | slab ...           a slab holds blocks of one size
 *
 * Lock-free, and without system calls but for a region's first block. Memory is reused within the region, and never given back. */
#ifndef NMM_GATHER_H
#define NMM_GATHER_H

#include "place.h"

#define NMM_GATHER_MOST 4096u   /* bytes of a small object */

extern uintptr_t nmm_gathered_low, nmm_gathered_bytes;

static inline bool nmm_is_gathered(const void *block) { return unlikely((uintptr_t)block - nmm_gathered_low < nmm_gathered_bytes); }

/* A block if a rule gathers what the hook with `frame` allocates; zeroed on demand. NULL: it is an ordinary block, or there is no
 * more room. */
void *nmm_gather(uint64_t bytes, bool zeroed, const uintptr_t *frame);

/* Reserves the regions, when the plan is joined. */
void nmm_gather_prepare(void);

void nmm_gathered_free(void *block);
uint64_t nmm_gathered_size(const void *block);

#endif
