/* From .eh_frame to a rule: find the frame description entry, run its little program up to the pc, pack the result.
 * Reference: Linux Standard Base, "Exception Frames"; DWARF 5, 6.4. */
#include "cfi.h"

#if defined(__x86_64__)

#include "find.h"
#include "reader.h"
#include "rule.h"

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer_encoding;
    bool augmented;         /* 'z': entries have a length-prefixed augmentation */
    bool signal_frame;
    struct nmm_reader program;
};

/* A CIE or FDE after its length field; `*id_at` is where its id or CIE pointer lies. */
static struct nmm_reader entry_at(const uint8_t *at, const struct nmm_code *code)
{
    struct nmm_reader r = {at, (const uint8_t *)code->high, (uintptr_t)at < code->low || (uintptr_t)at >= code->high};
    uint64_t length = nmm_read_bytes(&r, 4);
    if (length == 0xffffffff)
        length = nmm_read_bytes(&r, 8);
    if (r.bad || length == 0 || length > (uint64_t)(r.end - r.at))
        r.bad = true;
    else
        r.end = r.at + length;
    return r;
}

static bool read_cie(const uint8_t *at, const struct nmm_code *code, struct cie *cie)
{
    struct nmm_reader r = entry_at(at, code);
    uint32_t id = (uint32_t)nmm_read_bytes(&r, 4);
    uint8_t version = (uint8_t)nmm_read_bytes(&r, 1);
    if (r.bad || id != 0 || (version != 1 && version != 3))
        return false;
    const char *augmentation = (const char *)r.at;
    while (nmm_read_bytes(&r, 1) != 0)
        ;
    if (r.bad || (augmentation[0] != 'z' && augmentation[0] != '\0'))
        return false; /* "eh": gcc 2 */
    *cie = (struct cie){.pointer_encoding = NMM_PE_ABSPTR};
    cie->code_align = nmm_read_uleb(&r);
    cie->data_align = nmm_read_sleb(&r);
    uint64_t return_column = version == 1 ? nmm_read_bytes(&r, 1) : nmm_read_uleb(&r);
    if (return_column != NMM_CFI_RA)
        return false;
    if (augmentation[0] == 'z') {
        cie->augmented = true;
        uint64_t length = nmm_read_uleb(&r);
        struct nmm_reader data = r;
        nmm_skip(&r, length);
        for (const char *c = augmentation + 1; *c; c++) {
            switch (*c) {
            case 'R': cie->pointer_encoding = (uint8_t)nmm_read_bytes(&data, 1); break;
            case 'L': nmm_read_bytes(&data, 1); break;
            case 'S': cie->signal_frame = true; break;
            case 'P': {
                uint8_t encoding = (uint8_t)nmm_read_bytes(&data, 1);
                nmm_read_pointer(&data, encoding & 0x0f, 0);
                break;
            }
            default: return false;
            }
        }
        if (data.bad)
            return false;
    }
    cie->program = r;
    return !r.bad;
}

/* The entry for `pc` by the search table of .eh_frame_hdr. */
static const uint8_t *find_fde(uintptr_t pc, const struct nmm_code *code)
{
    const uint8_t *header = code->eh_frame_hdr;
    const uintptr_t base = (uintptr_t)header;
    struct nmm_reader r = {header, (const uint8_t *)code->high, base < code->low || base >= code->high};
    uint8_t version = (uint8_t)nmm_read_bytes(&r, 1);
    uint8_t frame_encoding = (uint8_t)nmm_read_bytes(&r, 1);
    uint8_t count_encoding = (uint8_t)nmm_read_bytes(&r, 1);
    uint8_t table_encoding = (uint8_t)nmm_read_bytes(&r, 1);
    if (r.bad || version != 1 || count_encoding == NMM_PE_OMIT || table_encoding != (NMM_PE_DATAREL | NMM_PE_SDATA4))
        return NULL; /* no linker writes another table */
    if (frame_encoding != NMM_PE_OMIT)
        nmm_read_pointer(&r, frame_encoding, base);
    uint64_t count = nmm_read_pointer(&r, count_encoding, base);
    if (r.bad || count == 0 || count > (uint64_t)(r.end - r.at) / 8)
        return NULL;

    const uint8_t *table = r.at; /* pairs: first pc, entry; sorted; relative to the header */
#define FIELD(i, which) (base + (uintptr_t)(intptr_t)(int32_t)nmm_read_bytes(&(struct nmm_reader){table + 8 * (i) + 4 * (which), r.end, false}, 4))
    uint64_t low = 0, high = count; /* the entry wanted is the last whose pc is not beyond ours */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (FIELD(middle, 0) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : (const uint8_t *)FIELD(low - 1, 1);
#undef FIELD
}

struct nmm_rule nmm_rule_from_cfi(uintptr_t pc)
{
    const struct nmm_rule chain = {.kind = NMM_RULE_CHAIN}, fail = {.kind = NMM_RULE_FAIL};
    struct nmm_code code;
    if (!nmm_find_code(pc, &code) || code.eh_frame_hdr == NULL)
        return chain;
    const uint8_t *entry = find_fde(pc, &code);
    if (entry == NULL)
        return chain;

    struct nmm_reader r = entry_at(entry, &code);
    const uint8_t *id_at = r.at;
    uint32_t to_cie = (uint32_t)nmm_read_bytes(&r, 4);
    struct cie cie;
    if (r.bad || to_cie == 0 || !read_cie(id_at - to_cie, &code, &cie))
        return fail;
    uintptr_t begin = nmm_read_pointer(&r, cie.pointer_encoding, 0);
    uintptr_t length = nmm_read_pointer(&r, cie.pointer_encoding & 0x0f, 0);
    if (r.bad)
        return fail;
    if (pc - begin >= length)
        return chain; /* in a gap between functions that have entries: hand-written code */
    if (cie.augmented)
        nmm_skip(&r, nmm_read_uleb(&r));
    if (cie.signal_frame)
        return (struct nmm_rule){.kind = NMM_RULE_SIGNAL};

    struct nmm_cfi_machine machine = {.code_align = cie.code_align, .data_align = cie.data_align, .pointer_encoding = cie.pointer_encoding};
    if (!nmm_cfi_run(&machine, &cie.program, 0, UINTPTR_MAX))
        return fail;
    machine.initial = machine.row;
    machine.depth = 0;
    if (!nmm_cfi_run(&machine, &r, begin, pc))
        return fail;
    return nmm_cfi_pack(&machine.row);
}

#else

struct nmm_rule nmm_rule_from_cfi(uintptr_t pc)
{
    (void)pc;
    return (struct nmm_rule){.kind = NMM_RULE_CHAIN};
}

#endif
