/* What the process and each thread know about the recording. */
#ifndef NMM_STATE_H
#define NMM_STATE_H

#include "../../wire/include/numamma_wire.h"
#include "../base/common.h"

/* One per process image. Written once, before `segment` becomes visible; only the memory behind the pointers changes. */
struct nmm_process {
    struct nmm_segment *segment;    /* NULL: not recorded, all hooks only forward */
    struct nmm_ring *rings;
    uint64_t rings_offset;          /* also the length of what is mapped at `segment` */
    uint64_t ring_bytes;
    char path[40];                  /* of the segment; to be what it was, it must have this device and inode */
    uint64_t device, inode;
    uint32_t ring_count;
    uint32_t max_frames;
    bool heap;                      /* heap events are wanted */
    bool collapse;                  /* and blocks that come and go may be collapsed */
    bool exact;                     /* all accesses are counted, and who counts is told what happens */
    bool counts_itself;             /* that is the library of hooks, and not an emulator */
    bool tsc;                       /* events are stamped with the time stamp counter */
    bool own_allocator;             /* the executable brings its own malloc */
    bool allocator_is_libc;
    bool operators;                 /* that object has the operators new and delete of C++, too */
    uintptr_t allocator_low, allocator_high; /* the object that malloc is in */
    uintptr_t own_low, own_high;    /* our own */
    uintptr_t loader_low, loader_high; /* the loader; 0: not known */

    /* NMM_ALIVE here; the kernel wipes it to 0 in the child of a fork (MADV_WIPEONFORK), however the fork was made. A vfork
     * shares our memory, so it is not wiped there, and rightly so: that child also shares our heap and our ring. */
    uint32_t *alive;
    uint64_t *sent;                 /* hashes of the call stacks that were sent; wiped with `alive` */
    uint64_t *rules;                /* unwind rules by return address */
    uint32_t *versions;             /* of heap addresses, see hooks/version.h */
    struct nmm_carving *carvings;   /* of memory, see there */
    char **mapped;                  /* where each ring is mapped; NULL: not yet */
    uint64_t seed;                  /* of the hashes: another image or generation of code gives another hash */

    bool forked;                    /* this image came by fork */
    bool ids_shared;                /* pid and tid mean the same to the recorder */
    uint32_t quiet;                 /* the program has put itself under a filter of system calls: we make none */
    uint32_t muted;                 /* it has forbidden itself even to read the time */
    uint32_t announced;             /* NMM_PROCESS was sent */
    uint64_t stalled;               /* a whole wait for room was in vain: which ring, and its tail; see ring.c */
    uintptr_t tls_bytes;            /* from the lowest static TLS block to the thread pointer */
};

extern struct nmm_process nmm_process;

#define NMM_ALIVE 1u
#define NMM_REBORN 2u /* the child of a fork is finding its feet */
#define NMM_MUTED 3u  /* never again */

/* Zeroes whole pages of ours. */
void nmm_wipe(void *memory, size_t bytes);

/* Where the thread's stack lies, as far as known; all zero if not. Memory from the stack pointer to `high` can be read. */
struct nmm_bounds {
    uintptr_t low, high;
};

/* One per thread, zero at its start. Also a proof token: who holds a pointer got it from nmm_enter and may emit. */
struct nmm_thread {
    /* The thread's ring and its position, see ring.h. */
    struct nmm_ring *ring;          /* NULL until claimed */
    uint64_t *words;                /* the ring's data */
    uint64_t capacity;              /* in bytes */
    uint64_t reserved;              /* end of the reserved bytes */
    uint64_t tail_seen;             /* a tail that the recorder had reached */
    uint64_t bell_at;               /* reserved position from which to ring the doorbell again */
    union {
        struct {
            uint32_t writing;       /* emitters that are active, one per level of interrupting signal handler */
            uint32_t in_allocator;  /* depth of calls into the real allocator */
        };
        uint64_t busy;              /* both at once */
    };
    bool stalled;                   /* a whole wait passed without the tail moving from `stalled_tail` */
    uint64_t stalled_tail;
    uintptr_t writer_frame;         /* of the outermost emitter */

    bool attaching;
    uintptr_t attaching_frame;      /* of what attaches */
    uintptr_t allocator_frame;      /* of the hook that made the outermost of them */
    char *scratch, *scratch_end;    /* while set, allocations are served from here; see thread.c */

    uint32_t claim_pause, claim_countdown; /* events to drop before the next search for a free ring */
    int claim_failed;               /* why the last one was in vain */
    struct nmm_bounds stack;
    struct nmm_memo *memo;
    struct nmm_recent *recent;      /* used while the memo is taken */
    uint32_t number;                /* in the plan, see place/pin.c; 0: none, or the main thread's */
};

extern __thread struct nmm_thread nmm_self __attribute__((tls_model("initial-exec")));

#endif
