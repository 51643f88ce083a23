/* Atomic operations, which the compiler leaves to the hook: they are made here, and counted. Each is at least as strong as asked for;
 * on x86-64 nothing but stores and fences has a weaker form.
 *
 * Those that read and write are a read and a write, also a compare_exchange that fails: the instruction writes either way. */
#include "access.h"

typedef uint8_t of8;
typedef uint16_t of16;
typedef uint32_t of32;
typedef uint64_t of64;
typedef unsigned __int128 of128;

/* Orders come as the compiler's numbers, with flags above. */
static inline bool is_sequential(int order)
{
    const int plain = order & 0xf;
    return plain != __ATOMIC_RELAXED && plain != __ATOMIC_RELEASE;
}

#define LOAD_STORE(bits) \
    HOOK of##bits __tsan_atomic##bits##_load(const volatile of##bits *where, int order); \
    HOOK of##bits __tsan_atomic##bits##_load(const volatile of##bits *where, int order) \
    { \
        (void)order; \
        nmx_access(where, sizeof *where, NMX_CALLER, false); \
        return __atomic_load_n(where, __ATOMIC_SEQ_CST); \
    } \
    HOOK void __tsan_atomic##bits##_store(volatile of##bits *where, of##bits value, int order); \
    HOOK void __tsan_atomic##bits##_store(volatile of##bits *where, of##bits value, int order) \
    { \
        nmx_access(where, sizeof *where, NMX_CALLER, true); \
        if (is_sequential(order)) \
            __atomic_store_n(where, value, __ATOMIC_SEQ_CST); \
        else \
            __atomic_store_n(where, value, __ATOMIC_RELEASE); \
    }

#define CHANGE(bits, name, how) \
    HOOK of##bits __tsan_atomic##bits##_##name(volatile of##bits *where, of##bits value, int order); \
    HOOK of##bits __tsan_atomic##bits##_##name(volatile of##bits *where, of##bits value, int order) \
    { \
        (void)order; \
        nmx_access(where, sizeof *where, NMX_CALLER, false); \
        nmx_access(where, sizeof *where, NMX_CALLER, true); \
        return how; \
    }

#define COMPARE(bits, name) \
    HOOK bool __tsan_atomic##bits##_compare_exchange_##name( \
        volatile of##bits *where, of##bits *expected, of##bits value, int order, int failed); \
    HOOK bool __tsan_atomic##bits##_compare_exchange_##name( \
        volatile of##bits *where, of##bits *expected, of##bits value, int order, int failed) \
    { \
        (void)order, (void)failed; \
        nmx_access(where, sizeof *where, NMX_CALLER, false); \
        nmx_access(where, sizeof *where, NMX_CALLER, true); \
        const of##bits wanted = *expected, seen = SWAPPED(bits, where, wanted, value); \
        if (seen == wanted) \
            return true; \
        *expected = seen; \
        return false; \
    }

#define COMPARE_VALUE(bits) \
    HOOK of##bits __tsan_atomic##bits##_compare_exchange_val( \
        volatile of##bits *where, of##bits expected, of##bits value, int order, int failed); \
    HOOK of##bits __tsan_atomic##bits##_compare_exchange_val( \
        volatile of##bits *where, of##bits expected, of##bits value, int order, int failed) \
    { \
        (void)order, (void)failed; \
        nmx_access(where, sizeof *where, NMX_CALLER, false); \
        nmx_access(where, sizeof *where, NMX_CALLER, true); \
        return SWAPPED(bits, where, expected, value); \
    }

/* What was there; `value` is now, if that was `expected`. A full barrier. */
#define SWAPPED(bits, where, expected, value) __sync_val_compare_and_swap(where, expected, value)

#define ALL(bits) \
    LOAD_STORE(bits) \
    CHANGE(bits, exchange, __atomic_exchange_n(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_add, __atomic_fetch_add(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_sub, __atomic_fetch_sub(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_and, __atomic_fetch_and(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_or, __atomic_fetch_or(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_xor, __atomic_fetch_xor(where, value, __ATOMIC_SEQ_CST)) \
    CHANGE(bits, fetch_nand, __atomic_fetch_nand(where, value, __ATOMIC_SEQ_CST)) \
    COMPARE(bits, strong) \
    COMPARE(bits, weak) \
    COMPARE_VALUE(bits)

ALL(8)
ALL(16)
ALL(32)
ALL(64)

/* Of 16 bytes there is one instruction, and with AVX moves are atomic too: as in libatomic, which code without hooks calls. A load by
 * the instruction would write, and memory may be read-only. */
static bool has_avx;

__attribute__((constructor)) static void know_processor(void)
{
    __builtin_cpu_init();
    has_avx = __builtin_cpu_supports("avx");
}

static of128 load128(const volatile of128 *where)
{
    if (likely(has_avx)) {
        of128 value;
        __asm__ volatile("vmovdqa %1, %%xmm0\n\tvmovdqa %%xmm0, %0" : "=m"(value) : "m"(*where) : "xmm0", "memory");
        return value;
    }
    return __sync_val_compare_and_swap((volatile of128 *)where, 0, 0);
}

static of128 swap128(volatile of128 *where, of128 value)
{
    for (of128 seen = load128(where), before;; seen = before)
        if ((before = __sync_val_compare_and_swap(where, seen, value)) == seen)
            return seen;
}

#define CHANGED(with) \
    ({ \
        of128 seen = load128(where), before; \
        while ((before = __sync_val_compare_and_swap(where, seen, (of128)(with))) != seen) \
            seen = before; \
        seen; \
    })

HOOK of128 __tsan_atomic128_load(const volatile of128 *where, int order);
HOOK of128 __tsan_atomic128_load(const volatile of128 *where, int order)
{
    (void)order;
    nmx_access(where, sizeof *where, NMX_CALLER, false);
    return load128(where);
}

HOOK void __tsan_atomic128_store(volatile of128 *where, of128 value, int order);
HOOK void __tsan_atomic128_store(volatile of128 *where, of128 value, int order)
{
    (void)order;
    nmx_access(where, sizeof *where, NMX_CALLER, true);
    swap128(where, value);
}

CHANGE(128, exchange, swap128(where, value))
CHANGE(128, fetch_add, CHANGED(seen + value))
CHANGE(128, fetch_sub, CHANGED(seen - value))
CHANGE(128, fetch_and, CHANGED(seen & value))
CHANGE(128, fetch_or, CHANGED(seen | value))
CHANGE(128, fetch_xor, CHANGED(seen ^ value))
CHANGE(128, fetch_nand, CHANGED(~(seen & value)))
COMPARE(128, strong)
COMPARE(128, weak)
COMPARE_VALUE(128)

HOOK void __tsan_atomic_thread_fence(int order);
HOOK void __tsan_atomic_thread_fence(int order)
{
    if ((order & 0xf) == __ATOMIC_SEQ_CST)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

HOOK void __tsan_atomic_signal_fence(int order);
HOOK void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    nmx_signal_fence();
}
