/* Which loaded object a code address belongs to. */
#ifndef NMM_FIND_H
#define NMM_FIND_H

#include "../base/common.h"

struct nmm_code {
    uintptr_t low, high;            /* the object's mapping */
    const uint8_t *eh_frame_hdr;    /* NULL if it has none */
};

bool nmm_find_code(uintptr_t pc, struct nmm_code *code);

#endif
