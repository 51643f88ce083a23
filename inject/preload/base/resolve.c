#define _GNU_SOURCE
#include "resolve.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#define VERSION_HIDDEN 0x8000 /* an old version of a symbol, kept for old binaries */

/* The dynamic symbol table of one object. */
struct table {
    uintptr_t bias;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const uint16_t *versions;
};

/* glibc relocates the addresses in the dynamic section in place; musl, and everyone for the vDSO, does not. */
static const void *relocated(const struct table *table, ElfW(Addr) value)
{
    return (const void *)(value < table->bias ? value + table->bias : value);
}

static bool read_table(const struct dl_phdr_info *info, struct table *table)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (dynamic == NULL)
        return false;
    *table = (struct table){.bias = info->dlpi_addr};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const void *address = relocated(table, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB: table->symbols = address; break;
        case DT_STRTAB: table->strings = address; break;
        case DT_GNU_HASH: table->gnu_hash = address; break;
        case DT_HASH: table->sysv_hash = address; break;
        case DT_VERSYM: table->versions = address; break;
        }
    }
    return table->symbols && table->strings && (table->gnu_hash || table->sysv_hash);
}

static bool same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static void *value_of(const struct table *table, uint32_t index, const char *name, bool hidden_too)
{
    const ElfW(Sym) *symbol = &table->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || !same(table->strings + symbol->st_name, name))
        return NULL;
    if (table->versions) {
        uint16_t version = table->versions[index];
        if ((version & ~VERSION_HIDDEN) == 0 || (!hidden_too && (version & VERSION_HIDDEN)))
            return NULL;
    }
    uintptr_t address = table->bias + symbol->st_value;
    switch (symbol->st_info & 0xf) {
    case STT_NOTYPE:
    case STT_OBJECT:
    case STT_FUNC: return (void *)address;
#if defined(__x86_64__)
    case STT_GNU_IFUNC: return ((void *(*)(void))address)();
#endif
    default: return NULL;
    }
}

static void *find_gnu(const struct table *table, const char *name, bool hidden_too)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;

    const uint32_t *header = table->gnu_hash; /* buckets, first symbol, words of the Bloom filter, its shift */
    uint32_t bucket_count = header[0], first = header[1], bloom_words = header[2], shift = header[3];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(header + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + bloom_words);
    const uint32_t *chain = buckets + bucket_count;
    if (bucket_count == 0 || bloom_words == 0)
        return NULL;
    const unsigned bits = 8 * sizeof *bloom;
    ElfW(Addr) word = bloom[hash / bits % bloom_words];
    if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1))
        return NULL;
    uint32_t index = buckets[hash % bucket_count];
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1)) {
            void *value = value_of(table, index, name, hidden_too);
            if (value)
                return value;
        }
        if (entry & 1)
            return NULL;
    }
}

static void *find_sysv(const struct table *table, const char *name, bool hidden_too)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t *header = table->sysv_hash; /* buckets, chains */
    const uint32_t *buckets = header + 2, *chain = buckets + header[0];
    if (header[0] == 0)
        return NULL;
    for (uint32_t i = buckets[hash % header[0]]; i != STN_UNDEF && i < header[1]; i = chain[i]) {
        void *value = value_of(table, i, name, hidden_too);
        if (value)
            return value;
    }
    return NULL;
}

static void *find(const struct table *table, const char *name, bool hidden_too)
{
    return table->gnu_hash ? find_gnu(table, name, hidden_too) : find_sysv(table, name, hidden_too);
}

bool nmm_object_contains(const struct dl_phdr_info *info, uintptr_t address, uintptr_t *low, uintptr_t *high)
{
    bool inside = false;
    *low = UINTPTR_MAX, *high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        inside |= address - begin < end - begin;
        *low = begin < *low ? begin : *low;
        *high = end > *high ? end : *high;
    }
    return inside;
}

struct walk {
    const struct nmm_symbol *symbols;
    size_t count;
    struct nmm_objects *objects;
    unsigned index;         /* of the object; 0 is the executable */
    bool past_self;
    bool anywhere;          /* second pass: also objects before ours, also old versions */
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct walk *walk = data;
    struct table table;
    uintptr_t low, high;
    bool executable = walk->index++ == 0;
    if (nmm_object_contains(info, (uintptr_t)&visit, &low, &high)) {
        walk->past_self = true;
        walk->objects->own_low = low;
        walk->objects->own_high = high;
        return 0;
    }
    if (!read_table(info, &table))
        return 0;
    if (executable)
        walk->objects->own_allocator = find(&table, "malloc", true) != NULL;
    if (executable || (!walk->past_self && !walk->anywhere))
        return 0;
    for (size_t i = 0; i < walk->count; i++) {
        const struct nmm_symbol *symbol = &walk->symbols[i];
        if (nmm_load(symbol->slot) == NULL) {
            void *value = find(&table, symbol->name, walk->anywhere);
            if (value)
                nmm_store(symbol->slot, value);
        }
    }
    return 0;
}

struct allocator_walk {
    uintptr_t malloc, loader;
    struct nmm_objects *objects;
};

static int visit_allocator(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const struct allocator_walk *walk = data;
    uintptr_t low, high, unused;
    if (nmm_object_contains(info, walk->malloc, &low, &high)) {
        walk->objects->allocator_low = low;
        walk->objects->allocator_high = high;
        /* Not by mmap: libtcmalloc has one of its own. */
        walk->objects->allocator_is_libc = nmm_object_contains(info, (uintptr_t)&getauxval, &unused, &unused);
    }
    if (walk->loader != 0 && nmm_object_contains(info, walk->loader, &low, &high)) {
        walk->objects->loader_low = low;
        walk->objects->loader_high = high;
    }
    return 0;
}

void nmm_resolve(const struct nmm_symbol *symbols, size_t count, struct nmm_objects *objects)
{
    struct walk walk = {.symbols = symbols, .count = count, .objects = objects};
    dl_iterate_phdr(visit, &walk);
    walk.index = 0;
    walk.anywhere = true;
    dl_iterate_phdr(visit, &walk);

    struct allocator_walk allocator = {.objects = objects};
    for (size_t i = 0; i < count; i++) {
        if (same(symbols[i].name, "malloc"))
            allocator.malloc = (uintptr_t)nmm_load(symbols[i].slot);
        if (same(symbols[i].name, "_r_debug"))
            allocator.loader = (uintptr_t)nmm_load(symbols[i].slot);
    }
    dl_iterate_phdr(visit_allocator, &allocator);
}

void *nmm_resolve_in_vdso(const char *name)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    struct table table;
    if (header == NULL)
        return NULL;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)((uintptr_t)header + header->e_phoff);
    struct dl_phdr_info info = {.dlpi_phdr = segments, .dlpi_phnum = header->e_phnum};
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD) {
            info.dlpi_addr = (uintptr_t)header + segments[i].p_offset - segments[i].p_vaddr;
            break;
        }
    return read_table(&info, &table) ? find(&table, name, true) : NULL;
}
