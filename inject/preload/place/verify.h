/* Where the pages of placed objects lie. */
#ifndef NMM_VERIFY_H
#define NMM_VERIFY_H

#include "place.h"

/* Adds to the rule's counters where the pages of an object lie that is about to go. */
void nmm_read_back(const struct nmm_placed *placed);

#endif
