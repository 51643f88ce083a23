/* What QEMU calls for each access of the program. */
#ifndef NMX_ACCESSES_H
#define NMX_ACCESSES_H

#include "qemu.h"

/* For an access, for a piece of one, and for a round of a repeated string instruction. */
struct nmx_callbacks {
    qemu_plugin_mem_cb *access, *piece, *round;
};

/* Count it; and with a model of caches whether it reaches memory. */
extern const struct nmx_callbacks nmx_counted, nmx_modelled;

/* An instruction whose accesses come in pieces is about to run. */
void nmx_pieces_begin(unsigned vcpu, void *ip);

/* A repeated string instruction has been executed: what comes next is another one's, wherever it is. QEMU ends a block behind it, so this
 * is asked for there. */
void nmx_string_ends(unsigned vcpu, void *unused);

/* Asks QEMU once how its number of an access is to be read. */
void nmx_learn_info(void);

#endif
