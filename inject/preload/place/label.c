/* A table without order: programs name few things. An address is written by compare-and-swap, and belongs to whoever takes it out. */
#include "label.h"

#define ROOM 1024u

static struct {
    uint64_t address;       /* 0: free */
    uint64_t bytes;
} labels[ROOM];

static uint32_t used;       /* behind it nothing was ever written */

uintptr_t nmm_labels_low = UINTPTR_MAX, nmm_labels_high;

static void widen(uintptr_t address, uint64_t bytes)
{
    uintptr_t low = nmm_load(&nmm_labels_low), high = nmm_load(&nmm_labels_high);
    while (address < low && !__atomic_compare_exchange_n(&nmm_labels_low, &low, address, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    while (address + bytes > high
        && !__atomic_compare_exchange_n(&nmm_labels_high, &high, address + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

bool nmm_label_begins(uintptr_t address, uint64_t bytes)
{
    nmm_label_ends(address);
    widen(address, bytes);
    for (uint32_t i = 0; i < ROOM; i++) {
        uint64_t none = 0;
        if (nmm_load(&labels[i].address) != 0
            || !__atomic_compare_exchange_n(&labels[i].address, &none, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        nmm_store_release(&labels[i].bytes, bytes);
        uint32_t known = nmm_load(&used);
        while (known <= i && !__atomic_compare_exchange_n(&used, &known, i + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            ;
        return true;
    }
    return false;
}

static uint64_t take(uint32_t i, uint64_t address)
{
    const uint64_t bytes = nmm_load_acquire(&labels[i].bytes);
    return __atomic_compare_exchange_n(&labels[i].address, &address, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ? bytes : 0;
}

uint64_t nmm_label_ends(uintptr_t address)
{
    const uint32_t count = nmm_load_acquire(&used);
    for (uint32_t i = 0; i < count; i++)
        if (nmm_load(&labels[i].address) == address && address != 0)
            return take(i, address);
    return 0;
}

bool nmm_labels_end(uintptr_t low, uintptr_t high, void (*each)(uintptr_t address))
{
    bool some = false;
    if (high <= nmm_load(&nmm_labels_low) || low >= nmm_load(&nmm_labels_high))
        return false;
    const uint32_t count = nmm_load_acquire(&used);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t address = nmm_load(&labels[i].address);
        const bool meets = address < high && address + nmm_load(&labels[i].bytes) > low;
        if (address != 0 && meets && take(i, address) != 0) {
            each(address);
            some = true;
        }
    }
    return some;
}

bool nmm_label_holds(uintptr_t page)
{
    if (page + 4096 <= nmm_load(&nmm_labels_low) || page >= nmm_load(&nmm_labels_high))
        return false;
    const uint32_t count = nmm_load_acquire(&used);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t address = nmm_load(&labels[i].address);
        /* An allocator's word before or behind it counts for nothing: own_pages in place.c. */
        if (address != 0 && page + 16 >= address && page + 4096 <= address + nmm_load(&labels[i].bytes) + 8)
            return true;
    }
    return false;
}
