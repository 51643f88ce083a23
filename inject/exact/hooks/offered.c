#define _GNU_SOURCE
#include "offered.h"

#include <elf.h>
#include <link.h>

#include "../../preload/base/common.h"

struct table {
    uintptr_t bias;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash, *sysv_hash;
};

/* glibc relocates the addresses in the dynamic section in place; others do not. */
static const void *relocated(uintptr_t bias, ElfW(Addr) value)
{
    return (const void *)(value < bias ? value + bias : value);
}

static bool read_table(const struct dl_phdr_info *info, struct table *table)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    *table = (struct table){.bias = info->dlpi_addr};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *address = relocated(table->bias, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB: table->symbols = address; break;
        case DT_STRTAB: table->strings = address; break;
        case DT_GNU_HASH: table->gnu_hash = address; break;
        case DT_HASH: table->sysv_hash = address; break;
        }
    }
    return table->symbols && table->strings && (table->gnu_hash || table->sysv_hash);
}

/* How many symbols there are. By the newer table: as many as come before those it knows, and up to the end of its last chain. */
static uint32_t count_of(const struct table *table)
{
    if (table->sysv_hash)
        return table->sysv_hash[1];
    const uint32_t *head = table->gnu_hash, buckets = head[0], first = head[1];
    const uint32_t *bucket = head + 4 + head[2] * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static bool begins(const char *name, const char *with)
{
    while (*with && *name == *with)
        name++, with++;
    return *with == 0;
}

static bool is_hook(const char *name)
{
    return begins(name, "__tsan_")
        && (begins(name + 7, "read") || begins(name + 7, "write") || begins(name + 7, "func_entry") || begins(name + 7, "unaligned_")
            || begins(name + 7, "atomic") || begins(name + 7, "volatile_") || begins(name + 7, "vptr_"));
}

/* Whether the object is this library. */
static bool is_us(const struct dl_phdr_info *info)
{
    static const char here;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (uintptr_t)&here - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    enum nmx_offered *found = data;
    struct table table;
    if (!read_table(info, &table))
        return 0;
    const uint32_t count = count_of(&table);
    for (uint32_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &table.symbols[i];
        if (ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL || !is_hook(table.strings + symbol->st_name))
            continue;
        if (symbol->st_shndx == SHN_UNDEF) {
            *found = NMX_OUR_HOOKS;
        } else if (is_us(info)) {
            return 0;
        } else {
            *found = NMX_OTHER_HOOKS;
            return 1;
        }
    }
    return 0;
}

enum nmx_offered nmx_offered(void)
{
    enum nmx_offered found = NMX_NO_HOOKS;
    dl_iterate_phdr(look, &found);
    return found;
}
