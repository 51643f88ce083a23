/* What every file here relies on. Freestanding but for a few functions of libc that are as old as GLIBC_2.17. */
#ifndef NMM_COMMON_H
#define NMM_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NMM_COLD __attribute__((cold, noinline))

/* Keeps the compiler from moving memory accesses across: what a signal handler on this thread sees is program order. */
#define nmm_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define nmm_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define nmm_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define nmm_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define nmm_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

static inline uintptr_t nmm_round_up(uintptr_t value, uintptr_t power_of_two)
{
    return (value + power_of_two - 1) & ~(power_of_two - 1);
}

#endif
