/* The heap. A release is published before the real call, an acquisition after it: so two events about one address are never
 * in the wrong order, whichever threads made them. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "../base/arena.h"
#include "../emit/note.h"
#include "../emit/ring.h"
#include "../emit/stack.h"
#include "../place/gather.h"
#include "../place/match.h"
#include "hooks.h"
#include "recent.h"

#define PAGE 4096

/* Like nmm_enter_hook, for a caller that may be the allocator itself. A call from outside the allocator's code while it is
 * active comes from a signal handler, and counts. One from our own code was a jump: jemalloc's operator delete goes on to free
 * in this way. */
static __attribute__((noinline)) struct nmm_thread *enter_slowly(const uintptr_t *frame)
{
    struct nmm_thread *self = nmm_enter_hook(frame);
    if (self == NULL && nmm_process.segment && nmm_self.in_allocator && !nmm_self.scratch
        && !(frame[1] - nmm_process.allocator_low < nmm_process.allocator_high - nmm_process.allocator_low)
        && !(frame[1] - nmm_process.own_low < nmm_process.own_high - nmm_process.own_low))
        self = nmm_attach(&nmm_self);
    return self;
}

static inline struct nmm_thread *enter(const uintptr_t *frame)
{
    struct nmm_thread *self = nmm_enter_quickly();
    return likely(self != NULL) ? self : enter_slowly(frame);
}

/* With the bytes that the allocator has added. */
static NMM_COLD void tell(uint32_t what, const void *block, size_t size)
{
    const size_t usable = nmm_usable_size(block, NMM_FRAME);
    nmm_tell(what, (uintptr_t)block, usable > size ? usable : size);
}

static __attribute__((noinline)) void acquired_new(
    struct nmm_thread *self, enum nmm_api api, const void *block, size_t size, const uintptr_t *frame)
{
    if (!nmm_process.heap)
        return;
    if (unlikely(nmm_process.exact))
        tell(NMM_NOTE_BLOCK, block, size);
    struct nmm_memo *memo = nmm_memo_take(self, (uintptr_t)frame);
    const uint64_t stack = nmm_call_stack_by(self, memo, frame);
    if (likely(memo != NULL && nmm_process.collapse && size <= NMM_RECENT_LARGEST))
        nmm_recent_acquired(self, api, (uintptr_t)block, size, stack);
    else
        nmm_send_alloc(self, api, (uintptr_t)block, size, stack);
    if (likely(memo != NULL))
        nmm_memo_give(memo);
}

static __attribute__((noinline)) void acquired(
    struct nmm_thread *self, enum nmm_api api, const void *block, size_t size, const uintptr_t *frame)
{
    if (!nmm_recent_again(self, api, (uintptr_t)block, size, frame))
        acquired_new(self, api, block, size, frame);
}

static __attribute__((noinline)) void send_free(struct nmm_thread *self, enum nmm_api api, const void *block, bool tentative)
{
    if (!nmm_process.heap)
        return;
    if (unlikely(nmm_process.exact))
        tell(NMM_NOTE_END, block, 0);
    const uint64_t payload[] = {(uintptr_t)block, nmm_next_version(nmm_version_of((uintptr_t)block))};
    nmm_emit(self, (struct nmm_tag){NMM_FREE, (uint16_t)api, tentative}, payload, 2);
}

/* A tentative release that did not happen. */
static NMM_COLD void kept(struct nmm_thread *self, const void *block)
{
    if (!nmm_process.heap)
        return;
    const uint64_t payload[] = {(uintptr_t)block};
    nmm_emit(self, (struct nmm_tag){NMM_UNFREE, 0, 0}, payload, 1);
}

static NMM_COLD void *out_of_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

/* Our own allocations in thread.c, and those before the real functions are known. */
static NMM_COLD void *take(size_t size, size_t alignment)
{
    struct nmm_thread *self = &nmm_self;
    if (self->scratch) {
        char *block = (char *)nmm_round_up((uintptr_t)self->scratch, 16);
        if (size > (size_t)(self->scratch_end - block) || self->scratch_end < block)
            return out_of_memory();
        self->scratch = block + size;
        return memset(block, 0, size);
    }
    void *block = nmm_arena_take(size, alignment);
    return block ? block : out_of_memory();
}

#define FORWARD(name) (nmm_real.name != NULL && nmm_self.scratch == NULL)

/* What is gathered by the plan is not the allocator's. */
static inline void release(void *block)
{
    if (unlikely(nmm_is_gathered(block))) {
        nmm_gathered_free(block);
        return;
    }
    nmm_placed_ends(block);
    nmm_real.free(block);
}

static NMM_COLD void *regrow(void *old, size_t bytes)
{
    const size_t usable = nmm_gathered_size(old);
    if (bytes > 0 && bytes <= usable)
        return old;
    void *block = bytes > 0 ? nmm_real.malloc(bytes) : NULL;
    if (block != NULL)
        memcpy(block, old, usable < bytes ? usable : bytes);
    if (block != NULL || bytes == 0)
        nmm_gathered_free(old);
    return block;
}

