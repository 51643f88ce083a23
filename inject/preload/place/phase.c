/* The phase a process is in is a word of the plan, so that `numamma apply` may change it too: where a function of the program begins
 * a phase, it sees the function begin, and moves what is there. Where the program itself says so, it is done here, in the thread that
 * says so. */
#include "phase.h"

#include <errno.h>
#include <signal.h>

#include "../base/sys.h"
#include "../emit/state.h"
#include "list.h"
#include "policy.h"
#include "verify.h"

static struct nmm_plan_process *processes(void)
{
    return (struct nmm_plan_process *)((char *)nmm_place.plan + nmm_place.plan->processes.at);
}

/* A place for `pid`, at most one for each: `phase` is what a new one begins in. */
static struct nmm_plan_process *claim(int pid, uint32_t phase)
{
    const uint32_t count = nmm_place.plan->processes.count;
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < count; i++) {
            struct nmm_plan_process *process = &processes()[i];
            int there = nmm_load_acquire(&process->pid);
            if (there == pid)
                return process;
            /* When all are taken, those of processes that are gone. */
            if (there != 0 && (!again || nmm_syscall(SYS_kill, there, 0, 0, 0, 0, 0) != -ESRCH))
                continue;
            if (__atomic_compare_exchange_n(&process->pid, &there, pid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                nmm_store_release(&process->phase, phase);
                return process;
            }
        }
    }
    return NULL;
}

void nmm_join_phases(void)
{
    if (nmm_place.plan->phases.count == 0)
        return;
    struct nmm_plan_process *process = claim(nmm_getpid(), 0);
    if (process == NULL)
        __atomic_fetch_add(&nmm_place.plan->no_phase, 1, __ATOMIC_RELAXED);
    else
        nmm_store_release(&process->phase, 0); /* what was executed before has ended */
    nmm_store_release(&nmm_place.own, process);
}

void nmm_leave_phases(void)
{
    struct nmm_plan_process *process = nmm_load_acquire(&nmm_place.own);
    if (process == NULL || nmm_load(&process->pid) != nmm_getpid())
        return;
    nmm_store(&process->phase, 0);
    nmm_store_release(&process->pid, 0);
}

/* The child of a fork is in its parent's phase. */
static struct nmm_plan_process *own(void)
{
    struct nmm_plan_process *known = nmm_load_acquire(&nmm_place.own);
    if (known == NULL || nmm_load(&nmm_process.quiet) || nmm_load(&known->pid) == nmm_getpid())
        return known;
    struct nmm_plan_process *process = claim(nmm_getpid(), nmm_load(&known->phase));
    if (process != NULL)
        nmm_store_release(&nmm_place.own, process);
    return process;
}

static uint32_t rule_in(uint32_t phase, uint32_t rule)
{
    const struct nmm_plan *plan = nmm_place.plan;
    const uint32_t *overrides = (const uint32_t *)((const char *)plan + plan->overrides.at);
    /* The plan lies in memory that a stray pointer may write to. */
    if (rule >= plan->rules.count)
        return 0;
    if (phase == 0 || phase > plan->phases.count)
        return rule;
    const uint32_t rules = plan->overrides.count / plan->phases.count;
    const uint32_t now = rule < rules ? overrides[(phase - 1) * rules + rule] : rule;
    return now < plan->rules.count ? now : rule;
}

uint32_t nmm_rule_now(uint32_t rule)
{
    const struct nmm_plan_process *process = own();
    return process != NULL ? rule_in(nmm_load_acquire(&process->phase), rule) : rule;
}

void nmm_ask_anew(struct nmm_placed *placed)
{
    const uint32_t rule = nmm_load(&placed->rule);
    const uintptr_t low = nmm_load(&placed->address), high = low + nmm_load(&placed->bytes);
    if (rule >= nmm_place.plan->rules.count)
        return;
    nmm_ask_nothing(low, high);
    nmm_give_pieces(nmm_load(&placed->pieces));
    const uint32_t page_bytes = nmm_place.rules[rule].page_bytes;
    const struct nmm_pages pages = {.low = low, .high = high, .base = nmm_load(&placed->base), .unit = page_bytes > 4096 ? page_bytes : 4096};
    nmm_store(&placed->pieces, nmm_ask(rule, &pages, -1));
}

static bool is_label(const struct nmm_placed *placed)
{
    const uint32_t rule = nmm_load(&placed->rule);
    return rule < nmm_place.plan->rules.count && nmm_load(&placed->node) < 0
        && nmm_place.rules[rule_in(0, nmm_place.rules[rule].base)].targets & NMM_TARGET_LABEL;
}

static void place_anew(struct nmm_placed *placed, uint32_t phase, bool always)
{
    const uint32_t before = nmm_load(&placed->rule);
    if (before >= nmm_place.plan->rules.count || nmm_load(&placed->node) >= 0)
        return;
    const uint32_t rule = rule_in(phase, nmm_place.rules[before].base);
    if (rule != before) {
        nmm_read_back(placed);
        nmm_store(&placed->rule, rule);
        if (rule != nmm_place.rules[rule].base) {
            __atomic_fetch_add(&nmm_place.rules[rule].matched, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&nmm_place.rules[rule].bytes, nmm_load(&placed->bytes), __ATOMIC_RELAXED);
        }
    }
    if (rule != before || always)
        nmm_ask_anew(placed);
}

/* Another thread may change the phase meanwhile. It finds what we hold taken, and goes on; so we look again when it is free. */
static void place_now(const struct nmm_plan_process *process, struct nmm_placed *placed, bool always)
{
    uint32_t phase;
    do {
        phase = nmm_load_acquire(&process->phase);
        if (!nmm_list_hold(placed))
            return;
        place_anew(placed, phase, always);
        nmm_list_let(placed);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } while (nmm_load_acquire(&process->phase) != phase);
}

/* Memory that the program names may lie in an object that has a place of its own: it comes last, and always. */
void nmm_place_all_anew(void)
{
    const struct nmm_plan_process *process = own();
    if (process == NULL || nmm_load(&nmm_process.quiet))
        return;
    for (int labels = 0; labels < 2; labels++)
        for (uint32_t i = 0, length = nmm_list_length(); i < length; i++) {
            struct nmm_placed *placed = &nmm_place.placed[i];
            if (nmm_load_acquire(&placed->state) == NMM_PLACED_LIVE && is_label(placed) == labels)
                place_now(process, placed, labels);
        }
}

void nmm_place_phase(const char *name)
{
    struct nmm_plan *plan = nmm_place.plan;
    if (plan == NULL || plan->phases.count == 0 || nmm_load(&nmm_process.quiet))
        return;
    struct nmm_plan_phase *phases = (struct nmm_plan_phase *)((char *)plan + plan->phases.at);
    uint32_t phase = 0;
    if (name != NULL && *name != 0) {
        while (phase < plan->phases.count && !nmm_is_text(nmm_plan_text(phases[phase].text), name))
            phase++;
        /* The program may have more of them than the plan is about. */
        if (phase == plan->phases.count)
            return;
        __atomic_fetch_add(&phases[phase].begun, 1, __ATOMIC_RELAXED);
        phase++;
    }
    struct nmm_plan_process *process = own();
    if (process != NULL && __atomic_exchange_n(&process->phase, phase, __ATOMIC_SEQ_CST) != phase)
        nmm_place_all_anew();
}
