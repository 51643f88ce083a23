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

void nmm_memo_give(struct nmm_memo *memo)
{
    nmm_signal_fence();
    nmm_store(&memo->user, 0);
}

/* Whether the words that led from frame `inner` to the outermost one are as they were. All lie above `inner`'s stack
 * pointer, on a stack that we are on: they can be read. */
static inline bool is_unchanged(const struct nmm_memo *memo, unsigned inner)
{
    uintptr_t difference = 0;
    for (unsigned i = 0; i < inner; i++) {
        const struct nmm_remembered *frame = &memo->frames[i];
        difference |= *(const uintptr_t *)(frame->sp - 8) ^ frame->pc;
        if (frame->fp_at)
            difference |= *(const uintptr_t *)frame->fp_at ^ frame->fp;
        if (unlikely(frame->sp_at))
            difference |= *(const uintptr_t *)frame->sp_at ^ frame->sp;
    }
    return difference == 0;
}

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

    /* New frames grow from the end of the array towards the known ones, which leaves them in the right order, and join them
     * at the end. Not on the stack, which is the program's and may be small. */
    struct nmm_remembered *fresh = memo->frames + NMM_MEMO_FRAMES;
    unsigned count = 0, common = memo->count;
    struct frame frame = nmm_first_frame(hook);
    for (;;) {
        while (common > 0 && memo->frames[common - 1].sp < frame.sp)
            common--;
        if (common > 0) {
            const struct nmm_remembered *known = &memo->frames[common - 1];
            if (known->sp == frame.sp && known->pc == frame.pc && known->fp == frame.fp) {
                if (likely(is_unchanged(memo, common - 1)))
                    break;
                common = 0;
            }
        }
        if (unlikely(count == max || frame.irregular))
            goto unfit;
        if (unlikely(common == NMM_MEMO_FRAMES - count))
            common--; /* its place is taken; it may be walked anew */
        count++;
        *--fresh = (struct nmm_remembered){frame.pc, frame.sp, frame.fp, frame.fp_at, frame.sp_at, 0};
        enum step next = step(self, &bounds, &frame);
        if (next != STEP_ON) {
            common = 0;
            memo->cut = next == STEP_CUT;
            break;
        }
    }
    if (unlikely(common + count > max))
        goto unfit;
    uint64_t hash = common ? memo->frames[common - 1].hash : seed;
    if (count && common) {
        /* The frame found again keeps its state, but how its callee leads to it is ours to say. */
        memo->frames[common - 1].fp_at = frame.fp_at;
        memo->frames[common - 1].sp_at = frame.sp_at;
    }
    for (; count > 0; count--) {
        struct nmm_remembered *to = &memo->frames[common++];
        *to = *fresh++;
        to->hash = hash = nmm_hash_frame(hash, to->pc);
    }
    memo->count = common;
    return hash ? hash : 1;

unfit:
    memo->count = 0;
    return 0;
}
