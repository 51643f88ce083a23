/* The file that the lab and the plug-in share: what the machine is like, and what was counted. The lab reads it while QEMU runs
 * or when it is gone. `lab/src/table.rs` mirrors it; all numbers are 64 bits wide. */
#ifndef LAB_TABLE_H
#define LAB_TABLE_H

#include <stdint.h>

#include "numamma_wire.h"

#define LAB_TABLE_MAGIC 0x334241544c4d4eull
#define LAB_CPUS 64
#define LAB_NODES 64

struct lab_cell {
    uint64_t reads, writes;
};

struct lab_table {
    uint64_t magic;
    uint64_t cpus, nodes;
    uint64_t span; /* what QEMU calls the address of RAM, divided by this, is a node */
    uint64_t counting; /* whether the plug-in counts and delays at this moment */
    uint64_t astray; /* accesses to RAM of no node */
    uint64_t queue; /* nanoseconds for which a node serves an access and no other one; 0: any number at once */
    uint64_t caching; /* 1: accesses go through the caches first, and what they have does not count */
    struct nmm_caches caches; /* of each CPU, and of each node with CPUs: its sockets */
    uint64_t unused[3];
    uint64_t delay[LAB_CPUS][LAB_NODES]; /* nanoseconds */
    struct lab_cell counted[LAB_CPUS][LAB_NODES]; /* since QEMU began; each row is written by its CPU alone */
    struct lab_cell before[LAB_CPUS][LAB_NODES]; /* what of this was forgotten */
};

#endif
