/* System calls without libc: they leave errno alone, are never hooked (not even by us) and cannot be cancelled. */
#ifndef NMM_SYS_H
#define NMM_SYS_H

#include <errno.h>
#include <sys/syscall.h>

#include "common.h"

#if defined(__x86_64__)
static inline long nmm_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long nmm_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "NumaMMA's in-process library knows x86-64 and AArch64"
#endif

/* A result of nmm_syscall that is an error, as errno. */
static inline bool nmm_failed(long result) { return result < 0 && result >= -4095; }

/* What libc makes of it. */
static inline long nmm_libc_result(long result)
{
    if (!nmm_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

static inline int nmm_gettid(void) { return (int)nmm_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0); }
static inline int nmm_getpid(void) { return (int)nmm_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0); }
static inline int nmm_getppid(void) { return (int)nmm_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0); }

/* NULL on failure. */
static inline void *nmm_map(size_t length, int prot, int flags, int fd)
{
    long result = nmm_syscall(SYS_mmap, 0, (long)length, prot, flags, fd, 0);
    return nmm_failed(result) ? NULL : (void *)result;
}

static inline void nmm_unmap(void *address, size_t length)
{
    nmm_syscall(SYS_munmap, (long)address, (long)length, 0, 0, 0, 0);
}

static inline bool nmm_advise(void *address, size_t length, int advice)
{
    return nmm_syscall(SYS_madvise, (long)address, (long)length, advice, 0, 0, 0) == 0;
}

/* Where the thread's TLS block hangs. */
static inline uintptr_t nmm_thread_pointer(void)
{
    uintptr_t tp;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(tp));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
    return tp;
}

#endif