/* A block that stays, for there is no room for a larger one, stays where it was put. */
static NMM_COLD void *real_realloc_placed(void *old, size_t bytes)
{
    const bool placed = nmm_place_end_block((uintptr_t)old);
    void *block = nmm_real.realloc(old, bytes);
    if (placed && block == NULL && bytes != 0 && nmm_real.malloc_usable_size)
        nmm_place_block(old, nmm_usable_size(old, NMM_FRAME), NMM_FRAME);
    return block;
}

static inline void *real_realloc(void *old, size_t bytes)
{
    if (old == NULL)
        return nmm_real.realloc(old, bytes);
    if (unlikely(nmm_is_gathered(old)))
        return regrow(old, bytes);
    if (unlikely(nmm_load(&nmm_place.labels)))
        nmm_place_end_labels((uintptr_t)old);
    if (!nmm_may_be_placed(old))
        return nmm_real.realloc(old, bytes);
    return real_realloc_placed(old, bytes);
}

/* Records what `expression` allocated; without permission to record, or without the real function, the alternatives. */
#define ALLOCATE(name, api, size, expression, otherwise)       \
    do {                                                       \
        const uintptr_t *frame = NMM_FRAME;                    \
        struct nmm_thread *self = enter(frame);                \
        if (unlikely(self == NULL || nmm_real.name == NULL)) { \
            if (!FORWARD(name))                                \
                return (otherwise);                            \
            void *forwarded = (expression);                    \
            nmm_placed_block(forwarded, (size), frame);        \
            return forwarded;                                  \
        }                                                      \
        uint32_t depth = nmm_allocator_enter(self, frame);     \
        void *block = (expression);                            \
        nmm_allocator_leave(self, depth);                      \
        nmm_placed_block(block, (size), frame);                \
        if (likely(block != NULL))                             \
            acquired(self, (api), block, (size), frame);       \
        return block;                                          \
    } while (0)

/* Not in the allocator's own code, nor before we have found out what is there. */
static NMM_COLD void *gather(enum nmm_api api, size_t size, bool zeroed, const uintptr_t *frame)
{
    if (nmm_self.scratch != NULL || nmm_self.in_allocator != 0)
        return NULL;
    void *block = nmm_gather(size, zeroed, frame);
    struct nmm_thread *self = block != NULL ? enter(frame) : NULL;
    if (self != NULL)
        acquired(self, api, block, size, frame);
    return block;
}

/* Nothing is to be done about an allocation but to pass it on. Scratch memory is asked for in the thread itself: another thread may
 * write an older answer to the words that all share, and what is taken from scratch memory must not be freed on the heap. */
#define IS_QUICK(size)                                                                                               \
    ((likely((size) < nmm_load(&nmm_quick_below)) || (nmm_load(&nmm_quick_places) && nmm_is_of_no_rule(NMM_FRAME))) \
        && likely(nmm_self.scratch == NULL))

void *nmm_hook_malloc(size_t size)
{
    if (IS_QUICK(size))
        return nmm_real.malloc(size);
    void *gathered = unlikely(nmm_place.gathers > 0) ? gather(NMM_MALLOC, size, false, NMM_FRAME) : NULL;
    if (unlikely(gathered != NULL))
        return gathered;
    ALLOCATE(malloc, NMM_MALLOC, size, nmm_real.malloc(size), take(size, 1));
}

static void *take_array(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? out_of_memory() : take(bytes, 1);
}

void *nmm_hook_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && IS_QUICK(bytes))
        return nmm_real.calloc(count, size);
    void *gathered = NULL;
    if (unlikely(nmm_place.gathers > 0) && !__builtin_mul_overflow(count, size, &bytes))
        gathered = gather(NMM_CALLOC, bytes, true, NMM_FRAME);
    if (unlikely(gathered != NULL))
        return gathered;
    ALLOCATE(calloc, NMM_CALLOC, count * size, nmm_real.calloc(count, size), take_array(count, size));
}

void *nmm_hook_memalign(size_t alignment, size_t size)
{
    ALLOCATE(memalign, NMM_MEMALIGN, size, nmm_real.memalign(alignment, size), take(size, alignment));
}

void *nmm_hook_aligned_alloc(size_t alignment, size_t size)
{
    ALLOCATE(aligned_alloc, NMM_ALIGNED_ALLOC, size, nmm_real.aligned_alloc(alignment, size), take(size, alignment));
}

void *nmm_hook_valloc(size_t size)
{
    ALLOCATE(valloc, NMM_VALLOC, size, nmm_real.valloc(size), take(size, PAGE));
}

void *nmm_hook_pvalloc(size_t size)
{
    ALLOCATE(pvalloc, NMM_PVALLOC, size, nmm_real.pvalloc(size), take(size, PAGE));
}

