/* What was counted, on its way to the recorder: events in a ring of the segment that is the counters' own.
 *
 * Rings, their claiming and their events are those of numamma_wire.h. Here nothing is ever dropped: a thread whose ring is full
 * waits as long as the recorder lives. No event is interrupted by another of the same thread: QEMU delivers signals between
 * instructions of the program, and the library of hooks blocks them meanwhile. */
#ifndef NMX_ROWS_H
#define NMX_ROWS_H

#include "../../preload/base/common.h"
#include "../../wire/include/numamma_wire.h"

/* A thread's ring. */
struct nmx_writer {
    struct nmm_ring *ring; /* NULL: there is none, and what is written is gone */
    void *memory;          /* what is mapped of it */
    uint64_t *words;
    uint64_t position, tail_seen;
};

/* Maps the segment; false if it is none of ours. `ids_shared`: the recorder knows processes by the ids that we do. */
bool nmx_join(const char *path, bool ids_shared);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t nmx_now(void);

/* Counts a loss: a process that forbade itself what counting needs; a thread that there was no memory for. */
void nmx_muted(void);
void nmx_lost_thread(void);

/* Claims a ring for the calling thread. */
void nmx_attach(struct nmx_writer *writer);

/* The thread ends. The recorder finds out by itself, when it has read all. */
void nmx_detach(struct nmx_writer *writer);

/* Writes and publishes an event: `count` words of `payload`, then those of `more`. */
void nmx_emit(struct nmx_writer *writer, uint16_t type, uint16_t aux, const uint64_t *payload, size_t count, const uint64_t *more,
    size_t more_count);

/* Sends counters of each four bytes from `address` on that a thread has accessed, and if there is a model of caches those of the
 * accesses that reach memory. */
void nmx_emit_counts(
    struct nmx_writer *writer, uint64_t address, int tid, const uint64_t *accesses, const uint64_t *memory, size_t count);

/* Whether accesses are to be sent one by one. */
bool nmx_may_trace(void);

/* Sends an access by itself; false if that is no longer wanted. */
bool nmx_emit_access(struct nmx_writer *writer, uint64_t address, unsigned bytes, uint64_t ip, bool write);

/* Sends a piece more of the access that was sent last. */
void nmx_emit_more(struct nmx_writer *writer, uint64_t address, unsigned bytes, uint64_t ip, bool write);

#endif
