#include "blocks.h"

#include <string.h>
#include <sys/mman.h>

#include "lock.h"

struct block {
    uint64_t low, high;
    bool mapping;
};

/* By address; none overlaps another. There are few: a program with many large blocks has no memory left. */
static struct block *blocks;
static size_t count, room;
static nmx_lock_t lock;

/* The first block that ends above `address`. */
static size_t first_above(uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (blocks[middle].high > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void nmx_block_begins(struct nmx_range range, bool mapping)
{
    if (range.high - range.low < NMX_LARGE || range.high < range.low)
        return;
    nmx_lock(&lock);
    if (count == room) {
        const size_t more = room ? 2 * room : 1024;
        void *memory = nmm_map(more * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (memory == NULL) {
            nmx_unlock(&lock);
            return;
        }
        void *old = blocks;
        const size_t old_bytes = room * sizeof *blocks;
        if (old)
            memcpy(memory, old, count * sizeof *blocks);
        /* In this order: another thread may fork at any moment. */
        __atomic_store_n(&blocks, memory, __ATOMIC_RELEASE);
        room = more;
        if (old)
            nmm_unmap(old, old_bytes);
    }
    const size_t at = first_above(range.low);
    if (at == count || blocks[at].low >= range.high) {
        memmove(&blocks[at + 1], &blocks[at], (count - at) * sizeof *blocks);
        blocks[at] = (struct block){range.low, range.high, mapping};
        count++;
    }
    nmx_unlock(&lock);
}

struct nmx_range nmx_block_cut(struct nmx_range range, bool inside)
{
    struct nmx_range cut = {0, 0};
    nmx_lock(&lock);
    const size_t at = first_above(range.low);
    if (at < count && blocks[at].low < range.high && (!inside || blocks[at].mapping)) {
        cut = (struct nmx_range){blocks[at].low, blocks[at].high};
        count--;
        memmove(&blocks[at], &blocks[at + 1], (count - at) * sizeof *blocks);
    }
    nmx_unlock(&lock);
    return cut;
}

bool nmx_block_holds(uint64_t page_address)
{
    nmx_lock(&lock);
    const size_t at = first_above(page_address);
    const bool holds = at < count && blocks[at].low <= page_address && blocks[at].high >= page_address + 4096;
    nmx_unlock(&lock);
    return holds;
}

/* Where another thread was changing the table, nothing of it holds: then no page is known to be one block's. */
void nmx_blocks_reborn(void)
{
    if (lock != 0)
        count = 0;
    lock = 0;
}
