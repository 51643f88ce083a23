/* Writing events into the thread's ring.
 *
 * Only the owning thread writes its ring, but a signal handler may interrupt it anywhere and write too. No lock is needed,
 * because a handler runs to its end before the interrupted code goes on:
 *
 *   writing += 1                  from here on, a handler that interrupts does not publish
 *   position = reserved           \
 *   time = now()                   | a handler that comes in between moves `reserved`: the swap fails, and both are taken
 *   swap reserved                 /  again. So reservations never overlap, and times never decrease along the ring.
 *   write the words               a handler writes behind us, into its own reservation
 *   if outermost: publish         head = reserved; all that lies before it is complete, because every handler that
 *                                 interrupted us has returned
 *   writing -= 1
 *
 * The swap is one instruction, hence atomic with respect to signals; it needs no lock prefix, for no other thread does it.
 * A handler between `head = reserved` and `writing = 0` writes and leaves the publishing to us, who think it done. So we
 * look once more at `reserved` after `writing = 0`; a handler that comes after that is outermost and publishes itself.
 *
 * `writing` is incremented and decremented by plain moves: a handler leaves it as it found it.
 *
 * A handler may leave by longjmp and never come back to the emitter that it interrupted. `writing` would stay above zero and
 * nothing would be published any more. nmm_is_nested notices that: see attach.h. */
#ifndef NMM_RING_H
#define NMM_RING_H

#include <time.h>

#include "../base/sys.h"
#include "state.h"

/* The kernel's clock_gettime in the vDSO, found by nmm_start. Not libc's by name: libraries that fake the time stand before
 * that, and may allocate; besides, samples bear the kernel's time. NULL: there is none. */
extern int (*nmm_vdso_clock)(clockid_t, struct timespec *);

