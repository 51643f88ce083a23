#define _GNU_SOURCE
#include "accesses.h"

#include "../count/count.h"

/* Since version 7 the upper half of `info` says what the access does, and that of an atomic instruction is one of both. The
 * interface only tells whether it writes; and it takes a call to ask. */
static bool info_is_plain;

void nmx_learn_info(void)
{
    info_is_plain = !qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_R << 16) && qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_W << 16)
        && qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_RW << 16);
}

static inline unsigned kind_of(qemu_plugin_meminfo_t info)
{
    if (likely(info_is_plain))
        return info >> 16;
    return qemu_plugin_mem_is_store(info) ? QEMU_PLUGIN_MEM_W : QEMU_PLUGIN_MEM_R;
}

/* Of an atomic instruction, which does both. Who writes to a page first has not read it before: that is how first touches are told.
 * A trace has them in their order. */
static inline bool reads_first(void) { return nmx_self != NULL && nmx_self->tracing; }

/* ---- Counting. Each of these is compiled twice, with a model of caches and without: what counts alone pays nothing for it. */

#define ALWAYS static inline __attribute__((always_inline))

/* An access that begins. With a model, it is noted where: what comes in pieces counts there. */
ALWAYS void begin(uint64_t address, unsigned bytes, uint64_t ip, bool write, bool modelled)
{
    nmx_count(address, bytes, ip, write);
    struct nmx_thread *self = nmx_self;
    if (!modelled || unlikely(self == NULL))
        return;
    self->caches->began[write] = address;
    if (unlikely(nmc_reaches(self->caches, address, bytes, ip, write)))
        nmx_count_memory(self, address, ip, write);
}

/* It goes on. */
ALWAYS void go_on(struct nmx_thread *self, uint64_t address, unsigned bytes, uint64_t ip, bool write, bool modelled)
{
    if (unlikely(self->tracing))
        nmx_trace_more(self, address, bytes, ip, write);
    if (modelled && unlikely(nmc_reaches_on(self->caches, address, bytes, ip, write)))
        nmx_count_memory(self, self->caches->began[write], ip, write);
}

/* Called for reads and writes: where a callback asks for one kind alone, QEMU 7 mistakes the one for the other. */
ALWAYS void access(qemu_plugin_meminfo_t info, uint64_t address, void *ip, bool modelled)
{
    const unsigned kind = kind_of(info);
    const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
    if (unlikely(kind == QEMU_PLUGIN_MEM_RW)) {
        begin(address, bytes, (uint64_t)ip, !reads_first(), modelled);
        begin(address, bytes, (uint64_t)ip, reads_first(), modelled);
        return;
    }
    begin(address, bytes, (uint64_t)ip, kind != QEMU_PLUGIN_MEM_R, modelled);
}

void nmx_pieces_begin(unsigned vcpu, void *ip)
{
    (void)vcpu;
    (void)ip;
    if (likely(nmx_self != NULL))
        nmx_self->next_read = nmx_self->next_write = 0;
}

ALWAYS void piece_of(qemu_plugin_meminfo_t info, uint64_t address, uint64_t ip, bool write, bool modelled)
{
    /* Also where a mask leaves some out: an instruction has one operand that it reads, and one that it writes. */
    const bool goes_on = nmx_self != NULL && (write ? nmx_self->next_write : nmx_self->next_read) != 0;
    const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
    if (!goes_on)
        begin(address, bytes, ip, write, modelled);
    else
        go_on(nmx_self, address, bytes, ip, write, modelled);
    const uint64_t next = address + bytes;
    if (write)
        nmx_self->next_write = next;
    else
        nmx_self->next_read = next;
}

ALWAYS void piece(qemu_plugin_meminfo_t info, uint64_t address, void *ip, bool modelled)
{
    const unsigned kind = kind_of(info);
    if (unlikely(kind == QEMU_PLUGIN_MEM_RW)) {
        piece_of(info, address, (uint64_t)ip, !reads_first(), modelled);
        piece_of(info, address, (uint64_t)ip, reads_first(), modelled);
        return;
    }
    piece_of(info, address, (uint64_t)ip, kind != QEMU_PLUGIN_MEM_R, modelled);
}

/* A round of a repeated string instruction: rounds that follow on each other are one access for each unit. */
ALWAYS void next_round(qemu_plugin_meminfo_t info, uint64_t address, void *ip, bool modelled)
{
    const bool write = kind_of(info) != QEMU_PLUGIN_MEM_R;
    const unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
    struct nmx_thread *self = nmx_self;
    if (likely(self != NULL && address == self->string_next[write] && address < self->string_end[write])) {
        go_on(self, address, bytes, (uint64_t)ip, write, modelled);
    } else {
        begin(address, bytes, (uint64_t)ip, write, modelled);
        if ((self = nmx_self) == NULL)
            return;
        self->string_end[write] = nmx_unit_end(address);
    }
    self->string_next[write] = address + bytes;
}

void nmx_string_ends(unsigned vcpu, void *unused)
{
    (void)vcpu;
    (void)unused;
    if (likely(nmx_self != NULL))
        nmx_self->string_next[0] = nmx_self->string_next[1] = 0;
}

#define CALLBACK(name, modelled) \
    static void name##_##modelled(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *ip) \
    { \
        (void)vcpu; \
        name(info, address, ip, modelled); \
    }

CALLBACK(access, false)
CALLBACK(access, true)
CALLBACK(piece, false)
CALLBACK(piece, true)
CALLBACK(next_round, false)
CALLBACK(next_round, true)

const struct nmx_callbacks nmx_counted = {access_false, piece_false, next_round_false};
const struct nmx_callbacks nmx_modelled = {access_true, piece_true, next_round_true};
