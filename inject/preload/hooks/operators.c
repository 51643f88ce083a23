/* The operators new and delete of C++. Those of the C++ library call malloc, which is seen; here they are only passed on, by a
 * jump that leaves no frame. But shared allocators (jemalloc, tcmalloc, mimalloc) define them beside their malloc and never
 * call that: their allocations would not be seen, and an address that malloc's caller gave back would still count as its.
 *
 * Standing in for them in every program has a price: whoever asks for an operator finds ours first. What a C program loads
 * later with a C++ library of its own is looked for then. */
#include "../base/arena.h"
#include "../place/place.h"
#include "hooks.h"

/* Both calling conventions pass arguments that are not looked at as if they were not there. */
typedef void *operator_new(size_t size, uintptr_t a, uintptr_t b);
typedef void operator_delete(void *block, uintptr_t a, uintptr_t b);

static uint32_t found_late;

/* The next definition, where it is not known yet or the allocator's; NULL if there is none. */
static __attribute__((noinline)) void *find(void **slot)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    if (unlikely(nmm_load(slot) == NULL)) {
        nmm_store(&found_late, 1);
        nmm_resolve_late();
    }
    return nmm_load(slot);
}

static bool is_allocators(const void *operator)
{
    return (uintptr_t)operator - nmm_process.allocator_low < nmm_process.allocator_high - nmm_process.allocator_low
        && !nmm_process.allocator_is_libc;
}

void nmm_operators_found(void)
{
    bool some = false;
#define OPERATOR(result, name, parameters) some |= is_allocators(*(void **)&nmm_real.name);
#include "operators.def"
#undef OPERATOR
    nmm_process.operators = some;
}

void nmm_operators_forget(void)
{
    if (!nmm_load(&found_late))
        return;
#define OPERATOR(result, name, parameters) nmm_store(&nmm_real.name, NULL);
#include "operators.def"
#undef OPERATOR
}

/* An exception comes through `guarded`: the unwinder calls this to clean up, where a function of C++ would name the one of its
 * library, which we do not want to need. The numbers are those of the ABI of exceptions. */
#define CLEANUP_PHASE 2
#define CONTINUE_UNWIND 8
__attribute__((used, visibility("hidden"))) int nmm_new_threw(
    int version, int actions, uint64_t class, void *exception, void *context)
{
    (void)version, (void)class, (void)exception, (void)context;
    if (actions & CLEANUP_PHASE)
        nmm_allocator_leave(&nmm_self, nmm_self.in_allocator - 1);
    return CONTINUE_UNWIND;
}

/* No jump instead of a call that is the last thing to do: this frame has to stay. */
#define STAY() __asm__ volatile("")

/* Calls an operator that may throw. */
static __attribute__((noinline)) void *guarded(operator_new *real, size_t size, uintptr_t a, uintptr_t b)
{
    __asm__ volatile(".cfi_personality 0x1b, nmm_new_threw");
    void *block = real(size, a, b);
    STAY();
    return block;
}

/* Where nobody defines an operator, only somebody calls it who asked whether there is one. */
static __attribute__((noinline)) void *allocate(
    void **slot, size_t size, uintptr_t a, uintptr_t b, bool aligned, const uintptr_t *frame)
{
    operator_new *real = (operator_new *)find(slot);
    if (unlikely(real == NULL))
        return aligned ? nmm_hook_aligned_alloc(a, size) : nmm_hook_malloc(size);
    struct nmm_thread *self = is_allocators(real) ? nmm_heap_enter(frame) : NULL;
    if (unlikely(self == NULL)) {
        void *block = real(size, a, b);
        if (is_allocators(real))
            nmm_placed_block(block, size, frame);
        return block;
    }
    uint32_t depth = nmm_allocator_enter(self, frame);
    void *block = guarded(real, size, a, b);
    nmm_allocator_leave(self, depth);
    nmm_placed_block(block, size, frame);
    if (likely(block != NULL))
        nmm_heap_acquired(self, NMM_NEW, block, size, frame);
    return block;
}

static __attribute__((noinline)) void release(
    void **slot, void *block, uintptr_t a, uintptr_t b, const uintptr_t *frame)
{
    operator_delete *real = (operator_delete *)find(slot);
    if (unlikely(real == NULL || nmm_arena_has(block))) {
        nmm_hook_free(block);
        return;
    }
    if (block != NULL && is_allocators(real))
        nmm_placed_ends(block);
    struct nmm_thread *self = block != NULL && is_allocators(real) ? nmm_heap_enter(frame) : NULL;
    if (unlikely(self == NULL)) {
        real(block, a, b);
        return;
    }
    nmm_heap_releasing(self, block, frame);
    uint32_t depth = nmm_allocator_enter(self, frame);
    real(block, a, b);
    nmm_allocator_leave(self, depth);
}

#define NEW(name, parameters, arguments, a, b, aligned)                                                      \
    void *nmm_hook_##name parameters                                                                         \
    {                                                                                                        \
        __typeof__(nmm_real.name) real = nmm_load(&nmm_real.name);                                           \
        if (likely(real != NULL && !nmm_process.operators))                                                  \
            return real arguments;                                                                           \
        void *block                                                                                          \
            = allocate((void **)&nmm_real.name, size, (uintptr_t)(a), (uintptr_t)(b), (aligned), NMM_FRAME); \
        STAY();                                                                                              \
        return block;                                                                                        \
    }

#define DELETE(name, parameters, arguments, a, b)                                           \
    void nmm_hook_##name parameters                                                         \
    {                                                                                       \
        __typeof__(nmm_real.name) real = nmm_load(&nmm_real.name);                          \
        if (likely(real != NULL && !nmm_process.operators)) {                               \
            real arguments;                                                                 \
            return;                                                                         \
        }                                                                                   \
        release((void **)&nmm_real.name, block, (uintptr_t)(a), (uintptr_t)(b), NMM_FRAME); \
        STAY();                                                                             \
    }

NEW(_Znwm, (size_t size), (size), 0, 0, false)
NEW(_Znam, (size_t size), (size), 0, 0, false)
NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void *nothrow), (size, nothrow), nothrow, 0, false)
NEW(_ZnamRKSt9nothrow_t, (size_t size, const void *nothrow), (size, nothrow), nothrow, 0, false)
NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), (size, alignment), alignment, 0, true)
NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), (size, alignment), alignment, 0, true)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *nothrow), (size, alignment, nothrow),
    alignment, nothrow, true)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *nothrow), (size, alignment, nothrow),
    alignment, nothrow, true)

DELETE(_ZdlPv, (void *block), (block), 0, 0)
DELETE(_ZdaPv, (void *block), (block), 0, 0)
DELETE(_ZdlPvm, (void *block, size_t size), (block, size), size, 0)
DELETE(_ZdaPvm, (void *block, size_t size), (block, size), size, 0)
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow), nothrow, 0)
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow), nothrow, 0)
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment), alignment, 0)
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment), alignment, 0)
DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment), size, alignment)
DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment), size, alignment)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *nothrow), (block, alignment, nothrow),
    alignment, nothrow)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *nothrow), (block, alignment, nothrow),
    alignment, nothrow)
