#include "policy.h"

#include <errno.h>
#include <sys/mman.h>

#include "../base/sys.h"
#include "../emit/state.h"
#include "lay.h"

/* linux/mempolicy.h; the last two are younger than many an installed header. */
#define MPOL_DEFAULT 0
#define MPOL_PREFERRED 1
#define MPOL_BIND 2
#define MPOL_INTERLEAVE 3
#define MPOL_PREFERRED_MANY 5       /* Linux 5.15 */
#define MPOL_WEIGHTED_INTERLEAVE 6  /* Linux 6.9 */
#define MPOL_MF_MOVE 2
#define MADV_COLD 20                /* Linux 5.4 */

#define MASK_WORDS (NMM_PLAN_NODES / 64)

/* Each piece is a mapping of its own to the kernel, with another behind it, and a process may have 65,530 of them
 * (vm.max_map_count). The program must not run out of them for our sake. */
#define MOST_PIECES 16384u

static uint32_t pieces_used;

static bool take_pieces(uint32_t pieces)
{
    uint32_t used = nmm_load(&pieces_used);
    do {
        if (pieces > MOST_PIECES - used)
            return false;
    } while (!__atomic_compare_exchange_n(&pieces_used, &used, used + pieces, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

void nmm_give_pieces(uint32_t pieces) { __atomic_fetch_sub(&pieces_used, pieces, __ATOMIC_RELAXED); }

struct mask {
    uint64_t words[MASK_WORDS];
};

static void set(struct mask *mask, uint32_t node)
{
    if (node < NMM_PLAN_NODES)
        mask->words[node / 64] |= 1ull << node % 64;
}

static int bind(uintptr_t low, uintptr_t high, int mode, const struct mask *mask, bool moves)
{
    /* The kernel counts one bit more than it reads. */
    const long result = nmm_syscall(
        SYS_mbind, (long)low, (long)(high - low), mode, (long)mask, mask ? NMM_PLAN_NODES + 1 : 0, moves ? MPOL_MF_MOVE : 0);
    return nmm_failed(result) ? (int)-result : 0;
}

static void count(uint64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

/* What is not mapped has no place: it was unmapped, or freed by another thread, or the program named what it does not have. */
static void failed(uint32_t rule, int error)
{
    if (error == EFAULT)
        return;
    struct nmm_plan_rule *of = &nmm_place.rules[rule];
    count(&of->failed);
    nmm_store(&of->last_error, (uint32_t)error);
    if (nmm_place.plan->strict)
        nmm_store_release(&nmm_place.plan->stopped, rule + 1);
}

/* The first of the modes that the kernel takes. To be bound where there is no room means to be killed, and so only a strict plan
 * binds: the others prefer. */
static bool ask(uint32_t rule, uintptr_t low, uintptr_t high, const int *modes, const struct mask *mask, bool moves)
{
    int error = 0;
    for (const int *mode = modes; *mode >= 0; mode++) {
        error = bind(low, high, *mode, mask, moves);
        if (error == 0) {
            if (mode != modes)
                count(&nmm_place.rules[rule].fell_back);
            return true;
        }
        if (error != EINVAL || nmm_place.plan->strict)
            break;
    }
    failed(rule, error);
    return false;
}

static bool ask_one(uint32_t rule, uintptr_t low, uintptr_t high, uint32_t node, bool moves)
{
    static const int firm[] = {MPOL_BIND, -1}, mild[] = {MPOL_PREFERRED, -1};
    struct mask mask = {0};
    set(&mask, node);
    return ask(rule, low, high, nmm_place.plan->strict ? firm : mild, &mask, moves);
}

/* The policies that are the kernel's. */
static bool ask_as_a_whole(uint32_t rule, const struct nmm_pages *pages)
{
    static const int firm[] = {MPOL_BIND, -1};
    static const int many[] = {MPOL_PREFERRED_MANY, MPOL_BIND, -1}, one[] = {MPOL_PREFERRED, -1};
    static const int interleave[] = {MPOL_INTERLEAVE, -1};
    static const int weighted[] = {MPOL_WEIGHTED_INTERLEAVE, MPOL_INTERLEAVE, -1};
    const struct nmm_plan_rule *of = &nmm_place.rules[rule];
    struct mask mask = {0};
    for (uint32_t i = 0; i < of->nodes; i++)
        set(&mask, nmm_place.nodes[of->node + i]);
    const int *modes;
    switch (of->policy) {
    case NMM_POLICY_BIND: modes = nmm_place.plan->strict ? firm : of->nodes == 1 ? one : many; break;
    case NMM_POLICY_PREFERRED: modes = of->nodes == 1 ? one : many; break;
    case NMM_POLICY_INTERLEAVE: modes = interleave; break;
    case NMM_POLICY_WEIGHTED: modes = weighted; break;
    default: return false;
    }
    return ask(rule, pages->low, pages->high, modes, &mask, !pages->settled);
}

static uintptr_t clip(uintptr_t address, const struct nmm_pages *pages)
{
    return address < pages->low ? pages->low : address > pages->high ? pages->high : address;
}

#define HUGE (2ul << 20)

/* A huge page moves as a whole, wherever the piece that was asked for last wants it. To say of a part of it that it is not used
 * soon makes the kernel break it up (madvise_cold_or_pageout_pte_range in mm/madvise.c), and does nothing else of note. */
static void break_up(uintptr_t page) { nmm_advise((void *)page, 4096, MADV_COLD); }

/* Interleaved by huge pages, an object of a few of them lies on some nodes twice and on others never. With this many for each node
 * the difference is small. */
#define ENOUGH 16u

static bool is_coarse(const struct nmm_plan_rule *rule, const struct nmm_pages *pages)
{
    const bool interleaved = rule->policy == NMM_POLICY_INTERLEAVE || rule->policy == NMM_POLICY_WEIGHTED;
    return interleaved && rule->page_bytes == 0 && pages->high - pages->low < ENOUGH * HUGE * rule->nodes;
}

static uint32_t count_pieces(const struct nmm_plan_rule *rule, const struct nmm_pages *pages)
{
    struct nmm_piece piece = {0};
    uint32_t count = 0;
    while (count <= MOST_PIECES && nmm_next_piece(nmm_place.plan, rule, nmm_page_count(pages), pages->unit, &piece))
        count++;
    return count;
}

static bool ask_by_piece(uint32_t rule, const struct nmm_pages *pages)
{
    const struct nmm_plan_rule *of = &nmm_place.rules[rule];
    struct nmm_piece piece = {0};
    bool some = false;
    while (!pages->settled && nmm_next_piece(nmm_place.plan, of, nmm_page_count(pages), pages->unit, &piece)) {
        const uintptr_t border = clip(pages->base + piece.last * pages->unit, pages);
        if (border % HUGE != 0 && border < pages->high)
            break_up(border);
    }
    piece = (struct nmm_piece){0};
    while (nmm_next_piece(nmm_place.plan, of, nmm_page_count(pages), pages->unit, &piece)) {
        const uintptr_t low = clip(pages->base + piece.first * pages->unit, pages);
        const uintptr_t high = clip(pages->base + piece.last * pages->unit, pages);
        if (low < high)
            some |= ask_one(rule, low, high, nmm_place.nodes[of->node + piece.node], !pages->settled);
    }
    return some;
}

uint32_t nmm_ask(uint32_t rule, const struct nmm_pages *pages, int32_t node)
{
    const struct nmm_plan_rule *of = &nmm_place.rules[rule];
    if (nmm_load(&nmm_process.quiet)) {
        failed(rule, EPERM);
        return 0;
    }
    if (of->policy == NMM_POLICY_FIRST_TOUCH && node < 0)
        return 0;
    const uint32_t pieces = node < 0 && nmm_has_pieces(of) ? count_pieces(of, pages) : 1;
    if (!take_pieces(pieces)) {
        failed(rule, E2BIG);
        return 0;
    }
    if ((of->page_bytes != 0 || is_coarse(of, pages)) && !pages->settled)
        nmm_advise((void *)pages->low, pages->high - pages->low, of->page_bytes > 4096 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (is_coarse(of, pages) && !pages->settled)
        for (uintptr_t page = pages->low & ~(HUGE - 1); page < pages->high; page += HUGE)
            break_up(page < pages->low ? pages->low : page);
    const bool some = node >= 0 ? ask_one(rule, pages->low, pages->high, nmm_place.nodes[of->node + (uint32_t)node], !pages->settled)
        : nmm_has_pieces(of)    ? ask_by_piece(rule, pages)
                                : ask_as_a_whole(rule, pages);
    if (!some)
        nmm_give_pieces(pieces);
    return some ? pieces : 0;
}

void nmm_ask_nothing(uintptr_t low, uintptr_t high)
{
    if (!nmm_load(&nmm_process.quiet))
        bind(low, high, MPOL_DEFAULT, NULL, false);
}

struct nmm_pages nmm_whole_pages(const struct nmm_plan_rule *rule, uintptr_t address, uint64_t bytes)
{
    const uint64_t unit = rule->page_bytes > 4096 ? rule->page_bytes : 4096;
    struct nmm_pages pages = {.low = nmm_round_up(address, 4096), .high = (address + bytes) & ~(uintptr_t)4095, .unit = unit};
    if (pages.high < pages.low)
        pages.high = pages.low;
    pages.base = pages.low & ~(unit - 1);
    return pages;
}
