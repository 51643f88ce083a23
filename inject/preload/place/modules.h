/* Which modules of the plan are loaded, and where. What is known is one word for each, so it is never half written: nobody waits for
 * anybody, and the child of a fork finds it as good as its parent left it. */
#ifndef NMM_MODULES_H
#define NMM_MODULES_H

#include "place.h"

/* Looks which modules have come or gone, and places the static objects of those that have come. No lock is taken, neither ours nor
 * the loader's. */
void nmm_find_modules(void);

/* An allocation by code at `caller`, while a thread opens a library: looks whether it has come. */
void nmm_look_for_library(uintptr_t caller);

/* Where the plan's module lies: what is to be added to its addresses, plus one; 0: it is not there. */
extern uint64_t nmm_module_bias[NMM_PLAN_MODULES];

/* Whether code belongs to a library no frame of which is a place. */
bool nmm_is_library(uintptr_t address);

/* Changes when code comes or goes: what was found out about addresses before may be wrong. */
extern uint32_t nmm_code_generation;

/* Before and after a library is closed: the pages of its static objects are read while they are there, and count if they go. */
struct nmm_closing;
struct nmm_closing *nmm_place_closing(void);
void nmm_place_closed(struct nmm_closing *closing);

#endif
