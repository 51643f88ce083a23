/* Which pages the program has read, and which it has written, since they were mapped. */
#ifndef NMX_TOUCHED_H
#define NMX_TOUCHED_H

#include <stdbool.h>
#include <stdint.h>

/* Marks the page that holds `address`; whether that was the first access, or the first write. */
bool nmx_touch(uint64_t address, bool write);

/* The pages from `low` to `high` are mapped anew, or given back. */
void nmx_untouch(uint64_t low, uint64_t high);

#endif
