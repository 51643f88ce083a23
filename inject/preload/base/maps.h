/* Files whose code is mapped here, as the kernel tells it. The loader knows the same, but only under locks: a thread that holds one
 * while another forks leaves it locked in the child for ever. */
#ifndef NMM_MAPS_H
#define NMM_MAPS_H

#include "common.h"

/* A file with code, from its first mapping on to its last. */
struct nmm_mapped_file {
    uintptr_t low, high;
    uintptr_t first_high;       /* end of the mapping that begins at `low` */
    bool start;                 /* that mapping is of the file's start */
    bool readable;              /* and can be read */
    bool code;                  /* one of them is executable */
    char path[512];             /* as the kernel has it; empty if it is longer */
};

/* Calls `each` for every such file, in the order of addresses, until it returns true. False: the kernel does not say. */
bool nmm_each_mapped_file(bool (*each)(const struct nmm_mapped_file *file, void *data), void *data);

#endif
