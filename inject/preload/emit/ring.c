#include "ring.h"

#include <linux/futex.h>

#include "../base/sys.h"
#include "attach.h"

/* A stall of the program is bounded: steps of 50 us, doubled up to 3.2 ms, 1 s in all. Then events are lost instead. */
#define FIRST_STEP 50000
#define LAST_STEP 3200000
#define LONGEST_STALL 1000000000

NMM_COLD bool nmm_is_nested(struct nmm_thread *self, uintptr_t frame)
{
    if (self->in_allocator && !self->scratch && nmm_is_gone(self, self->allocator_frame, frame))
        self->in_allocator = 0;
    if (self->writing && nmm_is_gone(self, self->writer_frame, frame)) {
        /* What the emitter had reserved was never completed, and what handlers wrote behind it cannot be told from it:
         * drop both. */
        nmm_store(&self->reserved, nmm_load(&self->ring->head));
        nmm_store(&self->writing, 0);
        nmm_count_loss(self, 0);
    }
    return self->in_allocator != 0;
}

NMM_COLD void nmm_count_loss(struct nmm_thread *self, unsigned type)
{
    /* Atomic for the sake of interrupting handlers. */
    __atomic_fetch_add(&self->ring->lost_full, 1, __ATOMIC_RELAXED);
    if (type == NMM_FREE || type == NMM_UNMAP)
        __atomic_fetch_add(&self->ring->lost_frees, 1, __ATOMIC_RELAXED);
}

static void wake_recorder(void)
{
    struct nmm_segment *segment = nmm_process.segment;
    __atomic_fetch_add(&segment->doorbell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&segment->sleeping, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&segment->sleeping, 0, __ATOMIC_SEQ_CST))
        nmm_syscall(SYS_futex, (long)&segment->doorbell, FUTEX_WAKE, 1, 0, 0, 0);
}

/* Published up to `end`, more than half a ring past the last tail we know. */
NMM_COLD void nmm_ring_bell(struct nmm_thread *self, uint64_t end)
{
    uint64_t tail = nmm_load_acquire(&self->ring->tail);
    self->tail_seen = tail;
    if (end - tail <= self->capacity / 2 || end < self->bell_at)
        return;
    self->bell_at = end + self->capacity / 8; /* not again for every event of a ring that stays full */
    wake_recorder();
}

static bool has_room(struct nmm_thread *self, uint64_t end)
{
    self->tail_seen = nmm_load_acquire(&self->ring->tail);
    return end - self->tail_seen <= self->capacity;
}

/* Waits, within bounds, until bytes up to `end` fit. */
NMM_COLD bool nmm_make_room(struct nmm_thread *self, uint64_t end)
{
    if (has_room(self, end))
        return true;
    uint64_t tail = self->tail_seen;
    if (self->stalled && self->stalled_tail == tail)
        return false; /* the recorder did not move during a whole wait: do not stall the program for every event */
    __atomic_fetch_add(&self->ring->waits, 1, __ATOMIC_RELAXED);
    wake_recorder();
    long step = FIRST_STEP;
    /* By the clock: signals cut the pauses short. */
    for (const uint64_t begin = nmm_now(); nmm_now() - begin < LONGEST_STALL;) {
        if (nmm_load(&nmm_process.segment->closed))
            return false;
        const struct timespec pause = {.tv_nsec = step};
        nmm_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
        if (has_room(self, end))
            return true;
        if (step < LAST_STEP)
            step *= 2;
    }
    self->stalled = self->tail_seen == tail;
    self->stalled_tail = tail;
    return false;
}
