/* The life of the process image: our constructor, and code that is unloaded. Fork and exec need no hook: the child of a fork
 * finds its `alive` page wiped, an exec brings a new image that joins by itself. */
#define _GNU_SOURCE
#include "../emit/note.h"
#include "../emit/ring.h"
#include "../emit/stack.h"
#include "../place/modules.h"
#include "../unwind/unwind.h"
#include "hooks.h"

/* 101: before constructors of the same object only; other libraries' may come first, and then their first hook starts us. */
__attribute__((constructor(101))) static void constructor(void) { nmm_enter_hook(NMM_FRAME); }

/* The library of hooks has seen an access. */
void numamma_counts_wanted(void) { nmm_start(); }

/* After the program's own exit handlers and destructors, or near enough. */
__attribute__((destructor(101))) static void destructor(void) { nmm_place_finish(); }

#if defined(__x86_64__)

/* dlopen looks at its caller to know where to search. So this hook has no frame of its own: it notes that a library may come, and
 * jumps on with all registers as they were. */
void *nmm_real_dlopen;

__attribute__((used, visibility("hidden"))) void nmm_look_at_dlopen(void)
{
    nmm_start();
    if (nmm_real_dlopen == NULL)
        nmm_resolve_late();
    nmm_place_opened();
}

/* What dlopen does where there is none: nothing. */
__attribute__((used, visibility("hidden"))) void *nmm_no_dlopen(void) { return NULL; }

__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    push %rdi\n    .cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n    .cfi_adjust_cfa_offset 8\n"
        "    sub $8, %rsp\n    .cfi_adjust_cfa_offset 8\n"
        "    call nmm_look_at_dlopen\n"
        "    add $8, %rsp\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rsi\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n    .cfi_adjust_cfa_offset -8\n"
        "    mov nmm_real_dlopen(%rip), %rax\n"
        "    test %rax, %rax\n"
        "    jz nmm_no_dlopen\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");

#endif

int nmm_hook_dlclose(void *handle)
{
    const uintptr_t *frame = NMM_FRAME;
    nmm_enter_hook(frame);
    if (unlikely(nmm_real.dlclose == NULL))
        nmm_resolve_late();
    if (nmm_real.dlclose == NULL)
        return -1;
    /* With what its destructors do, in case its addresses are another's afterwards. */
    if (unlikely(nmm_process.counts_itself))
        nmm_tell(NMM_NOTE_ALL, 0, 0);
    struct nmm_closing *closing = nmm_place_closing();
    int result = nmm_real.dlclose(handle);
    if (unlikely(nmm_process.counts_itself))
        nmm_tell(NMM_NOTE_ALL, 0, 0);
    nmm_operators_forget();
    if (result == 0 && nmm_place.plan != NULL && nmm_process.segment == NULL)
        nmm_unwind_forget();
    nmm_place_closed(closing);
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
