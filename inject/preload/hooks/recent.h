/* Blocks that come and go: the table of a ring, see numamma_wire.h, "Order".
 *
 *   NONE --alloc--> LIVE --free--> FREED --alloc, same size and stack--> LIVE, repeats += 1     nothing is sent
 *                    |               '---alloc of anything else: NMM_FREE, NMM_ALLOC------> LIVE
 *                    '--another block needs the entry--> LIVE, of that block
 *
 * An entry holds only as long as nobody else had an event about the address: that is what its version is compared for.
 * Whoever has the thread's memo may use the table; a signal handler that interrupts does without. */
#ifndef NMM_RECENT_H
#define NMM_RECENT_H

#include "../emit/ring.h"
#include "../unwind/memo.h"
#include "version.h"

/* Larger blocks are seldom and matter: they get all of their events. This is what glibc keeps for a thread itself. */
#define NMM_RECENT_LARGEST 1032

static inline struct nmm_recent *nmm_recent_at(struct nmm_thread *self, uintptr_t block)
{
    return &self->recent[(block >> 4) % NMM_RECENT];
}

/* Whether the entry is about that block, in that state, and nobody else had an event about its address since. */
static inline bool nmm_recent_is(const struct nmm_recent *entry, uintptr_t block, unsigned state)
{
    return entry->address == block && entry->state == state && entry->version == nmm_load(nmm_version_of(block));
}

/* Whether what the entry says of a freed block still holds: no event about the address, and no other block in its memory. */
static inline bool nmm_recent_is_free(const struct nmm_recent *entry, uintptr_t block)
{
    return nmm_recent_is(entry, block, NMM_RECENT_FREED) && entry->carving == nmm_carving_at(block);
}

/* Publishes NMM_ALLOC; false if it was lost. */
static inline bool nmm_send_alloc(struct nmm_thread *self, enum nmm_api api, uintptr_t block, size_t size, uint64_t stack)
{
    nmm_carve(block, size);
    const uint64_t payload[] = {block, size, stack, nmm_next_version(nmm_version_of(block))};
    return nmm_emit(self, (struct nmm_tag){NMM_ALLOC, (uint16_t)api, 0}, payload, 4);
}

/* An entry is needed for another block: sends what it had outstanding, and the allocation. `again`: its block was free and is
 * now given out anew; that it was freed, its successor says. */
void nmm_recent_replace(struct nmm_thread *self, struct nmm_recent *entry, const struct nmm_recent *block, bool again);

/* Whether an allocation is that of the entry's freed block once more, but for the stack. */
static inline bool nmm_recent_fits(const struct nmm_recent *entry, enum nmm_api api, uintptr_t block, size_t size)
{
    return nmm_recent_is_free(entry, block) && entry->size == size && entry->api == api && entry->repeats != UINT32_MAX;
}

static inline void nmm_recent_repeat(struct nmm_recent *entry)
{
    entry->repeats++;
    nmm_store(&entry->state, NMM_RECENT_LIVE);
}

/* Notes an allocation if it is the same again; false if nothing was done. */
static inline bool nmm_recent_again(
    struct nmm_thread *self, enum nmm_api api, uintptr_t block, size_t size, const uintptr_t *frame)
{
    struct nmm_memo *memo;
    if (unlikely(!nmm_process.collapse || (memo = nmm_memo_try(self, (uintptr_t)frame)) == NULL))
        return false;
    struct nmm_recent *entry = nmm_recent_at(self, block);
    bool same = nmm_recent_fits(entry, api, block, size);
    if (same) {
        const uint64_t stack = nmm_memo_again(memo, self, frame);
        same = stack != 0 && stack == entry->stack;
        if (same)
            nmm_recent_repeat(entry);
    }
    nmm_memo_give(memo);
    return same;
}

/* Notes or publishes an allocation of at most NMM_RECENT_LARGEST bytes, for who has the memo. */
static inline void nmm_recent_acquired(struct nmm_thread *self, enum nmm_api api, uintptr_t block, size_t size, uint64_t stack)
{
    struct nmm_recent *entry = nmm_recent_at(self, block);
    if (entry->stack == stack && nmm_recent_fits(entry, api, block, size)) {
        nmm_recent_repeat(entry);
        return;
    }
    const bool again = nmm_recent_is_free(entry, block);
    /* Of as many bytes it is as large as it was, and nothing new was carved. The blocks of common allocators are multiples of
     * 16 bytes; a finer step would only cost. */
    if (!again || (entry->size + 15) / 16 != (size + 15) / 16)
        nmm_carve(block, size);
    const struct nmm_recent new = {.address = block,
        .stack = stack,
        .size = (uint32_t)size,
        .api = (uint16_t)api,
        .state = NMM_RECENT_LIVE,
        .version = nmm_next_version(nmm_version_of(block))};
    nmm_recent_replace(self, entry, &new, again);
}

/* Notes that the block is to be freed; false if that must be published. */
static inline bool nmm_recent_released(struct nmm_thread *self, uintptr_t block, const uintptr_t *frame)
{
    struct nmm_memo *memo;
    if (unlikely(!nmm_process.collapse || (memo = nmm_memo_try(self, (uintptr_t)frame)) == NULL))
        return false;
    struct nmm_recent *entry = nmm_recent_at(self, block);
    const bool own = nmm_recent_is(entry, block, NMM_RECENT_LIVE);
    if (own) {
        entry->carving = nmm_carving_at(block);
        nmm_store(&entry->state, NMM_RECENT_FREED);
    }
    nmm_memo_give(memo);
    return own;
}

#endif
