/* The contract between the library inside the recorded program (the writer) and the recorder (the reader).
 *
 * One shared segment per recording: a header page, ring controls, then the rings. The recorder creates it as a memfd and
 * names it in the environment (NUMAMMA_SEGMENT=/proc/PID/fd/N); every process of the recorded program maps the header and
 * the controls, and each ring when a thread first claims it. A thread claims a ring with one compare-and-swap and is from
 * then on its only writer, so no lock is shared.
 *
 *   segment:  | header (1 page) | ring control 0 .. n-1 | ring 0 | ring 1 | ...
 *   ring:     | recent blocks (1 page) | the writer's own (1 page) | data (ring_bytes) |
 *
 *   ring:       tail (recorder)            head (writer)
 *                 v                          v
 *     ...consumed | event | event | event | free ...        positions count bytes and never wrap;
 *                                                           the word at position p is at p % ring_bytes
 *
 *   event:  63             48 47             32 31                               0
 *          |      aux2       |     words       |   type (16)   |      aux (16)     |   word 0
 *          |                 time, by the clock that the header names              |   word 1
 *          |                          payload ...                                  |
 *
 * Every event is a whole number of 8-byte words and starts with `struct nmm_event`. Word by word it may wrap round the end
 * of the ring. Rule for changes: any change of a layout, of a constant or of their meaning raises NMM_WIRE_VERSION; a
 * library and a recorder of different versions do not talk to each other (the library stays silent).
 *
 * Order: a release (free, munmap, the old half of realloc and mremap) is stamped and published *before* the real
 * call; an acquisition (malloc, mmap, the new half of either) is stamped and published *after* it. An event that is visible
 * in a ring never depends on one that is not yet visible in another.
 *
 * Which allocation a release is of does not hang on the clock. Every event about a heap block takes the next version from
 * a table of counters that addresses are hashed to: a release before the real free, an allocation after the real malloc.
 * Those of one address follow each other (whoever allocates it synchronises with whoever freed it), so their versions grow
 * in their order, across all threads of the process. They wrap; compare them by their signed difference.
 *
 * Blocks that come and go (header: `collapse`). A thread that frees a small block which it allocated itself a moment ago
 * only notes that in the ring's table of recent blocks. If the next allocation that gets this address has the same size
 * and call stack, it is noted there too: no event is sent, and to the reader the first block goes on living. What is
 * outstanding is sent when the entry is needed for another block: NMM_REPEAT how often the block came anew, and NMM_FREE, with
 * the version of its allocation, if it is free now. So a release may come late; its version tells whether the address has
 * long been given to somebody else. Of a thread that has ended the reader reads the table itself.
 */
#ifndef NUMAMMA_WIRE_H
#define NUMAMMA_WIRE_H

#include <stdint.h>

#define NMM_WIRE_VERSION 11u
#define NMM_MAGIC 0x414d4d414d554eull /* "NUMAMMA" */
#define NMM_ENV_SEGMENT "NUMAMMA_SEGMENT"

#define NMM_PAGE 4096u
#define NMM_MAX_FRAMES 128u /* deeper stacks are cut and marked */
#define NMM_RECENT 64u      /* entries of a ring's table of recent blocks */
#define NMM_RING_EXTRA (2u * NMM_PAGE) /* bytes of a ring before its data */

/* Clocks of the stamps. */
#define NMM_CLOCK_MONOTONIC 0u /* CLOCK_MONOTONIC, nanoseconds */
#define NMM_CLOCK_TSC 1u       /* the processor's time stamp counter, which the reader converts */

/* A model of caches, for counting the accesses that reach memory (inject/exact/caches/caches.h): L1, L2, last level. Each has sets,
 * powers of two but those of the last level, and ways; 0 ways: there is none. */
struct nmm_caches {
    uint32_t line;          /* bytes of a line, a power of two; 0: no model */
    uint32_t prefetch;      /* 0 none, 1 the next line, 2 by the stride of an instruction */
    uint32_t sockets;       /* each with a last level; threads go to them in turn */
    uint32_t pad;
    uint32_t sets[3];
    uint32_t ways[3];
};

/* The header page. Sizes in bytes. Words that are only read while the program runs come first; words that writers change
 * have a cache line of their own, so that the check of `closed` at every event stays in each CPU's own cache. */
struct nmm_segment {
    /* Written by the recorder before the program starts. */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;  /* offset of the ring controls */
    uint32_t ring_count;
    uint32_t ring_bytes;    /* data bytes of one ring, a power of two, at least NMM_PAGE */
    uint64_t rings_offset;  /* of ring 0; ring i follows at rings_offset + i * (NMM_RING_EXTRA + ring_bytes) */
    int32_t recorder_pid;
    uint32_t max_frames;    /* deepest stack wanted, <= NMM_MAX_FRAMES */
    uint32_t heap;          /* 0: threads and maps only, no heap events (--no-heap) */
    uint32_t closed;        /* set to 1 by the recorder when it stops reading, or by a writer that found it killed: writers
                             * stop writing and never wait */
    uint32_t clock;         /* NMM_CLOCK_* */
    uint32_t collapse;      /* 1: blocks that come and go may be sent as NMM_REPEAT */
    uint32_t exact;         /* 1: all accesses are counted, and who counts is told what happens: numamma_note.h */
    uint32_t vdso_clock;    /* 1: the kernel's clock is known to be read without a system call */

