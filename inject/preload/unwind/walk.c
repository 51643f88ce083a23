#include "step.h"

struct nmm_trace nmm_unwind(const struct nmm_thread *self, const uintptr_t *hook, uint64_t *frames, unsigned max)
{
    struct nmm_bounds bounds = nmm_readable(self, (uintptr_t)hook);
    struct frame frame = nmm_first_frame(hook);
    struct nmm_trace trace = {0};
    for (enum step next = STEP_ON; next == STEP_ON;) {
        if (trace.count == max) {
            trace.cut = true;
            break;
        }
        frames[trace.count++] = frame.pc;
        next = step(self, &bounds, &frame);
        trace.cut = next == STEP_CUT;
    }
    return trace;
}
