#include "verify.h"

#include "../base/sys.h"
#include "../emit/state.h"
#include "label.h"
#include "lay.h"

/* Pages per call; on the program's stack, so few. */
#define BATCH 64u

static bool is_any(const struct nmm_plan_rule *rule, int node)
{
    for (uint32_t i = 0; i < rule->nodes; i++)
        if (nmm_place.nodes[rule->node + i] == (uint32_t)node)
            return true;
    return false;
}

static bool is_label(const struct nmm_plan_rule *rule)
{
    return rule->base < nmm_place.plan->rules.count && nmm_place.rules[rule->base].targets & NMM_TARGET_LABEL;
}

/* Pages from `low` to `high`, all of which belong on the rule's node number `node`, -1: on any of its nodes. */
static void read_pages(const struct nmm_plan_rule *rule, uintptr_t low, uintptr_t high, int32_t node, struct nmm_tally *tally)
{
    uint64_t pages[BATCH];
    int status[BATCH] = {0};
    /* Parts that the program has named, and that the plan places apart, are read as such. */
    const bool parts = nmm_load(&nmm_place.labels) && !is_label(rule);
    while (low < high) {
        uint32_t count = 0;
        for (; count < BATCH && low < high; low += 4096)
            if (!parts || !nmm_label_holds(low))
                pages[count++] = low;
        if (count == 0)
            break;
        const long result = nmm_load(&nmm_process.quiet)
            ? -1
            : nmm_syscall(SYS_move_pages, 0, count, (long)pages, 0, (long)status, 0);
        if (result < 0) {
            tally->unread += count;
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (status[i] >= 0 && status[i] < (int)NMM_PLAN_COUNTED)
                tally->by_node[status[i]]++;
            const bool right = node < 0 ? is_any(rule, status[i])
                                        : nmm_place.nodes[rule->node + (uint32_t)node] == (uint32_t)status[i];
            *(status[i] < 0 ? &tally->absent : right ? &tally->right : &tally->elsewhere) += 1;
        }
    }
}

static void add(uint64_t *counter, uint64_t value)
{
    if (value > 0)
        __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

bool nmm_tally(const struct nmm_placed *placed, struct nmm_tally *tally)
{
    const uint32_t number = nmm_load(&placed->rule);
    if (number >= nmm_place.plan->rules.count)
        return false;
    const struct nmm_plan_rule *rule = &nmm_place.rules[number];
    if (rule->policy == NMM_POLICY_FIRST_TOUCH && placed->node < 0)
        return false;
    const uintptr_t low = placed->address, high = low + placed->bytes;
    if (placed->node >= 0 || !nmm_has_pieces(rule)) {
        read_pages(rule, low, high, placed->node, tally);
        return true;
    }
    const uint64_t unit = rule->page_bytes > 4096 ? rule->page_bytes : 4096;
    const uint64_t pages = (placed->length + unit - 1) / unit;
    struct nmm_piece piece = {0};
    while (nmm_next_piece(nmm_place.plan, rule, pages, unit, &piece)) {
        const uintptr_t first = placed->base + piece.first * unit, last = placed->base + piece.last * unit;
        read_pages(rule, first < low ? low : first, last > high ? high : last, (int32_t)piece.node, tally);
    }
    return true;
}

void nmm_count_tally(uint32_t number, const struct nmm_tally *tally)
{
    if (number >= nmm_place.plan->rules.count)
        return;
    struct nmm_plan_rule *rule = &nmm_place.rules[number];
    add(&rule->right, tally->right);
    add(&rule->elsewhere, tally->elsewhere);
    add(&rule->absent, tally->absent);
    add(&rule->unread, tally->unread);
    for (uint32_t i = 0; i < NMM_PLAN_COUNTED; i++)
        add(&rule->by_node[i], tally->by_node[i]);
}

bool nmm_read_back(const struct nmm_placed *placed)
{
    struct nmm_tally tally = {0};
    if (!nmm_tally(placed, &tally))
        return false;
    nmm_count_tally(nmm_load(&placed->rule), &tally);
    return tally.elsewhere == 0 && tally.unread == 0;
}
