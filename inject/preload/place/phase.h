/* Phases: what lies where may change while the program runs. */
#ifndef NMM_PHASE_H
#define NMM_PHASE_H

#include "place.h"

/* Takes this process' place in the plan's table. */
void nmm_join_phases(void);

/* The rule that stands in for one with targets in this phase, or itself. */
uint32_t nmm_rule_now(uint32_t rule);

#endif
