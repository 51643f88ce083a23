/* Large blocks of the program: a page that lies in one as a whole needs one counter, not one for each four bytes of it. */
#ifndef NMX_BLOCKS_H
#define NMX_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct nmx_range {
    uint64_t low, high;
};

/* Smaller ones are not worth their place in the table. */
#define NMX_LARGE (64u << 10)

/* A block begins. `mapping`: heap blocks may yet come to lie in it. */
void nmx_block_begins(struct nmx_range range, bool mapping);

/* Forgets a block that reaches into `range`, which is returned whole; an empty range if there is none. A heap block that
 * begins in a mapping is told by `inside`: then a heap block is not forgotten, for nothing lies in it. */
struct nmx_range nmx_block_cut(struct nmx_range range, bool inside);

/* Whether all of the page belongs to one block. */
bool nmx_block_holds(uint64_t page_address);

/* In the child of a fork: it goes on with what its parent knew. */
void nmx_blocks_reborn(void);

#endif
