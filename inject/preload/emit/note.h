/* Telling the emulator that counts accesses what is about to happen: numamma_note.h. */
#ifndef NMM_EMIT_NOTE_H
#define NMM_EMIT_NOTE_H

#include "../../wire/include/numamma_note.h"
#include "state.h"

/* Before the event is stamped that says the same to the recorder. */
void nmm_tell(uint32_t what, uintptr_t address, size_t length);

#endif