    /* Changed while the program runs. */
    uint32_t sleeping;      /* recorder: 1 while it waits on `doorbell`; writer: exchanges it to 0 before it wakes */
    uint32_t doorbell;      /* futex word: incremented and woken by a writer whose ring passes half full, or who claims a
                             * ring of the upper half, or finds none: rings of ended threads are to be released */
    uint32_t next_ring;     /* a hint: no ring below it is free. Writers raise it, the recorder lowers it; a lost update
                             * only makes the next search longer, for a search goes round */
    uint32_t rings_used;    /* writers: no ring at or above this index was ever claimed (raised before the claim) */
    uint64_t lost_no_ring;  /* writers: events dropped because every ring was taken */
    uint64_t lost_no_map;   /* writers: events dropped because a ring could not be mapped (address space, chroot) */
    uint64_t muted;         /* writers: processes that forbade themselves what recording needs (seccomp, PR_SET_TSC) */
    uint32_t no_ring;       /* 1: a whole wait for a free ring was in vain; the recorder clears it when it releases one */
    uint32_t pad1;
    uint64_t lost_filtered; /* writers: events of threads that could not claim a ring under a filter of system calls */
    int64_t trace_left;     /* accesses that are to be sent as NMM_ACCESS: the recorder sets it, writers count it down; 0 or
                             * less: none are */
    struct nmm_caches caches; /* written by the recorder before the program starts */
    uint64_t reserved[43];
};

/* States of a ring.
 *
 *   FREE --(thread: compare-and-swap)--> OWNED --(new image after exec)--> ENDED
 *    ^                                     |                                 |
 *    +------(recorder: thread is gone, ring is drained)----------------------+
 *
 * "Gone" means that the kernel no longer knows the thread (tgkill with signal 0: ESRCH), not that NMM_THREAD_END was seen:
 * destructors of thread-specific data run after it and may allocate and free. An exec keeps pid and tid but nothing of the
 * old image, so the new image marks the rings that its pid still owns as ENDED. */
#define NMM_RING_FREE 0u
#define NMM_RING_OWNED 1u
#define NMM_RING_ENDED 2u

/* Control block of one ring. Each side's words have their own cache line. */
struct nmm_ring {
    uint32_t state;
    int32_t pid;            /* 0: not known (just being claimed, or the thread is in another pid namespace): never "gone" */
    int32_t tid;
    uint32_t pad0;
    uint64_t pad1[6];
    uint64_t head;          /* writer: end of the published events (release store) */
    uint64_t lost_full;     /* writer: events dropped because the ring stayed full past the bounded wait */
    uint64_t lost_frees;    /* writer: how many of those were releases: objects that look live but are not */
    uint64_t waits;         /* writer: times it had to wait for room */
    uint64_t pad2[4];
    uint64_t tail;          /* recorder: end of the consumed events (release store) */
    uint64_t pad3[7];
};

/* A small block that the ring's thread allocated a moment ago. The reader looks at it when the thread has ended. */
struct nmm_recent {
    uint64_t address;
    uint64_t stack;         /* hash of the allocation's call stack */
    uint32_t size;
    uint16_t api;           /* enum nmm_api */
    uint16_t state;         /* NMM_RECENT_* */
    uint32_t version;       /* of the allocation that was sent */
    uint32_t repeats;       /* how often the block was allocated anew since */
    uint32_t carving;       /* the writer's: when it was freed, how often memory near it had been carved anew */
    uint32_t pad;
};
#define NMM_RECENT_NONE 0u
#define NMM_RECENT_LIVE 1u
#define NMM_RECENT_FREED 2u /* and no NMM_FREE was sent */

/* First two words of each event. Within one ring `time` never decreases, but for what the processor makes of two readings
 * of its counter that follow each other closely. */
struct nmm_event {
    uint16_t aux;           /* by type, see below */
    uint16_t type;
    uint16_t words;         /* length of the event in 8-byte words, these two included */
    uint16_t aux2;
    uint64_t time;          /* by the header's `clock` */
};

