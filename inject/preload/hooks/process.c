/* The life of the process image: our constructor, and code that is unloaded. Fork and exec need no hook: the child of a fork
 * finds its `alive` page wiped, an exec brings a new image that joins by itself. */
#define _GNU_SOURCE
#include "../emit/ring.h"
#include "../emit/stack.h"
#include "../unwind/unwind.h"
#include "hooks.h"

/* 101: before constructors of the same object only; other libraries' may come first, and then their first hook starts us. */
__attribute__((constructor(101))) static void constructor(void) { nmm_enter_hook(NMM_FRAME); }

int nmm_hook_dlclose(void *handle)
{
    const uintptr_t *frame = NMM_FRAME;
    nmm_enter_hook(frame);
    if (unlikely(nmm_real.dlclose == NULL))
        nmm_resolve_late();
    if (nmm_real.dlclose == NULL)
        return -1;
    int result = nmm_real.dlclose(handle);
    nmm_operators_forget();
    struct nmm_thread *self = nmm_enter_hook(frame);
    if (self && result == 0) {
        /* Another library may come to lie where this one lay: rules and hashes of old addresses must not be taken for new
         * ones. */
        nmm_emit(self, (struct nmm_tag){NMM_DLCLOSE, 0, 0}, NULL, 0);
        nmm_unwind_forget();
        nmm_store(&nmm_process.seed, nmm_process.seed * 0x9e3779b97f4a7c15ull + 1);
        nmm_forget_stacks();
    }
    return result;
}
