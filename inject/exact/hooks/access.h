/* Counting an access of a program that tells of it by itself.
 *
 *   nmx_access     the page is in the thread's cache: nothing but its counter is touched
 *   nmx_slowly     it is among the thread's pages; else signals are blocked and it is added (count.h). With a model of caches, all
 *                  accesses come here
 *
 * A signal handler may come in anywhere and access memory too. While its thread is at the counters, `left` says so, and they must
 * stay as they are: the handler's accesses are sent one by one. A handler that leaves by longjmp leaves that behind; the stack pointer
 * in it tells. */
#ifndef NMX_ACCESS_H
#define NMX_ACCESS_H

#include "../count/count.h"

#define HOOK __attribute__((visibility("default")))

/* In a hook: what the program executes next. */
#define NMX_CALLER ((uint64_t)__builtin_return_address(0))

void nmx_slowly(uint64_t address, unsigned bytes, uint64_t ip, bool write);

#define nmx_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static inline uintptr_t nmx_stack_pointer(void)
{
    uintptr_t here;
    __asm__("mov %%rsp, %0" : "=r"(here));
    return here;
}

static inline __attribute__((always_inline)) void nmx_access(const volatile void *where, unsigned bytes, uint64_t ip, bool write)
{
    const uint64_t address = (uint64_t)where;
    struct nmx_thread *self = nmx_self;
    if (likely(self != NULL)) {
        const int64_t left = nmm_load(&self->left);
        if (likely(left > 1)) {
            nmm_store(&self->left, -(int64_t)nmx_stack_pointer());
            nmx_signal_fence();
            struct nmx_page *page = self->cache[address >> 12 & (NMX_CACHE - 1)];
            /* NULL: a handler has forked just now, and this is the child. */
            if (likely(page != NULL && nmm_load(&page->numbers[write]) == address >> 12)) {
                nmx_add(page, address, write);
                nmx_signal_fence();
                nmm_store(&self->left, left - 1);
                return;
            }
            nmx_signal_fence();
            nmm_store(&self->left, left);
        }
    }
    nmx_slowly(address, bytes, ip, write);
}

/* An access of many bytes: a vector is one, as of an instruction; else each unit (count.h) is. */
void nmx_range(const volatile void *where, uint64_t bytes, uint64_t ip, bool write);

#endif
