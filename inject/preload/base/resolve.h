/* The next definitions of the functions that we hook.
 *
 * Not by dlsym: it binds to a new glibc, and on old ones allocates. Instead the dynamic symbol tables of the loaded
 * objects are read, in link order, from the object after ours: what RTLD_NEXT would do. That finds the allocator of a
 * libjemalloc or libtcmalloc, which come before libc. */
#ifndef NMM_RESOLVE_H
#define NMM_RESOLVE_H

#include "common.h"

struct nmm_symbol {
    const char *name;
    void **slot;            /* NULL until found; filled atomically, always with the same value */
};

/* What was learnt on the way. */
struct nmm_objects {
    bool own_allocator;     /* the executable itself defines malloc: then ours is never called */
    uintptr_t allocator_low, allocator_high; /* the object that malloc is in */
    bool allocator_is_libc;
    uintptr_t own_low, own_high; /* our own object */
    uintptr_t loader_low, loader_high; /* the object that _r_debug is in, which is the loader's; 0: not known */
};

struct dl_phdr_info;

/* Whether an address lies in a segment of a loaded object; also from where to where its segments reach. */
bool nmm_object_contains(const struct dl_phdr_info *info, uintptr_t address, uintptr_t *low, uintptr_t *high);

/* Fills the slots of all symbols that can be found. Takes no lock but the loader's own, allocates nothing, may be called
 * by several threads at once. */
void nmm_resolve(const struct nmm_symbol *symbols, size_t count, struct nmm_objects *objects);

/* A function of the kernel's own object in every process (vDSO); NULL if it has none. */
void *nmm_resolve_in_vdso(const char *name);

#endif
