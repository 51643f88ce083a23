/* Call stacks, from the return addresses on the stack. Lock-free, allocation-free, safe in signal handlers; reads only
 * memory that is known to be mapped. */
#ifndef NMM_UNWIND_H
#define NMM_UNWIND_H

#include "../emit/state.h"

struct nmm_trace {
    unsigned count;         /* of frames */
    bool cut;               /* the stack goes on, but we do not: too deep, or no rule */
};

/* Return addresses, innermost first, beginning with the caller of the function whose frame address is `frame`. */
struct nmm_trace nmm_unwind(const struct nmm_thread *self, const uintptr_t *frame, uint64_t *frames, unsigned max);

/* Folds a frame into the hash of the frames outside it, which for the outermost one is nmm_process.seed. */
static inline uint64_t nmm_hash_frame(uint64_t outer, uint64_t pc)
{
    uint64_t hash = (outer ^ pc) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* Code was unloaded: forgets the rules. */
void nmm_unwind_forget(void);

/* Finds `_dl_find_object` or the like when the process starts: slots for nmm_resolve. */
extern void *nmm_dl_find_object;

#define NMM_RULES_BYTES (65536u * sizeof(uint64_t))

#endif
