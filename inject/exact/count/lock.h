/* A lock without libc, for the code of the library of hooks may run where libc's must not be called. Natively its holder has signals
 * blocked. */
#ifndef NMX_LOCK_H
#define NMX_LOCK_H

#include <linux/futex.h>

#include "../../preload/base/sys.h"

/* 0 free, 1 taken, 2 taken and waited for. */
typedef uint32_t nmx_lock_t;

static inline void nmx_lock(nmx_lock_t *lock)
{
    uint32_t seen = 0;
    if (likely(__atomic_compare_exchange_n(lock, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return;
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
        nmm_syscall(SYS_futex, (long)lock, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static inline void nmx_unlock(nmx_lock_t *lock)
{
    if (unlikely(__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2))
        nmm_syscall(SYS_futex, (long)lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

#endif
