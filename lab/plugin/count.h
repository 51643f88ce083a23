/* Counters and delays, by CPU and node. */
#ifndef LAB_COUNT_H
#define LAB_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "table.h"

/* Maps the table. False if the file is not one, or not for this machine. */
bool lab_join(const char *path, unsigned cpus);

/* What a mark asks for (numamma_lab.h). */
void lab_mark(uint32_t mark);

/* True if accesses count at this moment. */
bool lab_counts(void);

/* True if accesses go through caches. */
bool lab_caches(void);

/* An access of a CPU to RAM, or more of its last one. It returns when the access would have. */
struct lab_access {
    uint64_t address, ip;
    unsigned bytes;
    bool reads, writes, goes_on;
};
void lab_access(unsigned cpu, struct lab_access access);

#endif
