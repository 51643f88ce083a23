/* Counts every data access of a program that QEMU's user mode runs.
 *
 *   translation: which instructions are counted, and how (code.h)
 *   each access: accesses.c, nmx_count (count.h)
 *   what ends the meaning of addresses: notes of the library, system calls --> counters are sent (rows.h) before it happens
 *
 * The program's addresses are QEMU's own (its guest_base is 0), its threads and processes are QEMU's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../wire/include/numamma_note.h"
#include "../count/blocks.h"
#include "../count/count.h"
#include "accesses.h"
#include "code.h"
#include "touched.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

static bool addresses_checked;

static void fail(const char *why)
{
    fprintf(stderr, "numamma: --sampler exact: %s\n", why);
    _exit(125);
}

/* ---- What the counters ask for */

void nmx_no_memory(void) { fail("out of memory for the counters of accesses"); }

void nmx_thread_begins(struct nmx_thread *self) { (void)self; }

void nmx_page_seen(struct nmx_writer *writer, uint64_t address, uint64_t ip, bool write)
{
    if (!nmx_touch(address, write))
        return;
    const uint64_t payload[] = {address, ip};
    nmx_emit(writer, NMM_TOUCH, write ? 2 : 1, payload, 2, NULL, 0);
}

/* QEMU interrupts nothing here. */
uint64_t nmc_guard(void) { return 0; }

void nmc_unguard(uint64_t before) { (void)before; }

/* ---- What the library tells */

static void on_note(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *ip)
{
    (void)vcpu;
    (void)info;
    (void)ip;
    struct nmm_note note;
    memcpy(&note, (const void *)address, sizeof note);
    if (note.mark != NMM_NOTE_MARK)
        return;
    const uint64_t end = note.address + note.length;
    nmx_cut(note.address, end, note.what == NMM_NOTE_BLOCK);
    if (note.what != NMM_NOTE_END)
        nmx_block_begins((struct nmx_range){note.address, end}, note.what == NMM_NOTE_MAPPING);
}

/* ---- What QEMU cannot do */

static void on_unsupported(unsigned vcpu, void *ip)
{
    (void)vcpu;
    const uint64_t payload[] = {(uint64_t)ip};
    nmx_emit(nmx_writer(), NMM_UNSUPPORTED, 0, payload, 1, NULL, 0);
}

/* One bit for each system call that was told of. */
static uint64_t lacking[16];

static void on_result(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    (void)id;
    (void)vcpu;
    if (result != -38 /* ENOSYS */ || number < 0 || number >= 1024)
        return;
    const uint64_t bit = 1ull << number % 64;
    if (__atomic_fetch_or(&lacking[number / 64], bit, __ATOMIC_RELAXED) & bit)
        return;
    const uint64_t payload[] = {(uint64_t)number};
    nmx_emit(nmx_writer(), NMM_UNSUPPORTED, 1, payload, 1, NULL, 0);
}

/* ---- Translation */

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    const struct nmx_callbacks *callbacks = nmc_is_on() ? &nmx_modelled : &nmx_counted;
    const size_t count = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t address = qemu_plugin_insn_vaddr(insn);
        const uint8_t *bytes = qemu_plugin_insn_data(insn);
        const size_t size = qemu_plugin_insn_size(insn);
        void *ip = (void *)address;
        if (nmx_is_library(address)) {
            if (nmx_is_note(bytes, size))
                qemu_plugin_register_vcpu_mem_cb(insn, on_note, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, ip);
            continue;
        }
        if (nmx_is_string_move(bytes, size)) {
            qemu_plugin_register_vcpu_mem_cb(insn, callbacks->round, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, ip);
            continue;
        }
        if (i == 0 && nmx_may_follow_string_move((const uint8_t *)address))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, nmx_string_ends, QEMU_PLUGIN_CB_NO_REGS, NULL);
        if (nmx_is_evex(bytes, size))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_unsupported, QEMU_PLUGIN_CB_NO_REGS, ip);
        const bool pieces = nmx_comes_in_pieces(bytes, size);
        if (pieces)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, nmx_pieces_begin, QEMU_PLUGIN_CB_NO_REGS, ip);
        qemu_plugin_register_vcpu_mem_cb(
            insn, pieces ? callbacks->piece : callbacks->access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, ip);
    }
    if (unlikely(!addresses_checked) && count > 0) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);
        if ((uint64_t)qemu_plugin_insn_haddr(insn) != qemu_plugin_insn_vaddr(insn))
            fail("QEMU has moved the program's addresses (guest_base is not 0): unset QEMU_GUEST_BASE and QEMU_RESERVED_VA");
        addresses_checked = true;
    }
}

/* ---- System calls */

static uint64_t program_break;

static void gone(uint64_t low, uint64_t length)
{
    nmx_cut(low, low + length, false);
    nmx_untouch(low, low + length);
}

static void everything_is_sent(void)
{
    nmx_take_all();
    nmx_emit(nmx_writer(), NMM_COUNTED, 0, NULL, 0, NULL, 0);
}

static bool may_kill(uint64_t signal)
{
    return signal == SIGABRT || signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

static void on_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
    uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)a5, (void)a6, (void)a7, (void)a8;
    switch (number) {
    case SYS_munmap:
        gone(a1, a2);
        break;
    case SYS_mremap:
        gone(a1, a2);
        break;
    case SYS_mmap:
        if (a4 & MAP_FIXED)
            gone(a1, a2);
        break;
    case SYS_madvise:
        if (a3 == MADV_DONTNEED || a3 == MADV_FREE || a3 == MADV_REMOVE) {
            nmx_take(a1, a1 + a2, true);
            nmx_untouch(a1, a1 + a2);
        }
        /* QEMU says yes and does nothing. The library needs it, to know that it is in the child of a fork. */
        if (a3 == MADV_WIPEONFORK)
            madvise((void *)a1, a2, MADV_WIPEONFORK);
        break;
    case SYS_brk:
        if (a1 != 0 && a1 < program_break)
            gone(a1, program_break - a1);
        program_break = a1 != 0 ? a1 : program_break;
        break;
    case SYS_exit:
        nmx_end_thread();
        break;
    case SYS_kill:
        if (may_kill(a2))
            everything_is_sent();
        break;
    case SYS_tgkill:
        if (may_kill(a3))
            everything_is_sent();
        break;
    case SYS_exit_group:
    case SYS_execve:
    case SYS_execveat:
        everything_is_sent();
        break;
    }
}

static void on_exit_of_all(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    everything_is_sent();
}

/* ---- Beginning */

static void say_counting(const char *path)
{
    uint64_t words[512] = {0};
    size_t count = 0;
    if (path) {
        const size_t length = strnlen(path, sizeof words - 8);
        memcpy(words, path, length);
        count = length / 8 + 1;
    }
    nmx_emit(nmx_writer(), NMM_COUNTING, path == NULL, words, count, NULL, 0);
}

static void child_of_fork(void)
{
    nmx_reborn();
    nmx_code_reborn();
    say_counting(NULL);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *segment = NULL, *program = NULL;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "segment=", 8) == 0)
            segment = argv[i] + 8;
        if (strncmp(argv[i], "program=", 8) == 0)
            program = argv[i] + 8;
    }
    if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
        fail("this QEMU is not qemu-x86_64 of Debian's package qemu-user");
    if (segment == NULL || program == NULL || !nmx_join(segment, true))
        fail("the recorder's memory cannot be mapped");
    nmx_learn_info();
    say_counting(program);
    pthread_atfork(NULL, NULL, child_of_fork);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_result);
    qemu_plugin_register_atexit_cb(id, on_exit_of_all, NULL);
    return 0;
}
