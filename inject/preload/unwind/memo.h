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
 * This is exact: by induction every further step would read the same words and come to the same states. */
#ifndef NMM_MEMO_H
#define NMM_MEMO_H

#include "unwind.h"

#define NMM_MEMO_FRAMES 80

struct nmm_remembered {
    uintptr_t pc, sp, fp;
    uintptr_t fp_at, sp_at; /* see struct frame */
    uint64_t hash;          /* of this frame and all outer ones */
};

/* One page per ring. */
struct nmm_memo {
    uintptr_t user;         /* frame of the hook that uses it; a signal handler then does without. 0: nobody */
    uint64_t seed;          /* rules and hashes are of this generation of code */
    uintptr_t high;         /* end of the stack that it is about */
    uint32_t count;
    bool cut;
    struct nmm_remembered frames[NMM_MEMO_FRAMES]; /* outermost first */
};

_Static_assert(sizeof(struct nmm_memo) <= NMM_PAGE, "one page per ring");
_Static_assert(sizeof((struct nmm_memo){0}.frames) >= NMM_MAX_FRAMES * sizeof(uint64_t), "see nmm_memo_spend");

/* The thread's memo, or NULL if it cannot be used now. To be given back. */
struct nmm_memo *nmm_memo_take(struct nmm_thread *self, uintptr_t frame);
void nmm_memo_give(struct nmm_memo *memo);

/* Brings the memo up to the call stack of the hook; 0 if it does not fit, else the hash. */
uint64_t nmm_memo_walk(struct nmm_memo *memo, const struct nmm_thread *self, const uintptr_t *hook, unsigned max);

/* Room for a call stack, at the price of what was remembered. */
static inline uint64_t *nmm_memo_spend(struct nmm_memo *memo)
{
    memo->count = 0;
    return (uint64_t *)memo->frames;
}

#endif
