/* Versions of heap addresses: which allocation a release is of, see numamma_wire.h, "Order". */
#ifndef NMM_VERSION_H
#define NMM_VERSION_H

#include "../emit/state.h"

#define NMM_VERSIONS (1u << 16)
#define NMM_VERSIONS_BYTES (NMM_VERSIONS * sizeof(uint32_t))

/* The counter of an address. Others share it: their events only make the versions of this one grow faster. */
static inline uint32_t *nmm_version_of(uintptr_t address)
{
    return &nmm_process.versions[(address >> 4 ^ address >> 20) % NMM_VERSIONS];
}

/* The next version. Atomic, for two threads may be busy with two addresses of one counter. */
static inline uint32_t nmm_next_version(uint32_t *version)
{
    return __atomic_add_fetch(version, 1, __ATOMIC_RELAXED);
}

/* How often memory was carved anew: 64 KiB by 64 KiB, how many blocks were allocated there that were not just the block
 * that had been freed at that address. As long as that stands, a free block is what it was: nobody had its memory in a larger
 * block, or in several smaller ones, of which its version tells nothing. */
struct nmm_carving {
    uint32_t count;
    uint32_t pad[15];               /* threads have arenas of their own; so let each count have a cache line */
};

#define NMM_CARVINGS 1024u
#define NMM_CARVINGS_BYTES (NMM_CARVINGS * sizeof(struct nmm_carving))
#define NMM_CARVING_SHIFT 16

static inline uint32_t nmm_carving_at(uintptr_t address)
{
    return nmm_load(&nmm_process.carvings[(address >> NMM_CARVING_SHIFT) % NMM_CARVINGS].count);
}

static inline void nmm_carve(uintptr_t address, size_t size)
{
    uintptr_t first = address >> NMM_CARVING_SHIFT, last = (address + (size ? size - 1 : 0)) >> NMM_CARVING_SHIFT;
    if (last - first >= NMM_CARVINGS)
        last = first + NMM_CARVINGS - 1;
    for (; first <= last; first++)
        __atomic_add_fetch(&nmm_process.carvings[first % NMM_CARVINGS].count, 1, __ATOMIC_RELAXED);
}

#endif
