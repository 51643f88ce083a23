/* Which rule an object is under. */
#ifndef NMM_MATCH_H
#define NMM_MATCH_H

#include "place.h"

#define NMM_NO_RULE 0xffffffffu

/* The first rule for what was allocated at the call stack of the hook with `frame`; counts its instance. Sets `instance`. */
uint32_t nmm_match(uint32_t target, uint64_t bytes, const uintptr_t *frame, uint32_t *instance);

/* The same for small heap blocks and rules that gather them; the others do not count. */
uint32_t nmm_match_gathered(uint64_t bytes, const uintptr_t *frame, uint32_t *instance);

/* Looks which modules of the plan have come since, and places their static objects. False: no module at all has come. */
bool nmm_find_modules(void);

/* A library was closed: its code is gone, and other code may come to lie there. */
void nmm_forget_modules(void);

#endif
