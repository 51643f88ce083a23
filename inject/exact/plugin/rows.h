/* What was counted, on its way to the recorder: events in a ring of the segment that is the plug-in's own.
 *
 * Rings, their claiming and their events are those of numamma_wire.h. Here nothing is ever dropped: a thread whose ring is full
 * waits as long as the recorder lives. QEMU delivers signals between instructions of the program, so unlike in the library no
 * event is interrupted by another of the same thread. */
#ifndef NMX_ROWS_H
#define NMX_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../wire/include/numamma_wire.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A thread's ring. */
struct nmx_writer {
    struct nmm_ring *ring; /* NULL: there is none, and what is written is gone */
    uint64_t *words;
    uint64_t position, tail_seen;
};

/* Maps the segment; false if it is none of ours. */
bool nmx_join(const char *path);

/* Claims a ring for the calling thread. */
void nmx_attach(struct nmx_writer *writer);

/* Writes and publishes an event: `count` words of `payload`, then those of `more`. */
void nmx_emit(struct nmx_writer *writer, uint16_t type, uint16_t aux, const uint64_t *payload, size_t count, const uint64_t *more,
    size_t more_count);

#endif
