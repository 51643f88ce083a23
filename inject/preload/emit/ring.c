#include "ring.h"

#include <errno.h>
#include <linux/futex.h>

#include "../base/sys.h"
#include "attach.h"

/* A stall of the program is bounded: steps of 50 us, doubled up to 3.2 ms, 1 s in all. Then events are lost instead. After
 * a whole wait in vain, the process waits no longer than 5 ms until the recorder is seen to move. */
#ifndef FIRST_STEP
#define FIRST_STEP 50000
#endif
#define LAST_STEP 3200000
#define ASK_FROM_STEP 400000
#define LONGEST_STALL 1000000000
#define SHORT_STALL 5000000

int (*nmm_vdso_clock)(clockid_t, struct timespec *);

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

NMM_COLD void nmm_wake_recorder(void)
{
    struct nmm_segment *segment = nmm_process.segment;
    __atomic_fetch_add(&segment->doorbell, 1, __ATOMIC_SEQ_CST);
    /* Without the call the recorder comes round by itself, later. */
    if (nmm_load(&nmm_process.quiet))
        return;
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
    nmm_wake_recorder();
}

/* A recorder that was killed could not set `closed`; then we do, for all threads and processes. In a pid namespace of our
 * own its pid says nothing. EPERM means that it lives. */
static void close_if_recorder_is_gone(void)
{
    struct nmm_segment *segment = nmm_process.segment;
    if (nmm_process.ids_shared && nmm_syscall(SYS_kill, nmm_load(&segment->recorder_pid), 0, 0, 0, 0, 0) == -ESRCH)
        __atomic_store_n(&segment->closed, 1, __ATOMIC_SEQ_CST);
}

struct nmm_wait nmm_begin_wait(void) { return (struct nmm_wait){0, FIRST_STEP}; }

/* A pause; returns how long it was. By what the kernel says of it, for a clock may stand still. */
static uint64_t pause_for(long nanoseconds)
{
    const struct timespec whole = {.tv_nsec = nanoseconds};
    struct timespec rest = {0};
    const long result = nmm_syscall(SYS_nanosleep, (long)&whole, (long)&rest, 0, 0, 0, 0);
    /* A signal cuts it short. That it took any time at all is for us to say, or a storm of them would make it endless. */
    const bool cut = result == -EINTR && rest.tv_sec == 0 && rest.tv_nsec > 0 && rest.tv_nsec < nanoseconds;
    return (uint64_t)(cut ? nanoseconds - rest.tv_nsec + 1000 : nanoseconds);
}

NMM_COLD bool nmm_go_on_waiting(struct nmm_wait *wait, bool in_vain_before)
{
    const uint64_t limit = in_vain_before ? SHORT_STALL : LONGEST_STALL;
    if (nmm_load(&nmm_process.quiet) || nmm_load(&nmm_process.segment->closed) || wait->waited >= limit)
        return false;
    wait->waited += pause_for(wait->step);
    if (wait->step >= ASK_FROM_STEP)
        close_if_recorder_is_gone();
    if (wait->step < LAST_STEP)
        wait->step *= 2;
    return true;
}

/* A ring and its tail in one word, so that they are written and read together. */
static uint64_t stall_of(const struct nmm_ring *ring, uint64_t tail)
{
    return (uint64_t)(ring - nmm_process.rings + 1) << 32 | (uint32_t)(tail / 8);
}

/* Whether a thread of the process waited in vain and the tail that it waited for has not moved since. */
static bool is_stalled(void)
{
    const uint64_t stall = nmm_load(&nmm_process.stalled);
    if (stall == 0)
        return false;
    const struct nmm_ring *ring = &nmm_process.rings[(stall >> 32) - 1];
    if (nmm_load(&ring->state) != NMM_RING_FREE && stall_of(ring, nmm_load(&ring->tail)) == stall)
        return true;
    nmm_store(&nmm_process.stalled, 0);
    return false;
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
    if (nmm_load(&nmm_process.segment->closed))
        return false;
    uint64_t tail = self->tail_seen;
    if (self->stalled && self->stalled_tail == tail)
        return false; /* the recorder did not move during a whole wait: do not stall the program for every event */
    __atomic_fetch_add(&self->ring->waits, 1, __ATOMIC_RELAXED);
    nmm_wake_recorder();
    for (struct nmm_wait wait = nmm_begin_wait(); nmm_go_on_waiting(&wait, is_stalled());) {
        if (has_room(self, end)) {
            nmm_store(&nmm_process.stalled, 0);
            return true;
        }
    }
    self->stalled = self->tail_seen == tail;
    self->stalled_tail = tail;
    if (self->stalled && nmm_load(&nmm_process.stalled) == 0)
        nmm_store(&nmm_process.stalled, stall_of(self->ring, tail));
    return false;
}
