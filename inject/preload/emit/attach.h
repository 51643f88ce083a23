/* Joining the recording: the process maps the segment, each thread claims a ring. */
#ifndef NMM_ATTACH_H
#define NMM_ATTACH_H

#include "state.h"

/* Maps the segment that the environment names. Silent when there is none or it is not ours: the program just runs. */
void nmm_join(void);

/* The program's environment; NULL if it is not known yet. */
char **nmm_environment(void);

/* The value of the variable `name` (with its "=") of the environment, if it is /proc/PID/fd/N: nothing else is ever opened. */
const char *nmm_shared_file(const char *name);

/* Where the ring is mapped, NULL if that is not possible. */
char *nmm_map_ring(uint32_t index);

/* Whether pid and tid mean the same here and in the recorder. */
bool nmm_ids_are_shared(void);

/* The slow path of nmm_enter: claims a ring, finds out about a fork. NULL if nothing can be recorded now. */
struct nmm_thread *nmm_attach(struct nmm_thread *self);

/* The program forbids itself system calls that it does not list: from now on we make none. Threads that have a ring go on;
 * others are counted. If events cannot be stamped without one, it is not recorded any more. */
void nmm_be_quiet(void);

/* The program forbids itself nearly all system calls, or to read the time: it is not recorded any more. */
void nmm_be_mute(void);

/* A hook with this frame found that an emitter or a call into the allocator is active on its thread. Forgets those that a
 * longjmp out of a signal handler has left; true if a call into the allocator remains. */
bool nmm_is_nested(struct nmm_thread *self, uintptr_t frame);

/* Whether a signal handler runs on a stack of its own, as far as that can be asked. */
bool nmm_on_signal_stack(void);

/* Whether the code with frame `then` has been left by a longjmp, seen from a hook with frame `now` that was called later. On
 * one stack, whatever that hook interrupted is above it. Frames on different stacks cannot be compared: then it is not. Nor can
 * those of a handler whose stack is an array of a function below: it lies within the bounds. */
static inline bool nmm_is_gone(const struct nmm_thread *self, uintptr_t then, uintptr_t now)
{
    uintptr_t low = self->stack.low, size = self->stack.high - low;
    return then - low < size && now - low < size && now >= then && !nmm_on_signal_stack();
}

/* Permission to emit, or NULL. NULL also inside the real allocator: what it calls is not the program's doing. */
static inline struct nmm_thread *nmm_enter(uintptr_t frame)
{
    if (unlikely(nmm_process.segment == NULL))
        return NULL;
    struct nmm_thread *self = &nmm_self;
    if (unlikely(nmm_load(&self->busy)) && nmm_is_nested(self, frame))
        return NULL;
    if (unlikely(self->ring == NULL || nmm_load(nmm_process.alive) != NMM_ALIVE || nmm_load(&nmm_process.segment->closed)))
        return nmm_attach(self);
    return self;
}

/* The quick part of it: NULL also if it takes a closer look. A thread that has a ring has joined; nothing is published once
 * the segment is closed. */
static inline struct nmm_thread *nmm_enter_quickly(void)
{
    struct nmm_thread *self = &nmm_self;
    return likely(self->ring != NULL && nmm_load(&self->busy) == 0 && nmm_load(nmm_process.alive) == NMM_ALIVE) ? self : NULL;
}

#endif
