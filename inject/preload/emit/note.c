#include "note.h"

NMM_COLD void nmm_tell(uint32_t what, uintptr_t address, size_t length)
{
    if (nmm_process.counts_itself) {
        numamma_counts_note(what, address, length);
        return;
    }
    struct nmm_note note = {0, what, address, length};
#if defined(__x86_64__)
    __asm__ volatile("movl %1, %0" : "+m"(note.mark) : "i"(NMM_NOTE_MARK), "m"(note));
#else
    (void)note; /* the emulator is one of x86-64 */
#endif
}
