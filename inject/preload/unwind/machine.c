#include "cfi.h"

#if defined(__x86_64__)

#define DW_OP_deref 0x06
#define DW_OP_breg6 0x76

/* An expression `breg6 offset`, then `deref` if asked: what gcc writes where a function realigns its stack. */
static bool is_fp_offset(struct nmm_reader expression, bool deref, int64_t *offset)
{
    if (nmm_read_bytes(&expression, 1) != DW_OP_breg6)
        return false;
    *offset = nmm_read_sleb(&expression);
    if (deref && nmm_read_bytes(&expression, 1) != DW_OP_deref)
        return false;
    return !expression.bad && expression.at == expression.end;
}

static struct nmm_reader read_block(struct nmm_reader *r)
{
    uint64_t length = nmm_read_uleb(r);
    struct nmm_reader block = *r;
    nmm_skip(r, length);
    block.end = r->bad ? block.at : r->at;
    return block;
}

static void set(struct nmm_cfi_row *row, uint64_t reg, enum nmm_cfi_place place, int64_t offset)
{
    const struct nmm_cfi_saved saved = {(uint8_t)place, offset};
    if (reg == NMM_CFI_RBP)
        row->fp = saved;
    else if (reg == NMM_CFI_RA)
        row->ra = saved;
}

static void restore(struct nmm_cfi_machine *m, uint64_t reg)
{
    if (reg == NMM_CFI_RBP)
        m->row.fp = m->initial.fp;
    else if (reg == NMM_CFI_RA)
        m->row.ra = m->initial.ra;
}

static void define_cfa(struct nmm_cfi_row *row, uint64_t reg, int64_t offset)
{
    row->cfa_register = reg <= NMM_CFI_RA ? (uint32_t)reg : UINT32_MAX;
    row->cfa_offset = offset;
    row->cfa_deref = row->cfa_other = false;
}

bool nmm_cfi_run(struct nmm_cfi_machine *m, struct nmm_reader *r, uintptr_t location, uintptr_t pc)
{
    struct nmm_cfi_row *row = &m->row;
    while (r->at < r->end && !r->bad) {
        const uint8_t byte = (uint8_t)nmm_read_bytes(r, 1);
        const uint8_t low = byte & 0x3f;
        uint64_t reg, advance = 0;
        int64_t offset;
        switch (byte & 0xc0) {
        case 0x40: advance = low; goto advance;                                              /* advance_loc */
        case 0x80: set(row, low, NMM_CFI_OFFSET, (int64_t)nmm_read_uleb(r) * m->data_align); continue; /* offset */
        case 0xc0: restore(m, low); continue;                                                /* restore */
        }
        switch (byte) {
        case 0x00: break;                                                                    /* nop */
        case 0x01:                                                                           /* set_loc */
            location = nmm_read_pointer(r, m->pointer_encoding, 0);
            if (location > pc)
                return !r->bad;
            break;
        case 0x02: advance = nmm_read_bytes(r, 1); goto advance;                             /* advance_loc1 */
        case 0x03: advance = nmm_read_bytes(r, 2); goto advance;                             /* advance_loc2 */
        case 0x04: advance = nmm_read_bytes(r, 4); goto advance;                             /* advance_loc4 */
        advance:
            location += advance * m->code_align;
            if (location > pc)
                return !r->bad;
            break;
        case 0x05:                                                                           /* offset_extended */
            reg = nmm_read_uleb(r);
            set(row, reg, NMM_CFI_OFFSET, (int64_t)nmm_read_uleb(r) * m->data_align);
            break;
        case 0x06: restore(m, nmm_read_uleb(r)); break;                                      /* restore_extended */
        case 0x07: set(row, nmm_read_uleb(r), NMM_CFI_UNDEFINED, 0); break;                  /* undefined */
        case 0x08: set(row, nmm_read_uleb(r), NMM_CFI_SAME, 0); break;                       /* same_value */
        case 0x09:                                                                           /* register */
            reg = nmm_read_uleb(r);
            nmm_read_uleb(r);
            set(row, reg, NMM_CFI_OTHER, 0);
            break;
        case 0x0a:                                                                           /* remember_state */
            if (m->depth == NMM_CFI_REMEMBERED)
                return false;
            m->remembered[m->depth++] = *row;
            break;
        case 0x0b:                                                                           /* restore_state */
            if (m->depth == 0)
                return false;
            *row = m->remembered[--m->depth];
            break;
        case 0x0c:                                                                           /* def_cfa */
            reg = nmm_read_uleb(r);
            define_cfa(row, reg, (int64_t)nmm_read_uleb(r));
            break;
        case 0x0d: define_cfa(row, nmm_read_uleb(r), row->cfa_offset); break;                /* def_cfa_register */
        case 0x0e: row->cfa_offset = (int64_t)nmm_read_uleb(r); break;                       /* def_cfa_offset */
        case 0x0f: {                                                                         /* def_cfa_expression */
            struct nmm_reader block = read_block(r);
            define_cfa(row, NMM_CFI_RBP, 0);
            row->cfa_deref = is_fp_offset(block, true, &row->cfa_offset);
            row->cfa_other = !row->cfa_deref;
            break;
        }
        case 0x10: {                                                                         /* expression */
            reg = nmm_read_uleb(r);
            struct nmm_reader block = read_block(r);
            bool known = is_fp_offset(block, false, &offset);
            set(row, reg, known ? NMM_CFI_FP_OFFSET : NMM_CFI_OTHER, known ? offset : 0);
            break;
        }
        case 0x11:                                                                           /* offset_extended_sf */
            reg = nmm_read_uleb(r);
            set(row, reg, NMM_CFI_OFFSET, nmm_read_sleb(r) * m->data_align);
            break;
        case 0x12:                                                                           /* def_cfa_sf */
            reg = nmm_read_uleb(r);
            define_cfa(row, reg, nmm_read_sleb(r) * m->data_align);
            break;
        case 0x13: row->cfa_offset = nmm_read_sleb(r) * m->data_align; break;                /* def_cfa_offset_sf */
        case 0x14:                                                                           /* val_offset */
        case 0x15:                                                                           /* val_offset_sf */
            reg = nmm_read_uleb(r);
            nmm_read_uleb(r);
            set(row, reg, NMM_CFI_OTHER, 0);
            break;
        case 0x16:                                                                           /* val_expression */
            reg = nmm_read_uleb(r);
            read_block(r);
            set(row, reg, NMM_CFI_OTHER, 0);
            break;
        case 0x2e: nmm_read_uleb(r); break;                                                  /* GNU_args_size */
        case 0x2f:                                                                           /* GNU_negative_offset_extended */
            reg = nmm_read_uleb(r);
            set(row, reg, NMM_CFI_OFFSET, -(int64_t)nmm_read_uleb(r) * m->data_align);
            break;
        default: return false;
        }
    }
    return !r->bad;
}

