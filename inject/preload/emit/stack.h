/* Call stacks as hashes: a process sends each stack once. */
#ifndef NMM_STACK_H
#define NMM_STACK_H

#include "state.h"

#define NMM_SENT_BYTES (65536u * sizeof(uint64_t))

/* Captures the call stack from the caller of the hook with this frame address, sends it if that was not done before, and
 * returns its hash. 0 if it could not be sent. */
uint64_t nmm_call_stack(struct nmm_thread *self, const uintptr_t *hook);

/* The same by a memo that was taken already, or by none. */
struct nmm_memo;
uint64_t nmm_call_stack_by(struct nmm_thread *self, struct nmm_memo *memo, const uintptr_t *hook);

/* All stacks are to be sent again. */
void nmm_forget_stacks(void);

#endif
