/* How to step from a frame to its caller, in 32 bits.
 *
 * What compilers make of call frame information at call sites is little: the CFA (the stack pointer before the call) is the
 * stack pointer or the frame pointer plus a constant, or, where a function realigns its stack, a word near the frame
 * pointer; the return address is just below the CFA; the caller's frame pointer is saved somewhere near, or untouched.
 * Anything else is NMM_RULE_FAIL, and the stack is cut there. */
#ifndef NMM_RULE_H
#define NMM_RULE_H

#include "../base/common.h"

enum nmm_rule_kind {
    NMM_RULE_NONE = 0,      /* not known yet */
    NMM_RULE_SP,            /* CFA = sp + cfa */
    NMM_RULE_FP,            /* CFA = fp + cfa */
    NMM_RULE_DEREF,         /* CFA = *(fp - cfa): the function realigned its stack and saved the old one */
    NMM_RULE_SIGNAL,        /* the trampoline of a signal handler: the registers are in the ucontext at sp */
    NMM_RULE_CHAIN,         /* no call frame information: hope for a frame pointer */
    NMM_RULE_END,           /* outermost frame */
    NMM_RULE_FAIL,          /* call frame information beyond us */
};

enum nmm_saved_fp {
    NMM_FP_KEPT = 0,
    NMM_FP_BELOW_CFA,       /* saved at CFA - fp */
    NMM_FP_AT_FP,           /* saved at *fp + fp */
};

/* Offsets in words of 8 bytes. */
struct nmm_rule {
    uint32_t kind : 3;
    uint32_t saved_fp : 2;
    uint32_t cfa : 15;
    uint32_t fp : 12;
};

_Static_assert(sizeof(struct nmm_rule) == 4, "a rule must fit beside its tag in one atomic word");

/* The rule for the instruction at `pc` from the tables in `.eh_frame`. For a return address, ask for the byte before it:
 * the call may be the last instruction of its function. */
struct nmm_rule nmm_rule_from_cfi(uintptr_t pc);

/* The same through the cache. */
struct nmm_rule nmm_rule_at(uintptr_t pc);

#endif
