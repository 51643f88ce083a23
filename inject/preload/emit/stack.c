#define _GNU_SOURCE
#include "stack.h"

#include <sys/mman.h>

#include "../base/sys.h"
#include "../unwind/memo.h"
#include "ring.h"

/* The program's stack may be small, so a call stack is built in the memo's memory. Where a signal handler interrupted the
 * memo's user, or on a stack that we do not know (a handler's own, perhaps of 2 KiB), it is cut to what our frame holds. */
#define FRAMES_WITHOUT_MEMO 32
#define FRAMES_ON_UNKNOWN_STACK 12

static uint64_t hash_of(const uint64_t *frames, unsigned count)
{
    uint64_t hash = nmm_load(&nmm_process.seed);
    for (unsigned i = count; i-- > 0;)
        hash = nmm_hash_frame(hash, frames[i]);
    return hash ? hash : 1;
}

/* The table of hashes: two places for each, written without a lock. A lost race or an overwritten hash only means that a
 * stack is sent once more. */
static inline uint64_t *place(uint64_t hash, unsigned which)
{
    const uint64_t mask = NMM_SENT_BYTES / sizeof(uint64_t) - 1;
    return &nmm_process.sent[((hash >> 40) ^ which) & mask];
}

static NMM_COLD bool send(struct nmm_thread *self, uint64_t hash, const uint64_t *frames, struct nmm_trace trace, long stride)
{
    if (!nmm_emit2(self, (struct nmm_tag){NMM_STACK, trace.cut, 0}, &hash, 1, frames, trace.count, stride))
        return false;
    /* Other threads may rely on it once it is published. In a handler that interrupted an emitter it is not yet. */
    if (nmm_load(&self->writing) == 0)
        nmm_store(place(hash, nmm_load(place(hash, 0)) != 0 && nmm_load(place(hash, 1)) == 0), hash);
    return true;
}

static inline bool was_sent(uint64_t hash)
{
    return nmm_load(place(hash, 0)) == hash || nmm_load(place(hash, 1)) == hash;
}

/* The stack that the memo is at: outermost frame first. */
static bool send_remembered(struct nmm_thread *self, const struct nmm_memo *memo, uint64_t hash)
{
    const long stride = sizeof *memo->frames / sizeof hash;
    const struct nmm_trace trace = {memo->count, memo->cut};
    return send(self, hash, &memo->frames[memo->count - 1].pc, trace, -stride);
}

static NMM_COLD uint64_t walk_all(struct nmm_thread *self, const uintptr_t *hook, uint64_t *frames, unsigned max)
{
    struct nmm_trace trace = nmm_unwind(self, hook, frames, max);
    uint64_t hash = hash_of(frames, trace.count);
    return was_sent(hash) || send(self, hash, frames, trace, 1) ? hash : 0;
}

static NMM_COLD uint64_t walk_without_memo(struct nmm_thread *self, const uintptr_t *hook, unsigned max)
{
    const bool known = (uintptr_t)hook - self->stack.low < self->stack.high - self->stack.low;
    const unsigned room = known ? FRAMES_WITHOUT_MEMO : FRAMES_ON_UNKNOWN_STACK;
    max = max < room ? max : room;
    uint64_t frames[max];
    return walk_all(self, hook, frames, max);
}

uint64_t nmm_call_stack_by(struct nmm_thread *self, struct nmm_memo *memo, const uintptr_t *hook)
{
    const unsigned max = nmm_process.max_frames;
    if (unlikely(memo == NULL))
        return walk_without_memo(self, hook, max);
    uint64_t hash = nmm_memo_walk(memo, self, hook, max);
    if (unlikely(hash == 0))
        hash = walk_all(self, hook, nmm_memo_spend(memo), max);
    else if (unlikely(!was_sent(hash)) && !send_remembered(self, memo, hash))
        hash = 0;
    return hash;
}

uint64_t nmm_call_stack(struct nmm_thread *self, const uintptr_t *hook)
{
    struct nmm_memo *memo = nmm_memo_take(self, (uintptr_t)hook);
    uint64_t hash = nmm_call_stack_by(self, memo, hook);
    if (likely(memo != NULL))
        nmm_memo_give(memo);
    return hash;
}

void nmm_forget_stacks(void) { nmm_wipe(nmm_process.sent, NMM_SENT_BYTES); }
