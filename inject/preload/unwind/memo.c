#include "memo.h"

#include "../emit/attach.h"
#include "step.h"

struct nmm_memo *nmm_memo_take(struct nmm_thread *self, uintptr_t frame)
{
    struct nmm_memo *memo = self->memo;
    if (unlikely(memo == NULL || !(frame - self->stack.low < self->stack.high - self->stack.low)))
        return NULL;
    if (unlikely(memo->user != 0)) {
        if (!nmm_is_gone(self, memo->user, frame))
            return NULL;
        memo->count = 0; /* left in the middle of a change */
    }
    nmm_store(&memo->user, frame);
    nmm_signal_fence();
    return memo;
}

/* How many frames from the outermost on have their words as they were; at most `inner`. What they say still holds. */
static unsigned first_changed(const struct nmm_memo *memo, unsigned inner)
{
    unsigned i = 0;
    if (likely(inner > 0 && !(memo->by_fp[inner - 1] & NMM_MORE_WORDS)))
        while (i < inner && *(const uintptr_t *)(memo->frames[i].sp - 8) == memo->frames[i].pc)
            i++;
    while (i < inner && nmm_memo_is_same(memo, i))
        i++;
    return i;
}

/* Where a new frame is kept until the walk is done: at the end of the arrays. */
static inline void keep(struct nmm_memo *memo, unsigned at, const struct frame *frame)
{
    memo->frames[at] = (struct nmm_remembered){frame->sp, frame->pc};
    memo->more[at] = (struct nmm_remembered_more){frame->fp, frame->fp_at, frame->sp_at, 0};
}

/* How the words `fp_at` and `sp_at` led to the frame `at`, whose `by_fp` says if fp matters; `outer` is that of the next
 * frame out. */
static inline void lead_to(struct nmm_memo *memo, unsigned at, uintptr_t fp_at, uintptr_t sp_at, uint8_t outer)
{
    struct nmm_remembered_more *more = &memo->more[at];
    const bool matters = memo->by_fp[at] & NMM_FP_MATTERS;
    more->fp_at = matters ? fp_at : 0;
    more->sp_at = sp_at;
    memo->by_fp[at] = (matters ? NMM_FP_MATTERS : 0) | (more->fp_at || sp_at || outer & NMM_MORE_WORDS ? NMM_MORE_WORDS : 0);
}

#define UNKNOWN UINT32_MAX

uint64_t nmm_memo_walk(struct nmm_memo *memo, const struct nmm_thread *self, const uintptr_t *hook, unsigned max)
{
    const uint64_t seed = nmm_load(&nmm_process.seed);
    struct nmm_bounds bounds = nmm_readable(self, (uintptr_t)hook);
    if (unlikely(memo->seed != seed || memo->high != bounds.high))
        memo->count = 0;
    memo->seed = seed;
    memo->high = bounds.high;
    if (max > NMM_MEMO_FRAMES)
        max = NMM_MEMO_FRAMES;

    /* New frames grow from the end of the arrays towards the known ones, which leaves them in the right order, and join them
     * at the end. Not on the stack, which is the program's and may be small. */
    unsigned fresh = NMM_MEMO_FRAMES, common = memo->count, valid = UNKNOWN;
    struct frame frame = nmm_first_frame(hook);
    for (;;) {
        while (common > 0 && memo->frames[common - 1].sp < frame.sp)
            common--;
        if (common > 0) {
            const struct nmm_remembered *known = &memo->frames[common - 1];
            if (known->sp == frame.sp && known->pc == frame.pc
                && (memo->more[common - 1].fp == frame.fp || !(memo->by_fp[common - 1] & NMM_FP_MATTERS))) {
                if (valid == UNKNOWN)
                    valid = first_changed(memo, common - 1);
                if (likely(common - 1 <= valid))
                    break;
                common = valid;
            }
        }
        if (unlikely(NMM_MEMO_FRAMES - fresh == max || frame.irregular))
            goto unfit;
        if (unlikely(common == fresh))
            common--; /* its place is taken; it may be walked anew */
        keep(memo, --fresh, &frame);
        enum step next = step(self, &bounds, &frame);
        memo->by_fp[fresh] = frame.rule_fp;
        if (next != STEP_ON) {
            common = 0;
            memo->cut = next == STEP_CUT;
            break;
        }
    }
    const unsigned count = NMM_MEMO_FRAMES - fresh;
    if (unlikely(common + count > max))
        goto unfit;
    uint64_t hash = common ? memo->more[common - 1].hash : seed;
    if (count && common) /* The frame found again keeps its state, but how its callee leads to it is ours to say. */
        lead_to(memo, common - 1, frame.fp_at, frame.sp_at, common > 1 ? memo->by_fp[common - 2] : 0);
    for (; fresh < NMM_MEMO_FRAMES; fresh++, common++) {
        const struct nmm_remembered_more from = memo->more[fresh];
        const uint8_t rule_fp = memo->by_fp[fresh], outer = common ? memo->by_fp[common - 1] : 0;
        memo->frames[common] = memo->frames[fresh];
        hash = nmm_hash_frame(hash, memo->frames[common].pc);
        memo->more[common] = (struct nmm_remembered_more){.fp = from.fp, .hash = hash};
        memo->by_fp[common] = rule_fp & NMM_STEP_USES_FP || (rule_fp & NMM_STEP_KEEPS_FP && outer & NMM_FP_MATTERS);
        lead_to(memo, common, from.fp_at, from.sp_at, outer);
    }
    memo->count = common;
    return hash ? hash : 1;

unfit:
    memo->count = 0;
    return 0;
}
