#define _GNU_SOURCE
#include "attach.h"

#include <signal.h>
#include <sys/mman.h>

#include "../base/sys.h"
#include "note.h"
#include "ring.h"
#include "../hooks/thread.h"
#include "../unwind/memo.h"

struct nmm_process nmm_process;
__thread struct nmm_thread nmm_self;

void nmm_wipe(void *memory, size_t bytes)
{
    if (!nmm_load(&nmm_process.quiet) && nmm_advise(memory, bytes, MADV_DONTNEED))
        return;
    for (uint64_t *word = memory; bytes > 0; bytes -= sizeof *word)
        nmm_store(word++, 0);
}

/* Searches that failed are repeated ever more seldom, after so many events at most: each looks at every ring. */
#define LONGEST_PAUSE 1024

enum claim { CLAIMED, NONE_FREE, NOT_MAPPED, FILTERED };

static enum claim claim_free_ring(struct nmm_thread *self)
{
    struct nmm_segment *segment = nmm_process.segment;
    const uint32_t count = nmm_process.ring_count;
    const uint32_t first = nmm_load(&segment->next_ring);
    const int pid = nmm_getpid(), tid = nmm_gettid();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (first + i) % count;
        struct nmm_ring *ring = &nmm_process.rings[index];
        if (nmm_load(&ring->state) != NMM_RING_FREE)
            continue;
        for (uint32_t used = nmm_load(&segment->rings_used); used <= index;)
            if (__atomic_compare_exchange_n(&segment->rings_used, &used, index + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                break;
        uint32_t free = NMM_RING_FREE;
        if (!__atomic_compare_exchange_n(&ring->state, &free, NMM_RING_OWNED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        /* At once: if we are killed now, the recorder must know whose it was. */
        nmm_store(&ring->tid, tid);
        nmm_store_release(&ring->pid, nmm_process.ids_shared ? pid : 0);
        char *memory = nmm_map_ring(index);
        if (memory == NULL) {
            nmm_store(&ring->pid, 0);
            nmm_store(&ring->tid, 0);
            nmm_store_release(&ring->state, NMM_RING_FREE);
            return NOT_MAPPED;
        }
        nmm_store(&segment->next_ring, index + 1);

        self->recent = (struct nmm_recent *)memory;
        self->memo = (struct nmm_memo *)(memory + NMM_PAGE);
        self->words = (uint64_t *)(memory + NMM_RING_EXTRA);
        self->memo->user = 0;
        self->memo->count = 0;
        self->capacity = nmm_process.ring_bytes;
        self->reserved = nmm_load(&ring->head);
        self->tail_seen = nmm_load_acquire(&ring->tail);
        self->bell_at = 0;
        self->stalled = false;
        nmm_signal_fence();
        self->ring = ring;
        /* The recorder releases rings when it comes round: it should do so before they run out. */
        if (index >= count / 2)
            nmm_wake_recorder();
        return CLAIMED;
    }
    return NONE_FREE;
}

/* All rings may be taken only because the recorder has not yet released those of ended threads. So it is waited for, but
 * once that was in vain the threads are simply too many, and nobody waits any more, in no process, until one is released. */
static enum claim claim_ring(struct nmm_thread *self)
{
    enum claim claim = claim_free_ring(self);
    if (claim != NONE_FREE)
        return claim;
    nmm_wake_recorder();
    uint32_t *in_vain = &nmm_process.segment->no_ring;
    for (struct nmm_wait wait = nmm_begin_wait(); !nmm_load(in_vain);) {
        if (!nmm_go_on_waiting(&wait, false))
            nmm_store(in_vain, 1);
        else if ((claim = claim_free_ring(self)) != NONE_FREE)
            return claim;
    }
    return NONE_FREE;
}

/* We are the child of a fork, in its only thread. The segment, the rules and the hooks are as good here as in the parent;
 * the ring is not ours. */
static bool be_reborn(struct nmm_thread *self)
{
    uint32_t wiped = 0;
    if (!__atomic_compare_exchange_n(nmm_process.alive, &wiped, NMM_REBORN, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return wiped == NMM_ALIVE;
    self->ring = NULL;
    self->claim_pause = self->claim_countdown = 0;
    nmm_process.ids_shared = nmm_process.ids_shared && nmm_ids_are_shared();
    nmm_store(&nmm_process.announced, 0);
    nmm_process.forked = true;
    nmm_store_release(nmm_process.alive, NMM_ALIVE);
    return true;
}

static void announce(struct nmm_thread *self)
{
    uint32_t no = 0;
    if (!__atomic_compare_exchange_n(&nmm_process.announced, &no, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    const uint64_t process[] = {(uint64_t)nmm_getpid(), (uint64_t)nmm_getppid()};
    nmm_emit(self, (struct nmm_tag){NMM_PROCESS, nmm_process.forked, nmm_process.own_allocator}, process, 2);
    if (process[0] == (uint64_t)nmm_gettid())
        nmm_main_thread_started(self);
}

static void count_without_ring(enum claim claim)
{
    struct nmm_segment *segment = nmm_process.segment;
    uint64_t *lost = claim == NOT_MAPPED ? &segment->lost_no_map
        : claim == FILTERED              ? &segment->lost_filtered
                                         : &segment->lost_no_ring;
    __atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
}

static bool get_ring(struct nmm_thread *self)
{
    if (self->claim_countdown > 0) {
        self->claim_countdown--;
        count_without_ring(self->claim_failed);
        return false;
    }
    const enum claim claim = claim_ring(self);
    if (claim == CLAIMED)
        return true;
    self->claim_failed = claim;
    self->claim_pause = self->claim_pause >= LONGEST_PAUSE ? LONGEST_PAUSE : self->claim_pause * 2 + 1;
    self->claim_countdown = self->claim_pause;
    count_without_ring(claim);
    return false;
}

/* What attached on this thread was left by a longjmp out of a handler. Before it has a ring, a thread does not know its stack;
 * but a handler that interrupts lies close below, unless it has a stack of its own. */
#define CLOSE (1u << 20)
static bool was_left(const struct nmm_thread *self, uintptr_t now)
{
    const uintptr_t then = self->attaching_frame;
    return self->stack.high != 0 ? nmm_is_gone(self, then, now) : now >= then && now - then < CLOSE && !nmm_on_signal_stack();
}

NMM_COLD struct nmm_thread *nmm_attach(struct nmm_thread *self)
{
    if (nmm_load(&nmm_process.segment->closed) || nmm_load(&nmm_process.muted))
        return NULL;
    /* Nothing to do: a handler inside the allocator asks too, and another may interrupt it. */
    if (!self->attaching && self->ring != NULL && !nmm_forked() && nmm_load(&nmm_process.announced))
        return self;
    if (self->attaching && was_left(self, (uintptr_t)__builtin_frame_address(0)))
        self->attaching = false;
    /* A handler that interrupts us below finds `attaching` and does without; and where system calls are filtered, no new
     * thread or process can attach. Counted, since there is no ring to tell. */
    if (self->attaching || nmm_load(&nmm_process.quiet)) {
        count_without_ring(self->attaching ? NONE_FREE : FILTERED);
        return NULL;
    }
    self->attaching_frame = (uintptr_t)__builtin_frame_address(0);
    nmm_signal_fence();
    self->attaching = true;
    nmm_signal_fence();
    bool ready = true;
    if (nmm_forked())
        ready = be_reborn(self);
    if (ready && self->ring == NULL)
        ready = get_ring(self);
    if (ready && !nmm_load(&nmm_process.announced))
        announce(self);
    nmm_signal_fence();
    self->attaching = false;
    return ready ? self : NULL;
}

NMM_COLD bool nmm_on_signal_stack(void)
{
    stack_t stack = {0};
    return !nmm_load(&nmm_process.quiet) && nmm_syscall(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0) == 0
        && stack.ss_flags & SS_ONSTACK;
}

void nmm_be_quiet(void)
{
    if (nmm_process.counts_itself)
        nmm_tell(NMM_NOTE_QUIET, 0, 0);
    /* Where the clock is itself a system call, there is no time left to stamp events with. */
    if (nmm_process.segment && !nmm_process.tsc && (nmm_vdso_clock == NULL || !nmm_process.segment->vdso_clock))
        nmm_be_mute();
    nmm_store(&nmm_process.quiet, 1);
}

void nmm_be_mute(void)
{
    if (nmm_process.segment == NULL || __atomic_exchange_n(&nmm_process.muted, 1, __ATOMIC_SEQ_CST))
        return;
    if (nmm_process.counts_itself)
        nmm_tell(NMM_NOTE_QUIET, 0, 0);
    __atomic_fetch_add(&nmm_process.segment->muted, 1, __ATOMIC_RELAXED);
    __atomic_store_n(nmm_process.alive, NMM_MUTED, __ATOMIC_SEQ_CST);
}
