/* The phase a process is in is a word of the plan, so that `numamma apply` may change it too: where a function of the program begins
 * a phase, it sees the function begin, and moves what is there. Where the program itself says so, it is done here, in the thread that
 * says so. */
#include "phase.h"

#include "../base/sys.h"
#include "../emit/state.h"
#include "list.h"
#include "policy.h"
#include "verify.h"

void nmm_join_phases(void)
{
    struct nmm_plan *plan = nmm_place.plan;
    struct nmm_plan_process *processes = (struct nmm_plan_process *)((char *)plan + plan->processes.at);
    const int pid = nmm_getpid();
    nmm_place.own = NULL;
    for (uint32_t i = 0; i < plan->processes.count && nmm_place.own == NULL; i++) {
        int none = 0;
        /* One of this pid was another program's, which ended. */
        if (nmm_load(&processes[i].pid) == pid
            || __atomic_compare_exchange_n(&processes[i].pid, &none, pid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            nmm_place.own = &processes[i];
    }
    if (nmm_place.own != NULL)
        nmm_store(&nmm_place.own->phase, 0);
}

/* The child of a fork is in its parent's phase. */
static struct nmm_plan_process *own(void)
{
    const struct nmm_plan_process *parents = nmm_place.own;
    if (parents != NULL && nmm_load(&parents->pid) != nmm_getpid()) {
        const uint32_t phase = nmm_load(&parents->phase);
        nmm_join_phases();
        if (nmm_place.own != NULL)
            nmm_store(&nmm_place.own->phase, phase);
    }
    return nmm_place.own;
}

static uint32_t rule_in(uint32_t phase, uint32_t rule)
{
    const struct nmm_plan *plan = nmm_place.plan;
    const uint32_t *overrides = (const uint32_t *)((const char *)plan + plan->overrides.at);
    if (phase == 0 || phase > plan->phases.count)
        return rule;
    const uint32_t rules = plan->overrides.count / plan->phases.count;
    const uint32_t now = rule < rules ? overrides[(phase - 1) * rules + rule] : rule;
    return now < plan->rules.count ? now : rule;
}

uint32_t nmm_rule_now(uint32_t rule)
{
    const struct nmm_plan_process *process = own();
    return process != NULL ? rule_in(nmm_load(&process->phase), rule) : rule;
}

/* It is not taken out of the list meanwhile, so it may be freed by another thread: then some memory has a policy that it should not
 * have. A free that waited for us could wait for ever, in a signal handler of this thread. */
static void place_anew(struct nmm_placed *placed, uint32_t phase)
{
    const uint32_t before = nmm_load(&placed->rule);
    if (before >= nmm_place.plan->rules.count || nmm_load(&placed->node) >= 0)
        return;
    const uint32_t rule = rule_in(phase, nmm_place.rules[before].base);
    if (rule == before)
        return;
    nmm_read_back(placed);
    nmm_store(&placed->rule, rule);
    const struct nmm_plan_rule *of = &nmm_place.rules[rule];
    const uintptr_t low = nmm_load(&placed->address), high = low + nmm_load(&placed->bytes);
    if (rule != of->base) {
        __atomic_fetch_add(&nmm_place.rules[rule].matched, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&nmm_place.rules[rule].bytes, high - low, __ATOMIC_RELAXED);
    }
    nmm_ask_nothing(low, high);
    nmm_give_pieces(__atomic_exchange_n(&placed->pieces, 0, __ATOMIC_ACQ_REL));
    const struct nmm_pages pages = {.low = low, .high = high, .base = nmm_load(&placed->base),
        .unit = of->page_bytes > 4096 ? of->page_bytes : 4096};
    nmm_store(&placed->pieces, nmm_ask(rule, &pages, -1));
    if (nmm_load_acquire(&placed->state) != NMM_PLACED_LIVE)
        nmm_ask_nothing(low, high);
}

void nmm_place_phase(const char *name)
{
    struct nmm_plan *plan = nmm_place.plan;
    if (plan == NULL || plan->phases.count == 0)
        return;
    struct nmm_plan_phase *phases = (struct nmm_plan_phase *)((char *)plan + plan->phases.at);
    uint32_t phase = 0;
    if (name != NULL) {
        while (phase < plan->phases.count && !nmm_is_text(nmm_plan_text(phases[phase].text), name))
            phase++;
        /* The program may have more of them than the plan is about. */
        if (phase == plan->phases.count)
            return;
        __atomic_fetch_add(&phases[phase].begun, 1, __ATOMIC_RELAXED);
        phase++;
    }
    struct nmm_plan_process *process = own();
    if (process == NULL || __atomic_exchange_n(&process->phase, phase, __ATOMIC_ACQ_REL) == phase)
        return;
    const uint32_t next = nmm_load(&plan->next_placed), used = next + NMM_PLACED_TRIES;
    for (uint32_t i = 0; i < plan->placed.count && (i < used || used < next); i++) {
        struct nmm_placed *placed = &nmm_place.placed[i];
        if (nmm_load_acquire(&placed->state) == NMM_PLACED_LIVE && nmm_load(&placed->pid) == nmm_getpid())
            place_anew(placed, phase);
    }
}
