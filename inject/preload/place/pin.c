/* Where threads run. */
#define _GNU_SOURCE
#include "place.h"

#include "../base/sys.h"
#include "../emit/state.h"

static void pin(int tid, uint32_t thread)
{
    struct nmm_plan *plan = nmm_place.plan;
    const struct nmm_plan_thread *threads = (const struct nmm_plan_thread *)((const char *)plan + plan->threads.at);
    const struct nmm_plan_thread *of = &threads[thread % plan->threads.count];
    const bool done = !nmm_load(&nmm_process.quiet)
        && nmm_syscall(SYS_sched_setaffinity, tid, sizeof of->cpus, (long)of->cpus, 0, 0, 0) == 0;
    __atomic_fetch_add(done ? &plan->pinned : &plan->not_pinned, 1, __ATOMIC_RELAXED);
}

uint32_t nmm_place_new_thread(void)
{
    if (nmm_place.plan == NULL || nmm_place.plan->threads.count == 0)
        return 0;
    const uint32_t before = __atomic_fetch_add(&nmm_place.threads, 1, __ATOMIC_RELAXED);
    if (before == 0)
        pin(nmm_getpid(), 0);
    return before + 1;
}

void nmm_place_pin(uint32_t thread)
{
    if (thread > 0)
        pin(0, thread);
}
