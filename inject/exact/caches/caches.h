/* A model of caches: which accesses reach memory.
 *
 *   thread (in the lab: CPU)   L1 -> L2          its own; either may be missing
 *   socket                     last level        shared by its threads
 *   memory
 *
 * Each is a number of sets of so many lines (ways), of which the one that was used longest ago makes room (LRU). A read or a write brings its
 * line into all levels. The last level does not hold back what L1 and L2 hold, and when it gives a line up they keep theirs. Only data is modelled: neither
 * code nor what the kernel accesses. A line that is written back is no access.
 *
 * An access reaches memory if its line is not in its thread's L1 or L2 nor in the last level of its socket: also where another
 * socket has the line.
 *
 * Coherence. A thread may write to a line that it holds alone. The set of the last level knows who may hold a line, and remembers as many
 * lines more as it holds (its directory). A write takes a line from all others, a read ends that somebody holds it alone.
 *
 *   set of the last level   | line | line | .. ways .. | line || given up | given up | .. as many .. |
 *                             most recent                        their holders are still known
 *
 * Nobody touches the L1 and L2 of another thread: it posts a message, which the thread takes out before its next access. Only the
 * sets of the last level are under locks, one for each LOCKS-th set of all sockets. */
#ifndef NMC_CACHES_H
#define NMC_CACHES_H

#include "../../preload/base/common.h"
#include "../../wire/include/numamma_wire.h"

#define NMC_PREFETCH_NEXT 1u
#define NMC_PREFETCH_STRIDE 2u

/* Messages that may wait for a thread. If there are more it loses all of its L1 and L2. */
#define NMC_MAIL 1024u
/* Instructions whose strides are known. */
#define NMC_STRIDES 64u

/* What a thread's prefetcher knows of an instruction: the line that it missed last, and how far that was from the one before. */
struct nmc_stride {
    uint64_t ip, line;
    int64_t stride;
};

/* L1 and L2 of a thread. */
struct nmc_private {
    uint64_t taken;         /* messages that were taken out, of `posted` */
    uint32_t number, socket;
    bool missed[2];         /* whether the last access, by kind, reached memory: an access may come in pieces */
    uint64_t began[2];      /* and where it began, which its caller notes */
    struct nmc_stride strides[NMC_STRIDES];
    uint32_t used __attribute__((aligned(64))); /* 0: its thread has ended */
    uint32_t overflowed;    /* more messages came than there is room for */
    uint64_t posted;
    uint64_t mail[NMC_MAIL];
    /* The sets of L1, then those of L2, the most recent line first: (line + 1) << 1 | held alone; 0: the place is free. */
    uint64_t lines[] __attribute__((aligned(64)));
};

/* What the lookup of every access needs. */
struct nmc_model {
    unsigned line_shift;
    uint64_t line_rest;     /* bytes of a line, less one */
    uint64_t first_mask;    /* sets of L1, less one; of L2 where there is no L1 */
    uint32_t first_ways;    /* 0: there is neither */
};
extern struct nmc_model nmc_model;

/* Makes the caches that threads share. False if there is no memory for them. */
bool nmc_begin(const struct nmm_caches *shape);

/* Whether there is a model. */
static inline bool nmc_is_on(void) { return nmc_model.line_rest != 0; }

/* The caches of a thread that begins, on that socket; NULL if there is no memory for them. The thread gives them back when it ends. Neither is
 * interrupted by an access of the same thread. */
#define NMC_IN_TURN (~0u) /* the sockets take turns */
struct nmc_private *nmc_new(uint32_t socket);
void nmc_end(struct nmc_private *self);

/* In the child of a fork: it begins with empty caches. */
void nmc_reborn(void);

/* While the calling thread holds a lock: of the plug-in or the library of hooks, which see to it that nothing interrupts it. */
uint64_t nmc_guard(void);
void nmc_unguard(uint64_t before);

bool nmc_reaches_slowly(struct nmc_private *self, uint64_t address, unsigned bytes, uint64_t ip, bool write);

/* Whether the line was used last in its set, may be accessed like this, and nobody has sent a message. */
static inline bool nmc_hits(const struct nmc_private *self, uint64_t address, unsigned bytes, bool write)
{
    const uint64_t line = address >> nmc_model.line_shift, shared = (line + 1) << 1;
    const uint64_t held = self->lines[(line & nmc_model.first_mask) * nmc_model.first_ways];
    return (held == (shared | 1) || (held == shared && !write)) && (address & nmc_model.line_rest) + bytes <= nmc_model.line_rest + 1
        && nmm_load(&self->posted) == self->taken;
}

/* An access: whether it reaches memory. */
static inline bool nmc_reaches(struct nmc_private *self, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    if (likely(nmc_hits(self, address, bytes, write)))
        return self->missed[write] = false;
    return self->missed[write] = nmc_reaches_slowly(self, address, bytes, ip, write);
}

/* More of the thread's last access of that kind, from `address` on: whether it reaches memory only now. */
static inline bool nmc_reaches_on(struct nmc_private *self, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    if (likely(nmc_hits(self, address, bytes, write)) || !nmc_reaches_slowly(self, address, bytes, ip, write) || self->missed[write])
        return false;
    return self->missed[write] = true;
}

#endif
