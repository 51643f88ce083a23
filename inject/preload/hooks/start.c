#define _GNU_SOURCE
#include <unistd.h>

#include "../base/arena.h"
#include "../base/resolve.h"
#include "../emit/ring.h"
#include "../place/place.h"
#include "../unwind/find.h"
#include "../unwind/unwind.h"
#include "hooks.h"
#include "thread.h"

#if defined(__x86_64__)
#define VDSO_CLOCK "__vdso_clock_gettime"
#else
#define VDSO_CLOCK "__kernel_clock_gettime"
#endif

struct nmm_real nmm_real;

uint64_t nmm_quick_below;
uint32_t nmm_quick_free, nmm_quick_places;
static uint32_t started, questions;

/* Two threads may come here at once, and the older answer be written last: who has asked last answers again. Until then an allocation
 * that looks closer than it need is only slower, and one that should have looked is not placed. Nothing else may rest on this. */
void nmm_find_quick(void)
{
    uint32_t question = __atomic_add_fetch(&questions, 1, __ATOMIC_SEQ_CST), before;
    do {
        before = question;
        const bool forwards = nmm_load_acquire(&started) && nmm_process.segment == NULL && nmm_real.malloc && nmm_real.calloc
            && nmm_real.free && nmm_place.gathers == 0;
        nmm_store(&nmm_quick_below, forwards ? nmm_load(&nmm_place_least) : 0);
        nmm_store(&nmm_quick_places, forwards && nmm_place.plan != NULL && nmm_process.rules != NULL
                && nmm_place.everywhere_count == 0 && nmm_load(&nmm_place.opened) == 0);
        nmm_store(&nmm_quick_free, forwards && !nmm_load(&nmm_placed_any));
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        question = nmm_load(&questions);
    } while (question != before);
}

static const struct nmm_symbol symbols[] = {
#define HOOK(result, name, parameters) {#name, (void **)&nmm_real.name},
#include "hooks.def"
#undef HOOK
#if defined(__x86_64__)
    {"syscall", &nmm_real_syscall},
    {"dlopen", &nmm_real_dlopen},
#endif
#ifndef NMM_OLD_LOADER /* to test what is done without */
    {"_dl_find_object", &nmm_dl_find_object},
#endif
    {"_r_debug", (void **)&nmm_r_debug},
    {"__libc_stack_end", &nmm_libc_stack_end},
    {"__register_atfork", (void **)&nmm_register_atfork},
    {"pthread_self", (void **)&nmm_pthread_self},
    {"pthread_getattr_np", (void **)&nmm_pthread_getattr_np},
    {"pthread_attr_getstack", (void **)&nmm_pthread_attr_getstack},
};

static uint32_t resolved, joining;
static __thread bool resolving __attribute__((tls_model("initial-exec")));

void nmm_start(void)
{
    if (unlikely(!nmm_load_acquire(&resolved))) {
        /* The loader calls us back only by accident; if so, the arena serves. Threads that come here at once do the same
         * work with the same result. */
        if (resolving)
            return;
        resolving = true;
        struct nmm_objects objects = {0};
        nmm_resolve(symbols, sizeof symbols / sizeof *symbols, &objects);
        nmm_process.own_allocator = objects.own_allocator;
        nmm_process.allocator_low = objects.allocator_low;
        nmm_process.allocator_high = objects.allocator_high;
        nmm_process.allocator_is_libc = objects.allocator_is_libc;
        nmm_process.own_low = objects.own_low;
        nmm_process.own_high = objects.own_high;
        nmm_process.loader_low = objects.loader_low;
        nmm_process.loader_high = objects.loader_high;
        nmm_operators_found();
        nmm_vdso_clock = (int (*)(clockid_t, struct timespec *))nmm_resolve_in_vdso(VDSO_CLOCK);
        nmm_note_objects();
        nmm_store_release(&resolved, 1);
        resolving = false;
    }
    /* Before anybody has seen the environment there is nothing to join; a later call will. */
    if (nmm_load(&joining) || nmm_environment() == NULL)
        return;
    if (__atomic_exchange_n(&joining, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    nmm_join();
    nmm_place_join();
    nmm_store_release(&started, 1);
    nmm_find_quick();
}

NMM_COLD void nmm_resolve_late(void)
{
    struct nmm_objects unused = {0};
    nmm_resolve(symbols, sizeof symbols / sizeof *symbols, &unused);
}
