/* Counts the accesses of the guest's programs, by CPU and node, and makes those to other nodes take longer.
 *
 *   translation: code of programs is instrumented, code of the kernel is not; marks are found
 *   each access: lab_access (count.h), if a mark has said so
 *
 * A CPU of the guest is a thread of QEMU. What is kept by CPU takes no lock. */
#include <stdio.h>
#include <string.h>

#include "code.h"
#include "count.h"
#include "numamma_lab.h"
#include "qemu.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

/* Where the pieces of the access that a CPU makes go on. */
static struct {
    uint64_t next_read, next_write;
    char unshared[48];
} pieces[LAB_CPUS] __attribute__((aligned(64)));

/* True if QEMU's number of an access tells a read and a write of one instruction apart: asked of QEMU once. */
static bool info_is_plain;

static void learn_info(void)
{
    info_is_plain = !qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_R << 16) && qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_W << 16)
        && qemu_plugin_mem_is_store(QEMU_PLUGIN_MEM_RW << 16);
}

static unsigned kind_of(qemu_plugin_meminfo_t info)
{
    if (info_is_plain)
        return info >> 16;
    return qemu_plugin_mem_is_store(info) ? QEMU_PLUGIN_MEM_W : QEMU_PLUGIN_MEM_R;
}

/* The kernel has the upper half of the addresses. */
static bool is_kernels(uint64_t address) { return address >> 47 != 0; }

static void access_of(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *ip, unsigned kind, bool goes_on)
{
    /* Where an interrupt comes in the middle of an instruction, QEMU goes on telling what is accessed by the kernel's next one. */
    if (is_kernels(address))
        return;
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
    if (place == NULL || qemu_plugin_hwaddr_is_io(place))
        return;
    lab_access(cpu,
        (struct lab_access){
            .address = qemu_plugin_hwaddr_phys_addr(place),
            .ip = (uint64_t)ip,
            .bytes = 1u << qemu_plugin_mem_size_shift(info),
            .reads = kind & QEMU_PLUGIN_MEM_R,
            .writes = kind & QEMU_PLUGIN_MEM_W,
            .goes_on = goes_on,
        });
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *ip)
{
    if (lab_counts())
        access_of(cpu, info, address, ip, kind_of(info), false);
}

/* An instruction whose accesses come in pieces is about to run. */
static void on_pieces(unsigned cpu, void *data)
{
    (void)data;
    if (cpu < LAB_CPUS)
        pieces[cpu].next_read = pieces[cpu].next_write = 0;
}

static void on_piece(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *ip)
{
    if (!lab_counts() || cpu >= LAB_CPUS)
        return;
    const unsigned all = kind_of(info);
    unsigned kind = all;
    const uint64_t next = address + (1u << qemu_plugin_mem_size_shift(info));
    if (kind & QEMU_PLUGIN_MEM_R) {
        kind &= pieces[cpu].next_read == address ? ~(unsigned)QEMU_PLUGIN_MEM_R : ~0u;
        pieces[cpu].next_read = next;
    }
    if (kind & QEMU_PLUGIN_MEM_W) {
        kind &= pieces[cpu].next_write == address ? ~(unsigned)QEMU_PLUGIN_MEM_W : ~0u;
        pieces[cpu].next_write = next;
    }
    if (kind != 0)
        access_of(cpu, info, address, ip, kind, false);
    /* What goes on counts with what it goes on from, but its line may be another one. */
    if (kind != all && lab_caches())
        access_of(cpu, info, address, ip, all & ~kind, true);
}

static void on_mark(unsigned cpu, void *mark)
{
    (void)cpu;
    lab_mark((uint32_t)(uintptr_t)mark);
}

/* The number of a mark, 0 for any other instruction. */
static uint32_t mark_of(const uint8_t *bytes, size_t size)
{
    static const uint8_t nop[] = {0x0f, 0x1f, 0x80};
    uint32_t number = 0;
    if (size != sizeof nop + sizeof number || memcmp(bytes, nop, sizeof nop) != 0)
        return 0;
    memcpy(&number, bytes + sizeof nop, sizeof number);
    return number >= NUMAMMA_LAB_START && number <= NUMAMMA_LAB_RESET ? number : 0;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    const size_t count = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t address = qemu_plugin_insn_vaddr(insn);
        if (is_kernels(address))
            continue;
        const uint8_t *bytes = qemu_plugin_insn_data(insn);
        const size_t size = qemu_plugin_insn_size(insn);
        const uint32_t mark = mark_of(bytes, size);
        if (mark != 0)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)mark);
        const bool in_pieces = nmx_comes_in_pieces(bytes, size);
        if (in_pieces)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pieces, QEMU_PLUGIN_CB_NO_REGS, NULL);
        qemu_plugin_register_vcpu_mem_cb(
            insn, in_pieces ? on_piece : on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, (void *)address);
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *table = NULL;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "table=", 6) == 0)
            table = argv[i] + 6;
    }
    if (!info->system_emulation || table == NULL || !lab_join(table, (unsigned)info->system.smp_vcpus)) {
        fprintf(stderr, "numamma-lab: the plug-in and this machine do not fit\n");
        return -1;
    }
    learn_info();
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
