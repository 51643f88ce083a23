/* Reading DWARF's encodings within bounds. A read past the end yields 0 and sets `bad`. */
#ifndef NMM_READER_H
#define NMM_READER_H

#include "../base/common.h"

struct nmm_reader {
    const uint8_t *at, *end;
    bool bad;
};

/* Pointer encodings of .eh_frame (DW_EH_PE_*): the low half says the size, the high half what it is relative to. */
#define NMM_PE_ABSPTR 0x00
#define NMM_PE_UDATA2 0x02
#define NMM_PE_UDATA4 0x03
#define NMM_PE_UDATA8 0x04
#define NMM_PE_SDATA2 0x0a
#define NMM_PE_SDATA4 0x0b
#define NMM_PE_SDATA8 0x0c
#define NMM_PE_PCREL 0x10
#define NMM_PE_DATAREL 0x30
#define NMM_PE_OMIT 0xff

static inline uint64_t nmm_read_bytes(struct nmm_reader *r, unsigned count)
{
    if (r->bad || (size_t)(r->end - r->at) < count) {
        r->bad = true;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)r->at[i] << 8 * i;
    r->at += count;
    return value;
}

static inline void nmm_skip(struct nmm_reader *r, uint64_t count)
{
    if (r->bad || (uint64_t)(r->end - r->at) < count)
        r->bad = true;
    else
        r->at += count;
}

static inline uint64_t nmm_read_uleb(struct nmm_reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = nmm_read_bytes(r, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t nmm_read_sleb(struct nmm_reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint64_t byte = nmm_read_bytes(r, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (shift < 64 && byte & 0x40)
                value |= -1ull << shift;
            return (int64_t)value;
        }
    }
}

/* `data` is what NMM_PE_DATAREL is relative to. */
static inline uintptr_t nmm_read_pointer(struct nmm_reader *r, uint8_t encoding, uintptr_t data)
{
    const uintptr_t here = (uintptr_t)r->at;
    uint64_t value;
    switch (encoding & 0x0f) {
    case NMM_PE_ABSPTR:
    case NMM_PE_UDATA8:
    case NMM_PE_SDATA8: value = nmm_read_bytes(r, 8); break;
    case NMM_PE_UDATA4: value = nmm_read_bytes(r, 4); break;
    case NMM_PE_SDATA4: value = (uint64_t)(int64_t)(int32_t)nmm_read_bytes(r, 4); break;
    case NMM_PE_UDATA2: value = nmm_read_bytes(r, 2); break;
    case NMM_PE_SDATA2: value = (uint64_t)(int64_t)(int16_t)nmm_read_bytes(r, 2); break;
    default: r->bad = true; return 0;
    }
    switch (encoding & 0xf0) {
    case 0: return value;
    case NMM_PE_PCREL: return here + value;
    case NMM_PE_DATAREL: return data + value;
    default: r->bad = true; return 0;
    }
}

#endif
