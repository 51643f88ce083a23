/* Walking the part of the stack that changed.
 *
 * Most of a call stack is the same as at the allocation before. What a walk finds follows from the frame that it starts at
 * and the words of the stack that it reads. So each thread remembers, for every frame of its last walk, the frame's state,
 * where the words lay that led to it, and the hash of the frames from there outwards:
 *
 *     outermost                                            innermost
 *     | _start | libc | main | run | solve | assemble | insert |      the last walk
 *                                    ^
 *     this walk steps from the hook outwards until it is in a remembered state (same pc, sp and fp), compares the
 *     words that lead from there to the outermost frame with what was read then, and if all are the same, is done.
 *
 * This is exact: by induction every further step would read the same words and come to the same states. The frame pointer
 * belongs to the state, and the word that it was restored from to those compared, only where a frame further out is found by
 * it: code without frame pointers uses the register for whatever it likes. */
#ifndef NMM_MEMO_H
#define NMM_MEMO_H

#include "unwind.h"

#define NMM_MEMO_FRAMES 80

/* What the comparison reads of a frame: its return address lay at sp - 8. */
struct nmm_remembered {
    uintptr_t sp, pc;
};

/* The rest of it. */
struct nmm_remembered_more {
    uintptr_t fp;
    uintptr_t fp_at, sp_at; /* words that led here: see struct frame; 0 where they do not matter */
    uint64_t hash;          /* of this frame and all outer ones */
};

/* One page per ring. */
struct nmm_memo {
    uintptr_t user;         /* frame of the hook that uses it; a signal handler then does without. 0: nobody */
    uint64_t seed;          /* rules and hashes are of this generation of code */
    uintptr_t high;         /* end of the stack that it is about */
    uint32_t count;
    bool cut;
    uint8_t by_fp[NMM_MEMO_FRAMES];     /* NMM_FP_MATTERS, NMM_MORE_WORDS */
    struct nmm_remembered frames[NMM_MEMO_FRAMES]; /* outermost first */
    struct nmm_remembered_more more[NMM_MEMO_FRAMES];
};

#define NMM_FP_MATTERS 1u   /* the frame, or one further out, is found by the frame pointer */
#define NMM_MORE_WORDS 2u   /* of this frame or of one further out, fp_at or sp_at is to be compared */

_Static_assert(sizeof(struct nmm_memo) <= NMM_PAGE, "one page per ring");
_Static_assert(sizeof((struct nmm_memo){0}.more) >= NMM_MAX_FRAMES * sizeof(uint64_t), "see nmm_memo_spend");

/* The thread's memo, or NULL if it cannot be used now. To be given back. */
struct nmm_memo *nmm_memo_take(struct nmm_thread *self, uintptr_t frame);

static inline void nmm_memo_give(struct nmm_memo *memo)
{
    nmm_signal_fence();
    nmm_store(&memo->user, 0);
}

/* The same for those who can do without: NULL also if its last user may have left it by a longjmp. */
static inline struct nmm_memo *nmm_memo_try(struct nmm_thread *self, uintptr_t frame)
{
    struct nmm_memo *memo = self->memo;
    if (unlikely(memo->user != 0))
        return NULL;
    nmm_store(&memo->user, frame);
    nmm_signal_fence();
    return memo;
}

/* Whether the words that led to frame `i` are as they were. */
static inline bool nmm_memo_is_same(const struct nmm_memo *memo, unsigned i)
{
    const struct nmm_remembered *frame = &memo->frames[i];
    const struct nmm_remembered_more *more = &memo->more[i];
    return *(const uintptr_t *)(frame->sp - 8) == frame->pc
        && (more->fp_at == 0 || *(const uintptr_t *)more->fp_at == more->fp)
        && (more->sp_at == 0 || *(const uintptr_t *)more->sp_at == frame->sp);
}

/* Whether the words that led from frame `inner` to the outermost one are as they were. All lie above `inner`'s stack
 * pointer, on a stack that we are on: they can be read. */
static inline bool nmm_memo_is_unchanged(const struct nmm_memo *memo, unsigned inner)
{
    uintptr_t difference = 0;
#pragma GCC unroll 4
    for (unsigned i = 0; i < inner; i++)
        difference |= *(const uintptr_t *)(memo->frames[i].sp - 8) ^ memo->frames[i].pc;
    if (inner > 0 && unlikely(memo->by_fp[inner - 1] & NMM_MORE_WORDS)) {
        for (unsigned i = 0; i < inner; i++)
            difference |= !nmm_memo_is_same(memo, i);
    }
    return difference == 0;
}

/* The hash of the hook's call stack if it is the one of the last walk; else 0. */
static inline uint64_t nmm_memo_again(const struct nmm_memo *memo, const struct nmm_thread *self, const uintptr_t *hook)
{
    const unsigned count = memo->count;
    if (unlikely(count == 0 || memo->seed != nmm_load(&nmm_process.seed) || memo->high != self->stack.high))
        return 0;
    const struct nmm_remembered *top = &memo->frames[count - 1];
    if (top->sp != (uintptr_t)(hook + 2) || top->pc != hook[1]
        || unlikely(memo->by_fp[count - 1] & NMM_FP_MATTERS && memo->more[count - 1].fp != hook[0])
        || unlikely(!nmm_memo_is_unchanged(memo, count - 1)))
        return 0;
    return memo->more[count - 1].hash;
}

/* Brings the memo up to the call stack of the hook; 0 if it does not fit, else the hash. */
uint64_t nmm_memo_walk(struct nmm_memo *memo, const struct nmm_thread *self, const uintptr_t *hook, unsigned max);

/* Room for a call stack, at the price of what was remembered. */
static inline uint64_t *nmm_memo_spend(struct nmm_memo *memo)
{
    memo->count = 0;
    return (uint64_t *)memo->more;
}

#endif
