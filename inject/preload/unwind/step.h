/* One step of the walk: from a frame to its caller. */
#ifndef NMM_STEP_H
#define NMM_STEP_H

#include "rule.h"
#include "unwind.h"

/* The state in which a frame goes on when what it called returns. */
struct frame {
    uintptr_t pc, sp, fp;
    /* How it came about: the words of the stack that were read, besides the return address at sp - 8. 0: none. */
    uintptr_t fp_at;        /* the saved frame pointer */
    uintptr_t sp_at;        /* the saved stack pointer, where the callee realigned its stack */
    bool exact;             /* pc was interrupted, not called from: it is not a return address */
    bool irregular;         /* came about in another way (a signal, a chain of frame pointers) */
    uint8_t rule_fp;        /* what the step that led here, or that found no way on, did with the frame pointer before it */
};

#define NMM_STEP_USES_FP 1u     /* where it went depends on it */
#define NMM_STEP_KEEPS_FP 2u    /* and passed it on */

/* Memory that can be read: the part of one stack from where we are outwards. Where the stack is not known (a coroutine, a
 * signal handler's own stack) only the rest of the page is. */
static inline struct nmm_bounds nmm_readable(const struct nmm_thread *self, uintptr_t sp)
{
    uintptr_t high = self->stack.high;
    if (!(sp - self->stack.low < high - self->stack.low))
        high = (sp | (NMM_PAGE - 1)) + 1;
    return (struct nmm_bounds){sp, high};
}

static inline bool load(struct nmm_bounds bounds, uintptr_t address, uintptr_t *value)
{
    if (unlikely(address < bounds.low || address >= bounds.high || address % sizeof *value != 0))
        return false;
    *value = *(const uintptr_t *)address;
    return true;
}

enum step { STEP_ON, STEP_END, STEP_CUT };

/* Without call frame information (JIT-compiled code): frame pointer, return address above it. */
static inline enum step step_chain(struct nmm_bounds bounds, struct frame *frame)
{
    uintptr_t fp, pc;
    if (frame->fp == 0)
        return STEP_END;
    if (frame->fp < frame->sp || !load(bounds, frame->fp, &fp) || !load(bounds, frame->fp + 8, &pc))
        return STEP_CUT;
    *frame = (struct frame){.pc = pc, .sp = frame->fp + 16, .fp = fp, .irregular = true};
    return pc < NMM_PAGE ? (pc == 0 ? STEP_END : STEP_CUT) : STEP_ON;
}

#if defined(__x86_64__)

/* The kernel's struct rt_sigframe, from the ucontext at sp on. */
#define UC_RBP 120
#define UC_RSP 160
#define UC_RIP 168
#define UC_SIGNO 304

static NMM_COLD enum step step_signal(const struct nmm_thread *self, struct nmm_bounds *bounds, struct frame *frame)
{
    uintptr_t signo;
    struct frame next = {.exact = true, .irregular = true};
    if (!load(*bounds, frame->sp + UC_RBP, &next.fp) || !load(*bounds, frame->sp + UC_RSP, &next.sp)
        || !load(*bounds, frame->sp + UC_RIP, &next.pc))
        return STEP_CUT;
    if (next.sp <= frame->sp || next.sp >= bounds->high) {
        /* The handler had a stack of its own. What it interrupted lies on the thread's stack, and that can be read from
         * the stack pointer on, unless the stack pointer itself is at fault (stack overflow). */
        if (!(next.sp - self->stack.low < self->stack.high - self->stack.low)
            || !load(*bounds, frame->sp + UC_SIGNO, &signo) || (uint32_t)signo == 11 || (uint32_t)signo == 7)
            return STEP_CUT;
        *bounds = (struct nmm_bounds){next.sp & ~(uintptr_t)7, self->stack.high};
    }
    *frame = next;
    return STEP_ON;
}

static inline enum step step(const struct nmm_thread *self, struct nmm_bounds *bounds, struct frame *frame)
{
    const struct nmm_rule rule = nmm_rule_at(frame->pc - !frame->exact);
    uintptr_t cfa, pc, fp = frame->fp, fp_at = 0, sp_at = 0;
    const bool uses_fp = (rule.kind != NMM_RULE_SP && rule.kind != NMM_RULE_END) || rule.saved_fp == NMM_FP_AT_FP;
    const uint8_t rule_fp = (uses_fp ? NMM_STEP_USES_FP : 0) | (rule.saved_fp == NMM_FP_KEPT ? NMM_STEP_KEEPS_FP : 0);
    frame->rule_fp = rule_fp;
    switch (rule.kind) {
    case NMM_RULE_SP: cfa = frame->sp + rule.cfa * 8; break;
    case NMM_RULE_FP: cfa = frame->fp + rule.cfa * 8; break;
    case NMM_RULE_DEREF:
        sp_at = frame->fp - rule.cfa * 8;
        if (!load(*bounds, sp_at, &cfa))
            return STEP_CUT;
        break;
    case NMM_RULE_SIGNAL: return step_signal(self, bounds, frame);
    case NMM_RULE_CHAIN: return step_chain(*bounds, frame);
    case NMM_RULE_END: return STEP_END;
    default: return STEP_CUT;
    }
    /* The stack grows downwards: a caller's frame is above. */
    if (unlikely(cfa <= frame->sp || !load(*bounds, cfa - 8, &pc)))
        return STEP_CUT;
    if (rule.saved_fp != NMM_FP_KEPT) {
        fp_at = rule.saved_fp == NMM_FP_BELOW_CFA ? cfa - rule.fp * 8 : frame->fp + rule.fp * 8;
        if (unlikely(!load(*bounds, fp_at, &fp)))
            return STEP_CUT;
    }
    *frame = (struct frame){.pc = pc, .sp = cfa, .fp = fp, .fp_at = fp_at, .sp_at = sp_at, .rule_fp = rule_fp};
    return pc < NMM_PAGE ? (pc == 0 ? STEP_END : STEP_CUT) : STEP_ON;
}

#else

static inline enum step step(const struct nmm_thread *self, struct nmm_bounds *bounds, struct frame *frame)
{
    (void)self;
    enum step next = step_chain(*bounds, frame);
    frame->rule_fp = NMM_STEP_USES_FP;
    return next;
}

#endif

static inline struct frame nmm_first_frame(const uintptr_t *hook)
{
    return (struct frame){.pc = hook[1], .sp = (uintptr_t)(hook + 2), .fp = hook[0]};
}

#endif
