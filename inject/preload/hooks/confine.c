/* Programs that put themselves under restrictions which would make our system calls, or our readings of the time stamp
 * counter, fatal to them. */
#define _GNU_SOURCE
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "../base/sys.h"
#include "../place/place.h"
#include "hooks.h"

#ifndef SECCOMP_MODE_FILTER
#define SECCOMP_MODE_FILTER 2
#endif
#ifndef SECCOMP_SET_MODE_STRICT
#define SECCOMP_SET_MODE_STRICT 0
#define SECCOMP_SET_MODE_FILTER 1
#endif

/* Before the call that confines, since we could say nothing after it. Should it fail, we were careful in vain. */
static void confining(int option, unsigned long a)
{
    if (option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER)
        nmm_be_quiet();
    /* Strict mode takes the time stamp counter away, too. */
    if ((option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT) || (option == PR_SET_TSC && a == PR_TSC_SIGSEGV))
        nmm_be_mute();
}

/* Variadic in libc; both calling conventions pass these arguments the same way if they are declared. */
int nmm_hook_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    confining(option, a);
    if (nmm_real.prctl)
        return nmm_real.prctl(option, a, b, c, d);
    return (int)nmm_libc_result(nmm_syscall(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0));
}

#if defined(__x86_64__)

/* libseccomp comes by syscall(), and so may anything else, also calls that return twice or on another stack. So this hook
 * has no frame of its own: it looks at the number, and jumps on with all registers as they were. */
void *nmm_real_syscall;

__attribute__((used, visibility("hidden"))) void nmm_look_at_syscall(long number, long a, long b)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    if (nmm_process.segment == NULL && nmm_place.plan == NULL)
        return;
    if (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER)
        nmm_be_quiet();
    else if (number == SYS_seccomp && a == SECCOMP_SET_MODE_STRICT)
        nmm_be_mute();
    else if (number == SYS_prctl)
        confining((int)a, (unsigned long)b);
}

/* For the code below, where libc's function was not found (not even tried: a constructor that runs before ours). */
__attribute__((used, visibility("hidden"))) long nmm_syscall_result(long result)
{
    return nmm_libc_result(result);
}

_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "numbers in the code below");

__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    cmp $317, %rdi\n"
        "    je 2f\n"
        "    cmp $157, %rdi\n"
        "    je 2f\n"
        "1:  mov nmm_real_syscall(%rip), %rax\n"
        "    test %rax, %rax\n"
        "    je 3f\n"
        "    jmp *%rax\n"
        "2:  push %rdi\n    .cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n    .cfi_adjust_cfa_offset 8\n"
        "    push %rdx\n    .cfi_adjust_cfa_offset 8\n"
        "    push %rcx\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r8\n    .cfi_adjust_cfa_offset 8\n"
        "    push %r9\n    .cfi_adjust_cfa_offset 8\n"
        "    sub $8, %rsp\n    .cfi_adjust_cfa_offset 8\n"
        "    call nmm_look_at_syscall\n"
        "    add $8, %rsp\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r9\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r8\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rcx\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rdx\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rsi\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n    .cfi_adjust_cfa_offset -8\n"
        "    jmp 1b\n"
        "3:  mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "    mov %rax, %rdi\n"
        "    jmp nmm_syscall_result\n"
        "    .cfi_endproc\n"
        ".size syscall, . - syscall\n");

#endif
