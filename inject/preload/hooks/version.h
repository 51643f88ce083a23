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

#endif
