/* What the program says by itself, by way of numamma.h: that header finds these functions at run time, so their names and parameters
 * never change. */
#define _GNU_SOURCE
#include "../emit/note.h"
#include "../emit/ring.h"
#include "../place/label.h"
#include "../place/place.h"
#include "hooks.h"
#include "version.h"

#define ANSWER __attribute__((visibility("default")))

/* They stand in for nothing, so no next definition is looked for. */
ANSWER void numamma_v1_label(const void *address, size_t bytes, const char *name);
ANSWER void numamma_v1_unlabel(const void *address);
ANSWER void numamma_v1_phase(const char *name);
ANSWER void numamma_v1_wanted(int wanted);

/* Copies a text into words, as much as there is room for. Returns how many. */
static uint32_t copy(uint64_t *words, const char *text)
{
    uint32_t length = 0;
    char *bytes = (char *)words;
    while (text[length] && length < NMM_TEXT_WORDS * 8)
        bytes[length] = text[length], length++;
    const uint32_t count = (length + 7) / 8;
    while (length < count * 8)
        bytes[length++] = 0;
    return count;
}

ANSWER void numamma_v1_label(const void *address, size_t bytes, const char *name)
{
    struct nmm_thread *self = nmm_heap_enter(NMM_FRAME);
    if (address == NULL || bytes == 0 || name == NULL || name[0] == 0)
        return;
    nmm_place_label((uintptr_t)address, bytes, name);
    if (self == NULL)
        return;
    /* What was counted for its pages as a whole is no longer enough. */
    if (unlikely(nmm_process.exact)) {
        nmm_tell(NMM_NOTE_END, (uintptr_t)address, bytes);
        /* What it has counted is to be sent again before the name ends. */
        nmm_label_begins((uintptr_t)address, bytes);
    }
    /* A block that comes and goes at one place would keep the name: no event tells of its end. */
    if (nmm_process.heap)
        nmm_next_version(nmm_version_of((uintptr_t)address));
    uint64_t payload[2 + NMM_TEXT_WORDS] = {(uintptr_t)address, bytes};
    nmm_emit(self, (struct nmm_tag){NMM_LABEL, 0, 0}, payload, 2 + copy(payload + 2, name));
}

ANSWER void numamma_v1_unlabel(const void *address)
{
    struct nmm_thread *self = nmm_heap_enter(NMM_FRAME);
    nmm_place_unlabel((uintptr_t)address);
    if (self == NULL)
        return;
    if (unlikely(nmm_process.exact) && address != NULL)
        nmm_tell(NMM_NOTE_END, (uintptr_t)address, nmm_label_ends((uintptr_t)address));
    const uint64_t payload[] = {(uintptr_t)address};
    nmm_emit(self, (struct nmm_tag){NMM_UNLABEL, 0, 0}, payload, 1);
}

ANSWER void numamma_v1_phase(const char *name)
{
    struct nmm_thread *self = nmm_heap_enter(NMM_FRAME);
    nmm_place_phase(name);
    if (self == NULL)
        return;
    uint64_t payload[NMM_TEXT_WORDS] = {0};
    nmm_emit(self, (struct nmm_tag){NMM_PHASE, 0, 0}, payload, copy(payload, name ? name : ""));
}

ANSWER void numamma_v1_wanted(int wanted)
{
    struct nmm_thread *self = nmm_heap_enter(NMM_FRAME);
    if (self != NULL)
        nmm_emit(self, (struct nmm_tag){NMM_WANTED, wanted != 0, 0}, NULL, 0);
}
