/* The contract between the library inside the recorded program and the plug-in of the emulator that runs the program, when
 * every access is counted (header: `exact`). The library tells of a range of addresses whose meaning is about to change, before
 * it stamps the event that says so to the recorder: what was counted there until now is sent first, and so comes first in time.
 *
 *   movl $NMM_NOTE_MARK, (note)      the only instruction of the library with this immediate: the plug-in knows it by its
 *                                    bytes, and reads the note, whose address it is told
 */
#ifndef NUMAMMA_NOTE_H
#define NUMAMMA_NOTE_H

#include <stdint.h>

#define NMM_NOTE_MARK 0x4e4d4d58u

/* What is to happen. */
#define NMM_NOTE_BLOCK 1u   /* a heap block begins: nothing in it belongs to another */
#define NMM_NOTE_MAPPING 2u /* the program has mapped it: one object, unless heap blocks come to lie in it */
#define NMM_NOTE_END 3u     /* it ends */

struct nmm_note {
    uint32_t mark;          /* written last */
    uint32_t what;
    uint64_t address;
    uint64_t length;        /* bytes */
};

#endif