static bool in_words(int64_t bytes, unsigned bits) { return bytes >= 0 && bytes % 8 == 0 && bytes / 8 < 1 << bits; }

struct nmm_rule nmm_cfi_pack(const struct nmm_cfi_row *row)
{
    const struct nmm_rule fail = {.kind = NMM_RULE_FAIL};
    struct nmm_rule rule = {0};
    if (row->ra.place == NMM_CFI_UNDEFINED)
        return (struct nmm_rule){.kind = NMM_RULE_END};
    if (row->ra.place != NMM_CFI_OFFSET || row->ra.offset != -8 || row->cfa_other)
        return fail;

    int64_t cfa = row->cfa_deref ? -row->cfa_offset : row->cfa_offset;
    if (!in_words(cfa, 15))
        return fail;
    rule.cfa = (uint32_t)(cfa / 8) & 0x7fff;
    if (row->cfa_deref)
        rule.kind = NMM_RULE_DEREF;
    else if (row->cfa_register == NMM_CFI_RSP)
        rule.kind = NMM_RULE_SP;
    else if (row->cfa_register == NMM_CFI_RBP)
        rule.kind = NMM_RULE_FP;
    else
        return fail;

    switch (row->fp.place) {
    case NMM_CFI_SAME:
    case NMM_CFI_UNDEFINED: rule.saved_fp = NMM_FP_KEPT; return rule;
    case NMM_CFI_OFFSET: rule.saved_fp = NMM_FP_BELOW_CFA; break;
    case NMM_CFI_FP_OFFSET: rule.saved_fp = NMM_FP_AT_FP; break;
    default: return fail;
    }
    int64_t fp = row->fp.place == NMM_CFI_OFFSET ? -row->fp.offset : row->fp.offset;
    if (!in_words(fp, 12))
        return fail;
    rule.fp = (uint32_t)(fp / 8) & 0xfff;
    return rule;
}

#endif
