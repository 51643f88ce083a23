#define _GNU_SOURCE
#include "touched.h"

#include <stddef.h>
#include <sys/mman.h>

/* 47 bits of address: 17 lead to a leaf, 18 to a bit in it, 12 are in the page. */
#define LEAVES (1u << 17)
#define LEAF_BITS 18
/* Two bits a page: accessed, written. */
#define LEAF_BYTES ((1u << LEAF_BITS) / 4)

static uint64_t *leaves[LEAVES];

static uint64_t *leaf_of(uint64_t page)
{
    uint64_t **leaf = &leaves[page >> LEAF_BITS];
    uint64_t *known = __atomic_load_n(leaf, __ATOMIC_ACQUIRE);
    if (known)
        return known;
    void *fresh = mmap(NULL, LEAF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    if (__atomic_compare_exchange_n(leaf, &known, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fresh;
    munmap(fresh, LEAF_BYTES);
    return known;
}

bool nmx_touch(uint64_t address, bool write)
{
    const uint64_t page = address >> 12, place = page % (1u << LEAF_BITS);
    const uint64_t asked = (write ? 2ull : 1ull) << place % 32 * 2, marks = (write ? 3ull : 1ull) << place % 32 * 2;
    uint64_t *leaf = page >> LEAF_BITS < LEAVES ? leaf_of(page) : NULL;
    if (leaf == NULL || __atomic_load_n(&leaf[place / 32], __ATOMIC_RELAXED) & asked)
        return false;
    return !(__atomic_fetch_or(&leaf[place / 32], marks, __ATOMIC_RELAXED) & asked);
}

void nmx_untouch(uint64_t low, uint64_t high)
{
    for (uint64_t page = low >> 12, end = (high + 4095) >> 12; page < end && page >> LEAF_BITS < LEAVES;) {
        uint64_t *leaf = __atomic_load_n(&leaves[page >> LEAF_BITS], __ATOMIC_ACQUIRE);
        const uint64_t next = ((page >> LEAF_BITS) + 1) << LEAF_BITS;
        for (; leaf && page < end && page < next; page++) {
            const uint64_t place = page % (1u << LEAF_BITS);
            __atomic_fetch_and(&leaf[place / 32], ~(3ull << place % 32 * 2), __ATOMIC_RELAXED);
        }
        if (leaf == NULL)
            page = next;
    }
}
