#define _GNU_SOURCE
#include "find.h"

#include <link.h>

#include "../emit/state.h"
#include "unwind.h"

/* glibc's struct dl_find_object, which is part of its ABI since 2.35. */
struct find_result {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[7];
};

void *nmm_dl_find_object;

/* Older glibc, musl: only dl_iterate_phdr knows all objects, under a lock of the loader. A thread may hold that for as long as a
 * callback of the program's runs, which may wait for whoever allocates; and the child of a fork may have inherited it locked for
 * ever. So what is there from the start, and stays, is noted then. For other code the lock is taken, once per address; in a
 * forked child such a call stack is cut. */
#define AT_START 128
static struct nmm_code at_start[AT_START];
static uint32_t at_start_count;

struct search {
    uintptr_t pc;
    struct nmm_code *code;
};

/* What an object takes up; whether `pc` is in a segment of it. */
static bool read_object(const struct dl_phdr_info *info, uintptr_t pc, struct nmm_code *code)
{
    bool found = false;
    *code = (struct nmm_code){UINTPTR_MAX, 0, NULL};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        if (segment->p_type == PT_GNU_EH_FRAME)
            code->eh_frame_hdr = (const uint8_t *)begin;
        if (segment->p_type != PT_LOAD)
            continue;
        found |= pc - begin < end - begin;
        code->low = begin < code->low ? begin : code->low;
        code->high = end > code->high ? end : code->high;
    }
    return found;
}

static int search_in(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    struct nmm_code code;
    const bool found = read_object(info, search->pc, &code);
    if (found)
        *search->code = code;
    return found;
}

static int note(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    uint32_t *count = data;
    struct nmm_code code;
    read_object(info, 0, &code);
    if (*count < AT_START && code.low < code.high)
        at_start[(*count)++] = code;
    return 0;
}

void nmm_note_objects(void)
{
    uint32_t count = 0;
    if (nmm_dl_find_object != NULL)
        return;
    dl_iterate_phdr(note, &count);
    nmm_store_release(&at_start_count, count);
}

bool nmm_find_code(uintptr_t pc, struct nmm_code *code)
{
    int (*find)(void *, struct find_result *) = (int (*)(void *, struct find_result *))nmm_dl_find_object;
    if (find) {
        struct find_result result = {0};
        if (find((void *)pc, &result) != 0)
            return false;
        *code = (struct nmm_code){(uintptr_t)result.map_start, (uintptr_t)result.map_end, result.eh_frame};
        return true;
    }
    const uint32_t count = nmm_load_acquire(&at_start_count);
    for (uint32_t i = 0; i < count; i++)
        if (pc - at_start[i].low < at_start[i].high - at_start[i].low) {
            *code = at_start[i];
            return true;
        }
    struct search search = {pc, code};
    return !nmm_process.forked && dl_iterate_phdr(search_in, &search) != 0;
}
