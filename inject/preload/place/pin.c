/* Where threads run. */
#define _GNU_SOURCE
#include "place.h"

#include "../base/sys.h"
#include "../emit/state.h"

#define MPOL_DEFAULT 0
#define MPOL_PREFERRED 1
#define NODE_WORDS (NMM_PLAN_NODES / 64)

static bool set_cpus(int tid, const uint64_t *cpus)
{
    return !nmm_load(&nmm_process.quiet)
        && nmm_syscall(SYS_sched_setaffinity, tid, NMM_PLAN_CPUS / 8, (long)cpus, 0, 0, 0) == 0;
}

static const struct nmm_plan_thread *cpus_of(uint32_t thread)
{
    const struct nmm_plan *plan = nmm_place.plan;
    const struct nmm_plan_thread *threads = (const struct nmm_plan_thread *)((const char *)plan + plan->threads.at);
    return &threads[thread % plan->threads.count];
}

static void pin(int tid, uint32_t thread)
{
    const bool done = set_cpus(tid, cpus_of(thread)->cpus);
    __atomic_fetch_add(done ? &nmm_place.plan->pinned : &nmm_place.plan->not_pinned, 1, __ATOMIC_RELAXED);
}

/* ---- the memory of the main thread until it is pinned ---- */

static uint32_t prefers_node;

/* Whether the thread has the policy that we give it, or, `otherwise`, none. What the program or who started it asked for stays. */
static bool has_policy(uint32_t node, bool otherwise)
{
    uint64_t nodes[NODE_WORDS] = {0};
    int mode = -1;
    if (nmm_load(&nmm_process.quiet)
        || nmm_syscall(SYS_get_mempolicy, (long)&mode, (long)nodes, NMM_PLAN_NODES, 0, 0, 0) != 0)
        return false;
    bool same = mode == MPOL_PREFERRED;
    for (uint32_t i = 0; i < NODE_WORDS; i++)
        same &= nodes[i] == (i == node / 64 ? 1ull << node % 64 : 0);
    return same || (otherwise && mode == MPOL_DEFAULT);
}

void nmm_place_main_thread(void)
{
    uint64_t before[NMM_PLAN_CPUS / 64] = {0}, nodes[NODE_WORDS] = {0};
    const struct nmm_plan *plan = nmm_place.plan;
    if (plan->threads.count == 0 || plan->main_node == 0 || plan->main_node > NMM_PLAN_NODES || nmm_getpid() != nmm_gettid())
        return;
    /* It is moved there, and then may go where it likes. */
    const long bytes = nmm_syscall(SYS_sched_getaffinity, 0, sizeof before, (long)before, 0, 0, 0);
    if (bytes > 0 && set_cpus(0, cpus_of(0)->cpus))
        nmm_syscall(SYS_sched_setaffinity, 0, bytes, (long)before, 0, 0, 0);
    const uint32_t node = plan->main_node - 1;
    nodes[node / 64] = 1ull << node % 64;
    /* The kernel counts one bit more than it reads. */
    if (has_policy(node, true) && nmm_syscall(SYS_set_mempolicy, MPOL_PREFERRED, (long)nodes, NMM_PLAN_NODES + 1, 0, 0, 0) == 0)
        nmm_store(&prefers_node, node + 1);
}

void nmm_place_leave_main_node(void)
{
    const uint32_t node = __atomic_exchange_n(&prefers_node, 0, __ATOMIC_RELAXED);
    if (node > 0 && has_policy(node - 1, false))
        nmm_syscall(SYS_set_mempolicy, MPOL_DEFAULT, 0, 0, 0, 0, 0);
}

/* ---- numbers: a new thread takes the lowest that no living one has, so that threads of a program that creates them anew for each
 * parallel part run where those before them ran ---- */

#define NUMBERS 4096
#define WORDS (NUMBERS / 64)

/* A bit for each number; that of the main thread is never given back. */
static uint64_t taken[WORDS] = {1};
/* Threads beyond. */
static uint32_t beyond;

static uint32_t take_number(void)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        uint64_t word = __atomic_load_n(&taken[i], __ATOMIC_RELAXED);
        while (~word != 0) {
            const uint64_t lowest = ~word & (word + 1);
            word = __atomic_fetch_or(&taken[i], lowest, __ATOMIC_RELAXED);
            if ((word & lowest) == 0)
                return i * 64 + (uint32_t)__builtin_ctzll(lowest);
        }
    }
    return NUMBERS + __atomic_fetch_add(&beyond, 1, __ATOMIC_RELAXED) % NUMBERS;
}

uint32_t nmm_place_new_thread(void)
{
    if (nmm_place.plan == NULL || nmm_place.plan->threads.count == 0)
        return 0;
    if (__atomic_exchange_n(&nmm_place.has_threads, 1, __ATOMIC_RELAXED) == 0) {
        pin(nmm_getpid(), 0);
        nmm_place_leave_main_node();
    }
    return take_number();
}

void nmm_place_thread_ended(uint32_t thread)
{
    if (thread > 0 && thread < NUMBERS)
        __atomic_fetch_and(&taken[thread / 64], ~(1ull << thread % 64), __ATOMIC_RELAXED);
}

void nmm_place_forget_threads(void)
{
    for (uint32_t i = 0; i < WORDS; i++)
        __atomic_store_n(&taken[i], i == 0, __ATOMIC_RELAXED);
}

void nmm_place_pin(uint32_t thread)
{
    if (thread > 0)
        pin(0, thread);
}
