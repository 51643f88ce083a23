#include "recent.h"

#define WORDS_OF_REPEAT 5
#define WORDS_OF_FREE 4
#define WORDS_OF_ALLOC 6

__attribute__((noinline)) void nmm_recent_replace(
    struct nmm_thread *self, struct nmm_recent *entry, const struct nmm_recent *block, bool again)
{
    const bool repeated = entry->state != NMM_RECENT_NONE && entry->repeats != 0;
    const bool freed = entry->state == NMM_RECENT_FREED && !again;
    struct nmm_span span;
    const bool room = nmm_begin(self, &span,
        (repeated ? WORDS_OF_REPEAT : 0) + (freed ? WORDS_OF_FREE : 0) + WORDS_OF_ALLOC, NMM_ALLOC);
    if (likely(room)) {
        if (repeated) {
            const uint64_t repeat[] = {entry->stack, entry->size, entry->repeats};
            nmm_put_event(self, &span, (struct nmm_tag){NMM_REPEAT, 0, 0}, WORDS_OF_REPEAT, repeat, 3);
        }
        if (freed) {
            const uint64_t release[] = {entry->address, entry->version};
            nmm_put_event(self, &span, (struct nmm_tag){NMM_FREE, entry->api, 0}, WORDS_OF_FREE, release, 2);
        }
        const uint64_t alloc[] = {block->address, block->size, block->stack, block->version};
        nmm_put_event(self, &span, (struct nmm_tag){NMM_ALLOC, block->api, again}, WORDS_OF_ALLOC, alloc, 4);
    }
    nmm_end(self, &span);
    if (unlikely(!room)) {
        /* What the entry had outstanding stays so. Of a block whose allocation was lost, the release is sent as usual. */
        return;
    }
    nmm_store(&entry->state, NMM_RECENT_NONE);
    nmm_signal_fence();
    entry->address = block->address;
    entry->stack = block->stack;
    entry->size = block->size;
    entry->api = block->api;
    entry->version = block->version;
    entry->repeats = 0;
    entry->carving = 0;
    nmm_signal_fence();
    nmm_store(&entry->state, block->state);
}