int nmm_hook_posix_memalign(void **result, size_t alignment, size_t size)
{
    const uintptr_t *frame = NMM_FRAME;
    struct nmm_thread *self = enter(frame);
    if (unlikely(self == NULL || nmm_real.posix_memalign == NULL)) {
        if (FORWARD(posix_memalign)) {
            const int failed = nmm_real.posix_memalign(result, alignment, size);
            if (failed == 0)
                nmm_placed_block(*result, size, frame);
            return failed;
        }
        const int saved = errno; /* posix_memalign reports by its result alone */
        void *block = take(size, alignment);
        errno = saved;
        if (block == NULL)
            return ENOMEM;
        *result = block;
        return 0;
    }
    uint32_t depth = nmm_allocator_enter(self, frame);
    int error = nmm_real.posix_memalign(result, alignment, size);
    nmm_allocator_leave(self, depth);
    if (error == 0)
        nmm_placed_block(*result, size, frame);
    if (error == 0 && *result != NULL)
        acquired(self, NMM_POSIX_MEMALIGN, *result, size, frame);
    return error;
}

/* All but the case that the thread allocated the block itself a moment ago. */
static __attribute__((noinline)) void free_slowly(void *block, const uintptr_t *frame)
{
    struct nmm_thread *self = enter(frame);
    if (unlikely(nmm_arena_has(block)))
        return;
    if (unlikely(self == NULL || block == NULL)) {
        if (FORWARD(free)) /* every block that is seen while there is scratch memory is from it */
            release(block);
        return;
    }
    send_free(self, NMM_MALLOC, block, false);
    uint32_t depth = nmm_allocator_enter(self, frame);
    release(block);
    nmm_allocator_leave(self, depth);
}

void nmm_hook_free(void *block)
{
    if (likely(nmm_load(&nmm_quick_free) && nmm_self.scratch == NULL && !nmm_arena_has(block))) {
        nmm_real.free(block);
        return;
    }
    const uintptr_t *frame = NMM_FRAME;
    struct nmm_thread *self = nmm_enter_quickly();
    if (unlikely(self == NULL || !nmm_recent_released(self, (uintptr_t)block, frame))) {
        free_slowly(block, frame);
        return;
    }
    nmm_allocator_enter(self, frame);
    release(block);
    nmm_allocator_leave(self, 0);
}

/* Gone from glibc since 2.26, but old binaries call it. */
void nmm_hook_cfree(void *block) { nmm_hook_free(block); }

/* A block of the arena moves to the real heap; so does one of the scratch memory, within it. */
static NMM_COLD void *move(void *old, size_t old_size, size_t size)
{
    void *block = nmm_hook_malloc(size);
    if (block)
        memcpy(block, old, old_size < size ? old_size : size);
    return block;
}

static inline __attribute__((always_inline)) void *reallocate(
    enum nmm_api api, void *old, size_t count, size_t size, const uintptr_t *frame)
{
    struct nmm_thread *self = enter(frame);
    size_t bytes;
    bool overflow = __builtin_mul_overflow(count, size, &bytes);
    if (unlikely(overflow))
        return out_of_memory(); /* as reallocarray does; realloc passes a count of 1 */
    void *gathered = unlikely(nmm_place.gathers > 0) && old == NULL ? gather(api, bytes, false, frame) : NULL;
    if (unlikely(gathered != NULL))
        return gathered;
    if (unlikely(old != NULL && nmm_arena_has(old)))
        return move(old, nmm_arena_size(old), bytes);
    if (unlikely(nmm_self.scratch != NULL)) {
        /* The new block lies behind the old one, so as much as is asked for can be read from the old. */
        void *block = take(bytes, 1);
        return block && old ? memmove(block, old, bytes) : block;
    }
    if (unlikely(nmm_real.realloc == NULL))
        return take(bytes, 1);
    if (unlikely(self == NULL)) {
        void *block = real_realloc(old, bytes);
        nmm_placed_block(block, bytes, frame);
        return block;
    }

    if (old != NULL)
        send_free(self, api, old, true);
    uint32_t depth = nmm_allocator_enter(self, frame);
    void *block = real_realloc(old, bytes);
    nmm_allocator_leave(self, depth);
    nmm_placed_block(block, bytes, frame);
    if (likely(block != NULL))
        acquired(self, api, block, bytes, frame);
    else if (old != NULL && bytes != 0) /* realloc(p, 0) that returns NULL has freed p */
        kept(self, old);
    return block;
}

void *nmm_hook_realloc(void *old, size_t size) { return reallocate(NMM_REALLOC, old, 1, size, NMM_FRAME); }

void *nmm_hook_reallocarray(void *old, size_t count, size_t size)
{
    return reallocate(NMM_REALLOCARRAY, old, count, size, NMM_FRAME);
}

size_t nmm_hook_malloc_usable_size(void *block)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    if (nmm_arena_has(block))
        return nmm_arena_size(block);
    if (nmm_is_gathered(block))
        return nmm_gathered_size(block);
    return nmm_usable_size(block, NMM_FRAME);
}

struct nmm_thread *nmm_heap_enter(const uintptr_t *frame) { return enter(frame); }

void nmm_heap_acquired(struct nmm_thread *self, enum nmm_api api, const void *block, size_t size, const uintptr_t *frame)
{
    acquired(self, api, block, size, frame);
}

void nmm_heap_releasing(struct nmm_thread *self, const void *block, const uintptr_t *frame)
{
    if (!nmm_recent_released(self, (uintptr_t)block, frame))
        send_free(self, NMM_NEW, block, false);
}
