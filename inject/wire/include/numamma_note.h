/* The contract between the library inside the recorded program and what counts its accesses, all of them (header: `exact`): the
 * plug-in of the emulator that runs the program, or the library of hooks beside it. The library tells of a range of addresses whose meaning is about to change, before
 * it stamps the event that says so to the recorder: what was counted there until now is sent first, and so comes first in time.
 *
 *   movl $NMM_NOTE_MARK, (note)      the only instruction of the library with this immediate: the plug-in knows it by its
 *                                    bytes, and reads the note, whose address it is told
 *
 * Natively it calls the functions below, which the library of hooks has. */
#ifndef NUMAMMA_NOTE_H
#define NUMAMMA_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#define NMM_ENV_COUNTS "NUMAMMA_COUNTS" /* the segment of what counts natively */

#define NMM_NOTE_MARK 0x4e4d4d58u

/* Event that is about to happen. */
#define NMM_NOTE_BLOCK 1u   /* a heap block begins: nothing in it belongs to another */
#define NMM_NOTE_MAPPING 2u /* the program has mapped it: one object, unless heap blocks come to lie in it */
#define NMM_NOTE_END 3u     /* it ends */
#define NMM_NOTE_QUIET 4u   /* natively: the program is about to forbid itself system calls; nothing is counted any more */
#define NMM_NOTE_ALL 5u     /* natively: a library is closed; what was counted anywhere is sent */

struct nmm_note {
    uint32_t mark;          /* written last */
    uint32_t what;
    uint64_t address;
    uint64_t length;        /* bytes */
};

/* Answer of the library of hooks when it is asked to begin. */
#define NMM_COUNTS_ACCESSES 1u /* it counts */
#define NMM_COUNTS_OTHERS 2u   /* the program has no hooks: the emulator can count */
#define NMM_COUNTS_NOTHING 3u  /* the program's hooks lead elsewhere, or the segment cannot be had: nobody can */

/* Of the library of hooks. `segment` is the value of NMM_ENV_COUNTS. `ids_shared`: the recorder knows processes by the ids that they
 * know themselves by. Weak: without it, the emulator counts. */
extern uint32_t numamma_counts_begin(const char *segment, bool ids_shared) __attribute__((weak, visibility("default")));
extern void numamma_counts_note(uint32_t what, uint64_t address, uint64_t length) __attribute__((weak, visibility("default")));

/* Of the library in the program: joins the recording if it has not yet. */
extern void numamma_counts_wanted(void) __attribute__((weak, visibility("default")));

#endif
