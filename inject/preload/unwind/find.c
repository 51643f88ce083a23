#define _GNU_SOURCE
#include "find.h"

#include <link.h>

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

struct search {
    uintptr_t pc;
    struct nmm_code *code;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    struct nmm_code code = {UINTPTR_MAX, 0, NULL};
    bool found = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        if (segment->p_type == PT_GNU_EH_FRAME)
            code.eh_frame_hdr = (const uint8_t *)begin;
        if (segment->p_type != PT_LOAD)
            continue;
        found |= search->pc - begin < end - begin;
        code.low = begin < code.low ? begin : code.low;
        code.high = end > code.high ? end : code.high;
    }
    if (found)
        *search->code = code;
    return found;
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
    /* Older glibc, musl. The loader's lock is recursive and held by others only while they link a new object in. We come
     * here once per code address. */
    struct search search = {pc, code};
    return dl_iterate_phdr(visit, &search) != 0;
}
