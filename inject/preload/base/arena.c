#include "arena.h"

char nmm_arena[NMM_ARENA_BYTES] __attribute__((aligned(4096)));
static size_t used;

void *nmm_arena_take(size_t size, size_t alignment)
{
    if (alignment < NMM_ARENA_HEADER)
        alignment = NMM_ARENA_HEADER;
    size_t begin, end, old = nmm_load(&used);
    do {
        uintptr_t base = (uintptr_t)nmm_arena;
        begin = nmm_round_up(base + old + NMM_ARENA_HEADER, alignment) - base;
        if (begin > NMM_ARENA_BYTES || size > NMM_ARENA_BYTES - begin)
            return NULL;
        end = nmm_round_up(begin + size, NMM_ARENA_HEADER);
    } while (!__atomic_compare_exchange_n(&used, &old, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *(size_t *)(nmm_arena + begin - sizeof(size_t)) = size;
    return nmm_arena + begin;
}

size_t nmm_arena_size(const void *p) { return *(const size_t *)((const char *)p - sizeof(size_t)); }
