/* Phases: what lies where may change while the program runs. */
#ifndef NMM_PHASE_H
#define NMM_PHASE_H

#include "place.h"

/* Takes this process' place in the plan's table, and gives it back. */
void nmm_join_phases(void);
void nmm_leave_phases(void);

/* The rule that stands in for one with targets in this phase, or itself. */
uint32_t nmm_rule_now(uint32_t rule);

/* Asks once more for what an object's rule wants, of which the caller holds the entry. */
void nmm_ask_anew(struct nmm_placed *placed);

/* Places all that is in the list as this phase wants it. */
void nmm_place_all_anew(void);

#endif
