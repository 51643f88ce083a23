/* Going over to the emulator that counts accesses: a program that a recorded one executes begins without it. */
#ifndef NMM_EMULATE_H
#define NMM_EMULATE_H

#include <stdbool.h>

/* Whether an emulator runs us. */
bool nmm_is_emulated(void);

/* Executes the program anew under the emulator that the environment names. Returns if that cannot be. */
void nmm_emulate(void);

#endif
