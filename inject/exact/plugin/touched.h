/* Which pages the program has accessed since they were mapped: one bit each. */
#ifndef NMX_TOUCHED_H
#define NMX_TOUCHED_H

#include <stdbool.h>
#include <stdint.h>

/* Marks the page that holds `address`; whether it was not marked before. */
bool nmx_touch(uint64_t address);

/* The pages from `low` to `high` are mapped anew, or given back. */
void nmx_untouch(uint64_t low, uint64_t high);

#endif
