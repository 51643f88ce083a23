/* The machine that runs call frame instructions, reduced to the registers that matter: CFA, frame pointer, return address. */
#ifndef NMM_CFI_H
#define NMM_CFI_H

#include "reader.h"
#include "rule.h"

/* DWARF's numbers of x86-64 registers. */
#define NMM_CFI_RBP 6
#define NMM_CFI_RSP 7
#define NMM_CFI_RA 16

enum nmm_cfi_place {
    NMM_CFI_SAME = 0,       /* also: undefined, for a register that nobody restores */
    NMM_CFI_UNDEFINED,
    NMM_CFI_OFFSET,         /* saved at CFA + offset */
    NMM_CFI_FP_OFFSET,      /* saved at rbp + offset (DW_CFA_expression breg6) */
    NMM_CFI_OTHER,
};

/* Compact, for the machine lies on the program's stack. */
struct nmm_cfi_saved {
    uint64_t place : 8;     /* enum nmm_cfi_place */
    int64_t offset : 56;
};

struct nmm_cfi_row {
    int64_t cfa_offset;
    uint32_t cfa_register;
    bool cfa_deref;         /* CFA = *(rbp + offset) */
    bool cfa_other;         /* an expression beyond us */
    struct nmm_cfi_saved fp, ra;
};

#define NMM_CFI_REMEMBERED 4 /* compilers nest one deep */

struct nmm_cfi_machine {
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer_encoding;
    unsigned depth;
    struct nmm_cfi_row row, initial, remembered[NMM_CFI_REMEMBERED];
};

/* Runs instructions until the row that holds at `pc` is complete. False if it meets something it does not know. */
bool nmm_cfi_run(struct nmm_cfi_machine *machine, struct nmm_reader *program, uintptr_t begin, uintptr_t pc);

struct nmm_rule nmm_cfi_pack(const struct nmm_cfi_row *row);

#endif
