/* Memory for the moments before the real malloc is known: a few allocations that the loader or a constructor makes while
 * we look it up. Never given back; `free` knows its pointers. */
#ifndef NMM_ARENA_H
#define NMM_ARENA_H

#include "common.h"

#define NMM_ARENA_BYTES (64 * 1024)
#define NMM_ARENA_HEADER 16 /* the block's size, just below it; also the least alignment */

extern char nmm_arena[NMM_ARENA_BYTES];

static inline bool nmm_arena_has(const void *p) { return (uintptr_t)p - (uintptr_t)nmm_arena < NMM_ARENA_BYTES; }

/* Zeroed memory, or NULL when it does not fit. Safe among threads and in signal handlers. */
void *nmm_arena_take(size_t size, size_t alignment);

/* Size of a block of the arena. */
size_t nmm_arena_size(const void *p);

#endif
