#define _GNU_SOURCE
#include "find.h"

#include <elf.h>
#include <link.h>

#include "../base/maps.h"
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
 * callback of the program's runs, which may wait for whoever allocates; and whoever forks while we hold it leaves it locked in the
 * child. So what is there from the start, and stays, is noted then. Other code is found by what the kernel has mapped; its headers
 * can be read, for it is on our stack. */
#define AT_START 128
static struct nmm_code at_start[AT_START];
static uint32_t at_start_count;

/* Objects that came later, found once. Odd while it is written: who finds it so, also in a forked child for ever, does without. */
#define LATER 32u
static struct later {
    uint32_t version, pad;
    struct nmm_code code;
} later[LATER];
static uint32_t next_later;

/* What an object takes up. */
static struct nmm_code read_object(const ElfW(Phdr) *segments, uint32_t count, uintptr_t bias)
{
    struct nmm_code code = {UINTPTR_MAX, 0, NULL};
    for (uint32_t i = 0; i < count; i++) {
        const uintptr_t begin = bias + segments[i].p_vaddr, end = begin + segments[i].p_memsz;
        if (segments[i].p_type == PT_GNU_EH_FRAME)
            code.eh_frame_hdr = (const uint8_t *)begin;
        if (segments[i].p_type != PT_LOAD)
            continue;
        code.low = begin < code.low ? begin : code.low;
        code.high = end > code.high ? end : code.high;
    }
    return code;
}

static int note(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    uint32_t *count = data;
    const struct nmm_code code = read_object(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr);
    if (*count < AT_START && code.low < code.high)
        at_start[(*count)++] = code;
    return 0;
}

struct search {
    uintptr_t pc;
    struct nmm_code *code;
    bool found;
};

static bool search_in(const struct nmm_mapped_file *file, void *data)
{
    struct search *search = data;
    if (search->pc - file->low >= file->high - file->low)
        return false;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)file->low;
    const uintptr_t room = file->first_high - file->low;
    if (!file->start || !file->readable || room < sizeof *header || header->e_ident[0] != ELFMAG0 || header->e_ident[1] != ELFMAG1
        || header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phoff > room
        || header->e_phnum > (room - header->e_phoff) / sizeof(ElfW(Phdr)))
        return true;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(file->low + header->e_phoff);
    for (uint32_t i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset < 4096) {
            const uintptr_t start = segments[i].p_vaddr & ~(uintptr_t)4095;
            *search->code = read_object(segments, header->e_phnum, file->low - start);
            search->found = search->pc - search->code->low < search->code->high - search->code->low;
            return true;
        }
    return true;
}

static bool find_later(uintptr_t pc, struct nmm_code *code)
{
    for (uint32_t i = 0; i < LATER; i++) {
        const uint32_t version = nmm_load_acquire(&later[i].version);
        *code = (struct nmm_code){nmm_load(&later[i].code.low), nmm_load(&later[i].code.high), nmm_load(&later[i].code.eh_frame_hdr)};
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && nmm_load(&later[i].version) == version && pc - code->low < code->high - code->low)
            return true;
    }
    return false;
}

static void write_later(struct later *of, struct nmm_code code)
{
    uint32_t version = nmm_load(&of->version);
    if (version % 2 != 0
        || !__atomic_compare_exchange_n(&of->version, &version, version + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    nmm_store(&of->code.low, code.low);
    nmm_store(&of->code.high, code.high);
    nmm_store(&of->code.eh_frame_hdr, code.eh_frame_hdr);
    nmm_store_release(&of->version, version + 2);
}

void nmm_forget_objects(void)
{
    for (uint32_t i = 0; i < LATER; i++)
        write_later(&later[i], (struct nmm_code){0});
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
    if (find_later(pc, code))
        return true;
    struct search search = {pc, code, false};
    if (!nmm_load(&nmm_process.quiet))
        nmm_each_mapped_file(search_in, &search);
    if (search.found)
        write_later(&later[__atomic_fetch_add(&next_later, 1, __ATOMIC_RELAXED) % LATER], *code);
    return search.found;
}
