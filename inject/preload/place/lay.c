#include "lay.h"

static uint64_t block_border(uint64_t pages, uint32_t n, uint32_t nodes)
{
    return (uint64_t)((unsigned __int128)pages * n / nodes);
}

static bool next_of_map(const struct nmm_plan *plan, const struct nmm_plan_rule *rule, uint64_t pages, uint64_t page, struct nmm_piece *piece)
{
    const struct nmm_plan_run *runs = (const struct nmm_plan_run *)((const char *)plan + plan->runs.at) + rule->run;
    uint64_t once = 0; /* length of the map, in pages of 4 KiB */
    for (uint32_t i = 0; i < rule->runs; i++)
        once += runs[i].pages;
    if (once == 0)
        return false;
    /* The run that holds the first page that is left: borders are where whole pages of 4 KiB end, rounded down to this size. */
    const uint64_t small = page / 4096, start = piece->last;
    uint64_t round = rule->repeat ? start * small / once : 0;
    for (;; round++) {
        uint64_t end = round * once;
        for (uint32_t i = 0; i < rule->runs; i++) {
            end += runs[i].pages;
            const bool rest = !rule->repeat && i + 1 == rule->runs;
            const uint64_t border = rest ? pages : end / small;
            if (border > start) {
                *piece = (struct nmm_piece){start, border < pages ? border : pages, runs[i].node};
                return true;
            }
        }
    }
}

bool nmm_next_piece(const struct nmm_plan *plan, const struct nmm_plan_rule *rule, uint64_t pages, uint64_t page, struct nmm_piece *piece)
{
    /* No plan has a rule of pieces without nodes, but it lies in memory that a stray pointer may write to. */
    if (piece->last >= pages || rule->nodes == 0)
        return false;
    const uint64_t start = piece->last;
    if (rule->policy == NMM_POLICY_BLOCK) {
        uint32_t n = start == 0 ? 0 : piece->node + 1;
        while (block_border(pages, n + 1, rule->nodes) <= start)
            n++;
        *piece = (struct nmm_piece){start, block_border(pages, n + 1, rule->nodes), n};
        return true;
    }
    if (rule->policy == NMM_POLICY_CYCLIC) {
        uint64_t block = rule->block_bytes / page;
        block = block > 0 ? block : 1;
        uint64_t end = (start / block + 1) * block;
        end = rule->nodes > 1 && end < pages ? end : pages;
        *piece = (struct nmm_piece){start, end, rule->nodes > 1 ? (uint32_t)(start / block % rule->nodes) : 0};
        return true;
    }
    return next_of_map(plan, rule, pages, page, piece);
}
