/* The hooks and what they stand in for. */
#ifndef NMM_HOOKS_H
#define NMM_HOOKS_H

#include <pthread.h>
#include <sys/types.h>

#include "../base/common.h"
#include "../emit/attach.h"

typedef void *nmm_start_routine(void *);
typedef int nmm_c11_routine(void *);

#define HOOK(result, name, parameters) \
    result nmm_hook_##name parameters __asm__(#name) __attribute__((visibility("default")));
#include "hooks.def"
#undef HOOK

/* The next definitions. */
struct nmm_real {
#define HOOK(result, name, parameters) result(*name) parameters;
#include "hooks.def"
#undef HOOK
};
extern struct nmm_real nmm_real;

/* Called by the first hook or by our constructor, whichever comes first. Afterwards nmm_real is filled, and if the program
 * is recorded, nmm_process.segment is set. Later calls return at once. */
void nmm_start(void);

#if defined(__x86_64__)
/* The next syscall(), see confine.c, and dlopen(), see process.c. */
extern void *nmm_real_syscall, *nmm_real_dlopen;
#endif

/* Where a program is not recorded, hooks have but to forward: allocations of fewer bytes than this, and releases while this is not
 * 0. They are 0 as long as a hook must look closer: before the real functions are known, in a recording, where a plan gathers small
 * objects; releases, too, once something has been placed. */
extern uint64_t nmm_quick_below;
extern uint32_t nmm_quick_free;

/* And where a plan has rules of places only, all allocations that are of none of them, while this is not 0. */
extern uint32_t nmm_quick_places;

/* Called when what they depend on has changed. */
void nmm_find_quick(void);

/* Looks again for what was not found: before glibc 2.34, libpthread and libdl may come by dlopen. */
void nmm_resolve_late(void);

/* What heap.c does for the operators of C++ too: permission to record; a block that was allocated; one that is to be freed. */
struct nmm_thread *nmm_heap_enter(const uintptr_t *frame);
void nmm_heap_acquired(struct nmm_thread *self, enum nmm_api api, const void *block, size_t size, const uintptr_t *frame);
void nmm_heap_releasing(struct nmm_thread *self, const void *block, const uintptr_t *frame);

/* The next definitions were looked for: whether some of these operators are the allocator's. */
void nmm_operators_found(void);

/* A library was closed, which may have been where an operator was found that came late. */
void nmm_operators_forget(void);

/* The hook's own frame: [0] its caller's frame pointer, [1] the return address. */
#define NMM_FRAME ((const uintptr_t *)__builtin_frame_address(0))

static inline struct nmm_thread *nmm_enter_hook(const uintptr_t *frame)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    return nmm_enter((uintptr_t)frame);
}

/* Around a call of the real allocator: what that calls in turn is its own business, not the program's. */
static inline uint32_t nmm_allocator_enter(struct nmm_thread *self, const uintptr_t *frame)
{
    uint32_t depth = self->in_allocator;
    if (likely(depth == 0))
        self->allocator_frame = (uintptr_t)frame;
    nmm_store(&self->in_allocator, depth + 1);
    nmm_signal_fence();
    return depth;
}

static inline void nmm_allocator_leave(struct nmm_thread *self, uint32_t depth)
{
    nmm_signal_fence();
    nmm_store(&self->in_allocator, depth);
}

/* Bytes of a block with what the allocator has added; 0 if it does not tell. tcmalloc allocates when it is asked for the first time. */
static inline size_t nmm_usable_size(const void *block, const uintptr_t *frame)
{
    if (nmm_real.malloc_usable_size == NULL)
        return 0;
    const uint32_t depth = nmm_allocator_enter(&nmm_self, frame);
    const size_t bytes = nmm_real.malloc_usable_size((void *)block);
    nmm_allocator_leave(&nmm_self, depth);
    return bytes;
}

#endif
