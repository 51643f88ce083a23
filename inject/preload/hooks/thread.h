/* Threads: where their stacks and TLS blocks lie. */
#ifndef NMM_THREAD_H
#define NMM_THREAD_H

#include <pthread.h>

#include "../emit/state.h"

/* Sends NMM_THREAD_START for the main thread, or for the only thread of a forked child. */
void nmm_main_thread_started(struct nmm_thread *self);

/* Notes where the main thread's stack is, for a program that is placed but not recorded. Nothing on other threads. */
void nmm_know_main_stack(struct nmm_thread *self);

/* Where the executable's and the libraries' static TLS begins, as bytes below the thread pointer. */
void nmm_measure_tls(void);

/* Registers a handler for the child side of fork; false if that cannot be done. */
bool nmm_at_fork(void (*child)(void));

/* Found by nmm_start. */
extern void *nmm_libc_stack_end;
extern int (*nmm_register_atfork)(void (*)(void), void (*)(void), void (*)(void), void *);
extern pthread_t (*nmm_pthread_self)(void);
extern int (*nmm_pthread_getattr_np)(pthread_t, pthread_attr_t *);
extern int (*nmm_pthread_attr_getstack)(const pthread_attr_t *, void **, size_t *);

#endif
