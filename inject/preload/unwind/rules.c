/* The cache of rules: process-global, 65,536 words, no lock.
 *
 * An entry is one word, so it is read and written whole: 32 bits of tag, 32 bits of rule. Tag and place together name the
 * address exactly: addresses have 47 bits, mixed by a bijection to 16 bits of place and 31 bits of tag; the last bit of the
 * tag tells which of the two places of a pair the address hashes to. So a hit is never wrong, and writers may overwrite each
 * other at will. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../base/sys.h"
#include "find.h"
#include "rule.h"
#include "unwind.h"

#define ADDRESS_BITS 47
#define PLACE_BITS 16

union word {
    struct {
        uint32_t tag;
        struct nmm_rule rule;
    };
    uint64_t bits;
};

_Static_assert(NMM_RULES_BYTES == (8u << PLACE_BITS), "table size");

struct nmm_rule nmm_rule_at(uintptr_t pc)
{
    if (unlikely(pc >> ADDRESS_BITS))
        return (struct nmm_rule){.kind = NMM_RULE_FAIL};
    const uint64_t mask = (1ull << ADDRESS_BITS) - 1;
    uint64_t mixed = pc * 0x9e3779b97f4a7c15ull & mask; /* odd factor: a bijection modulo 2^47 */
    mixed ^= mixed >> 24;
    const uint32_t place = mixed & ((1u << PLACE_BITS) - 1);
    const uint32_t tag = (uint32_t)(mixed >> PLACE_BITS) << 1; /* 31 bits */
    uint64_t *table = nmm_process.rules;

    union word word = {.bits = nmm_load(&table[place])};
    if (likely(word.tag == tag && word.rule.kind != NMM_RULE_NONE))
        return word.rule;
    uint64_t *other = &table[place ^ 1];
    word.bits = nmm_load(other);
    if (likely(word.tag == (tag | 1) && word.rule.kind != NMM_RULE_NONE))
        return word.rule;

    struct nmm_rule rule = nmm_rule_from_cfi(pc);
    bool taken = nmm_load(&table[place]) != 0 && nmm_load(other) == 0;
    word.tag = taken ? tag | 1 : tag;
    word.rule = rule;
    nmm_store(taken ? other : &table[place], word.bits);
    return rule;
}

void nmm_unwind_forget(void)
{
    /* Zero pages in place of the old ones. A rule that another thread is just storing may survive; it belongs to code on
     * that thread's stack, which a correct program has not unloaded. */
    nmm_wipe(nmm_process.rules, NMM_RULES_BYTES);
    nmm_forget_objects();
}
