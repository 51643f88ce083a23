/* Memory that the program has named, as long as it has the name. */
#ifndef NMM_LABEL_H
#define NMM_LABEL_H

#include "../base/common.h"

/* Notes a name; false if there is no room. One of the same address ends. */
bool nmm_label_begins(uintptr_t address, uint64_t bytes);

/* The name of that address ends; returns how many bytes it was of, 0 if there was none. */
uint64_t nmm_label_ends(uintptr_t address);

/* The same for all that meet a range; `each` is given their addresses, when they are out of the table. Whether there was one. */
bool nmm_labels_end(uintptr_t low, uintptr_t high, void (*each)(uintptr_t address));

/* Whether one of them has a page to itself. */
bool nmm_label_holds(uintptr_t page);

/* No name of this process begins outside of this range. */
extern uintptr_t nmm_labels_low, nmm_labels_high;

#endif