enum nmm_event_type {
    /* A process mapped the segment: after exec (aux 0) or as the child of a fork (aux 1; sent with the first event of the
     * child, so its time is not the time of the fork). aux2: 1 when the executable brings an allocator of its own, whose
     * calls are not seen. payload: pid, parent pid. It comes before any other event of the process in the same ring; other
     * threads of the process may be seen earlier, in their rings. */
    NMM_PROCESS = 1,
    /* aux: 1 for the main thread. payload: tid, stack low, stack high (0 if unknown), TLS low, thread pointer
     * (TLS variables lie below the thread pointer on x86-64, above it on AArch64), start routine */
    NMM_THREAD_START = 2,
    /* The start routine returned or called pthread_exit (a cancelled thread ends without it). payload: tid */
    NMM_THREAD_END = 3,
    /* A call stack that this process had not sent (it may be sent again). Another thread refers to the hash only after this
     * event was published, but that thread's ring may be read first: resolve hashes when all rings were read. aux: 1 when
     * cut (too deep, or no rule to go on). payload: hash, then (words - 3) return addresses, innermost first: the first
     * is the caller of the hooked function */
    NMM_STACK = 4,
    /* aux: enum nmm_api; aux2: 1 when the block before at this address was free, and no NMM_FREE was sent of it. payload:
     * address, size asked for, stack hash (0: none), version */
    NMM_ALLOC = 5,
    /* aux: enum nmm_api; aux2: 1 when the release may fail and be taken back (realloc). payload: address, version. It releases
     * the block at that address whose version is not greater; if the block there is younger, its own has long gone. */
    NMM_FREE = 6,
    /* A tentative release did not happen (realloc failed): the object lives on. payload: address */
    NMM_UNFREE = 7,
    /* mremap is NMM_UNMAP, then NMM_MAP or NMM_UNUNMAP, also where the mapping stays in place.
     * aux: prot, 0 also when not known (mremap); aux2: 1 when known to be file-backed. payload: address, length, stack hash, file offset, flags */
    NMM_MAP = 8,
    /* aux2: 1 when it may fail and be taken back by NMM_UNUNMAP. payload: address, length */
    NMM_UNMAP = 9,
    NMM_UNUNMAP = 10,       /* payload: address, length */
    /* A block came and went again and again: payload: stack hash, size, how often in addition to what was sent */
    NMM_REPEAT = 11,
    /* The program moved the break by itself. payload: old break, new break, stack hash */
    NMM_BREAK = 12,
    /* A library was closed: addresses of code may change their meaning. payload: none */
    NMM_DLCLOSE = 13,
    /* The following events come from the plug-in of the emulator, or from the library of hooks. They have a segment of their own. */
    /* It begins to count in a process: the emulator after exec (aux 0) or as the child of a fork (aux 1), the library of hooks
     * likewise (aux 2, 3). payload: with aux 0 the path of the executable, eight bytes a word, the last filled up with zeros */
    NMM_COUNTING = 14,
    /* Accesses since the last such event about these words. payload: first address (a multiple of 4), tid, then for each 4
     * bytes from there on the reads (lower half) and writes (upper half) of which the first byte lies in them. A page that is
     * known to be one object's has all of them at its first address. aux: 1 when as many words follow with those of them that reach memory
     * by the model of caches */
    NMM_ACCESSES = 15,
    /* All that was counted in this process has been sent. payload: none */
    NMM_COUNTED = 16,
    /* In the emulator the program accessed or wrote a page for the first time since it was mapped. aux: 1 read, 2 write. payload: address, address of
     * the instruction */
    NMM_TOUCH = 17,
    /* The emulator cannot do what the program asks for. aux: 0 an AVX-512 instruction, 1 a system call. payload: address of the
     * instruction, or number of the call */
    NMM_UNSUPPORTED = 18,
    /* Events that the program sends by itself (numamma.h). Texts come eight bytes a word, the last filled up with zeros, at most
     * NMM_TEXT_WORDS of them. */
    /* It names memory. payload: address, bytes, name. */
    NMM_LABEL = 19,
    /* It takes the name of that memory back. payload: address */
    NMM_UNLABEL = 20,
    /* A phase begins, or none is left. payload: its name */
    NMM_PHASE = 21,
    /* aux: 1 samples are wanted from here on, 0 no longer. payload: none */
    NMM_WANTED = 22,
    /* Again of the plug-in and of the library of hooks: an access by itself, while `trace_left` is positive. aux: 1 read, 2 write;
     * aux2: its bytes. payload: address, address of the instruction (from hooks, of what follows the call) */
    NMM_ACCESS = 23,
    /* More of the access that this thread sent last: what QEMU makes in pieces. The same; the address is where it goes on */
    NMM_ACCESS_MORE = 24,
};
#define NMM_TEXT_WORDS 32u

/* Function that made an allocation. */
enum nmm_api {
    NMM_MALLOC = 1,
    NMM_CALLOC = 2,
    NMM_REALLOC = 3,
    NMM_REALLOCARRAY = 4,
    NMM_POSIX_MEMALIGN = 5,
    NMM_ALIGNED_ALLOC = 6,
    NMM_MEMALIGN = 7,
    NMM_VALLOC = 8,
    NMM_PVALLOC = 9,
    NMM_NEW = 10,           /* any form of C++'s operator, where the allocator has its own */
};

#endif