/* Nanoseconds. */
static inline uint64_t nmm_monotonic(void)
{
    struct timespec now = {0};
    if (likely(nmm_vdso_clock != NULL))
        nmm_vdso_clock(CLOCK_MONOTONIC, &now);
    else
        nmm_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The clock of all events. The counter is read without waiting for earlier instructions, which lets it overlap with them;
 * that may stamp an allocation some nanoseconds early, and its version puts that right. */
static inline uint64_t nmm_now(void)
{
#if defined(__x86_64__)
    if (likely(nmm_process.tsc))
        return __builtin_ia32_rdtsc();
#endif
    return nmm_monotonic();
}

/* Not before what was loaded so far has arrived. A release must not be stamped before the allocation that it is of. */
static inline uint64_t nmm_now_after_loads(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
    return nmm_now();
}

/* Compare-and-swap that is atomic with respect to signal handlers on this thread, but not to other threads. */
static inline bool nmm_swap_local(uint64_t *word, uint64_t expected, uint64_t desired)
{
#if defined(__x86_64__)
    bool swapped;
    __asm__ volatile("cmpxchgq %3, %1"
                     : "=@ccz"(swapped), "+m"(*word), "+a"(expected)
                     : "r"(desired)
                     : "memory");
    return swapped;
#else
    return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/* The slow paths, in ring.c. */
bool nmm_make_room(struct nmm_thread *self, uint64_t end);
void nmm_ring_bell(struct nmm_thread *self, uint64_t end);
void nmm_count_loss(struct nmm_thread *self, unsigned type);
void nmm_wake_recorder(void);

/* A bounded wait for the recorder: `for (wait = nmm_begin_wait(); nmm_go_on_waiting(&wait, ..);) look again`. */
struct nmm_wait {
    uint64_t waited;
    long step;
};
struct nmm_wait nmm_begin_wait(void);
bool nmm_go_on_waiting(struct nmm_wait *wait, bool in_vain_before);

static inline bool nmm_forked(void) { return nmm_load(nmm_process.alive) != NMM_ALIVE; }

static inline void nmm_publish(struct nmm_thread *self)
{
    uint64_t end;
    do {
        /* A handler that came between may have been the outermost emitter: its frame is not ours. */
        self->writer_frame = (uintptr_t)__builtin_frame_address(0);
        nmm_signal_fence();
        nmm_store(&self->writing, 1);
        nmm_signal_fence();
        /* A fork within a handler that interrupted us: this ring is the parent's. */
        if (unlikely(nmm_forked())) {
            nmm_store(&self->writing, 0);
            return;
        }
        end = nmm_load(&self->reserved);
        nmm_store_release(&self->ring->head, end);
        nmm_signal_fence();
        nmm_store(&self->writing, 0);
        nmm_signal_fence();
    } while (unlikely(nmm_load(&self->reserved) != end));
    if (unlikely(end - self->tail_seen > self->capacity / 2))
        nmm_ring_bell(self, end);
}

/* The parts of an event's first word. */
struct nmm_tag {
    uint16_t type, aux, aux2;
};

/* A reservation that is being written. */
struct nmm_span {
    uint64_t position, time;
    uintptr_t interrupted;
    uint32_t depth;
};

/* Whether the event is about something that other threads may have made. */
static inline bool nmm_is_release(unsigned type) { return type == NMM_FREE || type == NMM_UNMAP; }

/* Reserves `words` for one or more events; `type` is that of the last. False if there is no room, which is counted as one
 * loss, or if the ring is not ours; nmm_end comes either way. The time goes for all of them. */
static inline __attribute__((always_inline)) bool nmm_begin(
    struct nmm_thread *self, struct nmm_span *span, uint64_t words, unsigned type)
{
    /* A handler puts the frame of what it interrupted back: it may come between the next two stores. */
    span->interrupted = nmm_load(&self->writer_frame);
    span->depth = nmm_load(&self->writing);
    if (likely(span->depth == 0))
        nmm_store(&self->writer_frame, (uintptr_t)__builtin_frame_address(0));
    nmm_signal_fence();
    nmm_store(&self->writing, span->depth + 1);
    nmm_signal_fence();
    do {
        /* After a fork the ring is the parent's. It is tested again on every turn, for a handler may have forked. */
        if (unlikely(nmm_forked() || nmm_load(&nmm_process.segment->closed)))
            return false;
        span->position = nmm_load(&self->reserved);
        if (unlikely(span->position + words * 8 - self->tail_seen > self->capacity)
            && !nmm_make_room(self, span->position + words * 8)) {
            nmm_count_loss(self, type);
            return false;
        }
        span->time = nmm_is_release(type) ? nmm_now_after_loads() : nmm_now();
    } while (unlikely(!nmm_swap_local(&self->reserved, span->position, span->position + words * 8)));
    span->position /= 8;
    /* The reader had these lines last: ask for them before they are needed. */
    __builtin_prefetch(&self->words[(span->position + 128) & (self->capacity / 8 - 1)], 1);
    return true;
}

static inline void nmm_put(struct nmm_thread *self, struct nmm_span *span, uint64_t word)
{
    self->words[span->position++ & (self->capacity / 8 - 1)] = word;
}

/* Writes one event of `words` words, but for `words - 2 - count` words that follow. */
static inline __attribute__((always_inline)) void nmm_put_event(struct nmm_thread *self, struct nmm_span *span,
    struct nmm_tag tag, uint64_t words, const uint64_t *payload, unsigned count)
{
    nmm_put(self, span, tag.aux | (uint64_t)tag.type << 16 | words << 32 | (uint64_t)tag.aux2 << 48);
    nmm_put(self, span, span->time);
    for (unsigned i = 0; i < count; i++)
        nmm_put(self, span, payload[i]);
}

static inline __attribute__((always_inline)) void nmm_end(struct nmm_thread *self, const struct nmm_span *span)
{
    nmm_signal_fence();
    if (likely(span->depth == 0)) {
        nmm_publish(self);
        nmm_store(&self->writer_frame, span->interrupted);
    } else {
        nmm_store(&self->writing, span->depth);
    }
}

/* Writes and publishes one event; false if it was lost, which is counted. `second` continues the payload (a call
 * stack): every `stride`th word from there on. */
static inline __attribute__((always_inline)) bool nmm_emit2(struct nmm_thread *self, struct nmm_tag tag,
    const uint64_t *payload, unsigned count, const uint64_t *second, unsigned second_count, long stride)
{
    const uint64_t words = 2 + count + second_count;
    struct nmm_span span;
    const bool room = nmm_begin(self, &span, words, tag.type);
    if (likely(room)) {
        nmm_put_event(self, &span, tag, words, payload, count);
        for (unsigned i = 0; i < second_count; i++, second += stride)
            nmm_put(self, &span, *second);
    }
    nmm_end(self, &span);
    return room;
}

static inline __attribute__((always_inline)) bool nmm_emit(
    struct nmm_thread *self, struct nmm_tag tag, const uint64_t *payload, unsigned count)
{
    return nmm_emit2(self, tag, payload, count, NULL, 0, 0);
}

#endif
