/* Which rule an object is under. */
#ifndef NMM_MATCH_H
#define NMM_MATCH_H

#include "modules.h"

#define NMM_NO_RULE 0xffffffffu

/* The first rule for what was allocated at the call stack of the hook with `frame`. Sets `instance`. */
uint32_t nmm_match(uint32_t target, uint64_t bytes, const uintptr_t *frame, uint32_t *instance);

/* The same for small heap blocks and rules that gather them. */
uint32_t nmm_match_gathered(uint64_t bytes, const uintptr_t *frame, uint32_t *instance);

/* What was found out about addresses of code, one word each: the address, the generation of code, and what it is. */
enum nmm_code_kind { NMM_CODE_UNKNOWN, NMM_CODE_OF_NO_RULE, NMM_CODE_SKIPPED, NMM_CODE_OF_PLACES };
#define NMM_KNOWN_BITS 11
#define NMM_GENERATION_BITS 15
extern uint64_t nmm_known_code[1u << NMM_KNOWN_BITS];

static inline uint64_t *nmm_known_word(uintptr_t address)
{
    return &nmm_known_code[address * 0x9e3779b97f4a7c15ull >> (64 - NMM_KNOWN_BITS)];
}

static inline uint64_t nmm_known_key(uintptr_t address)
{
    const uint64_t generation = nmm_load_acquire(&nmm_code_generation) & ((1u << NMM_GENERATION_BITS) - 1);
    return address << (NMM_GENERATION_BITS + 2) | generation << 2;
}

static inline enum nmm_code_kind nmm_known_kind(uintptr_t address)
{
    const uint64_t known = nmm_load(nmm_known_word(address));
    return (known & ~3ull) == nmm_known_key(address) ? (enum nmm_code_kind)(known & 3) : NMM_CODE_UNKNOWN;
}

/* Whether no rule of a place can be for what is allocated at the call stack of the hook with `frame`. */
bool nmm_is_called_by_no_rule(const uintptr_t *frame);
static inline bool nmm_is_of_no_rule(const uintptr_t *frame)
{
    const enum nmm_code_kind kind = nmm_known_kind(frame[1]);
    return kind == NMM_CODE_OF_NO_RULE || (kind == NMM_CODE_SKIPPED && nmm_is_called_by_no_rule(frame));
}

/* Counts an object that a rule matches; whether it is one of the instances that the rule is for. */
bool nmm_is_instance(uint32_t rule, uint32_t *instance);

#endif
