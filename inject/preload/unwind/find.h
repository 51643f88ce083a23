/* Which loaded object a code address belongs to. */
#ifndef NMM_FIND_H
#define NMM_FIND_H

#include "../base/common.h"

struct nmm_code {
    uintptr_t low, high;            /* the object's mapping */
    const uint8_t *eh_frame_hdr;    /* NULL if it has none */
};

/* Notes what is loaded, while nobody holds a lock of the loader's. */
void nmm_note_objects(void);

/* A library was closed. */
void nmm_forget_objects(void);

bool nmm_find_code(uintptr_t pc, struct nmm_code *code);

#endif
