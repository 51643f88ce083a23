#define _GNU_SOURCE
#include "emulate.h"

#include <alloca.h>
#include <fcntl.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../base/sys.h"
#include "../hooks/thread.h"
#include "attach.h"

#define LONGEST_PATH 4096
#define EMULATOR "NUMAMMA_EMULATOR="
#define PLUGIN "NUMAMMA_PLUGIN="
#define PRELOAD "LD_PRELOAD="
/* Words before the program's own arguments. */
#define WORDS 12

bool nmm_is_emulated(void)
{
#if defined(__x86_64__)
    /* What QEMU's translator calls itself where a hypervisor would. */
    unsigned most, b, c, d;
    __cpuid(0x40000000, most, b, c, d);
    return b == 0x54474354 && c == 0x43544743 && d == 0x47435447;
#else
    return false;
#endif
}

static size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* The value of the entry of the environment that begins with `name`; NULL if it does not. */
static char *value_of(char *entry, const char *name)
{
    while (*name && *entry == *name) {
        entry++;
        name++;
    }
    return *name ? NULL : entry;
}

static bool has_comma(const char *text)
{
    while (*text && *text != ',')
        text++;
    return *text != 0;
}

/* Appends; a comma is doubled if it is to be one of QEMU's option. */
static char *append(char *end, const char *text, bool doubled)
{
    for (; *text; text++) {
        *end++ = *text;
        if (doubled && *text == ',')
            *end++ = ',';
    }
    *end = 0;
    return end;
}

NMM_COLD void nmm_emulate(void)
{
    char **environment = nmm_environment();
    if (environment == NULL || nmm_libc_stack_end == NULL)
        return;
    const uintptr_t *stack = *(uintptr_t **)nmm_libc_stack_end;
    const size_t count = stack[0];
    char **arguments = (char **)(stack + 1);
    char *emulator = NULL, *plugin = NULL, *preload = NULL;
    size_t variables = 0;
    for (char **entry = environment; *entry; entry++, variables++) {
        char *value;
        if ((value = value_of(*entry, EMULATOR)) != NULL)
            emulator = value;
        else if ((value = value_of(*entry, PLUGIN)) != NULL)
            plugin = value;
        else if ((value = value_of(*entry, PRELOAD)) != NULL)
            preload = value;
    }
    if (emulator == NULL || plugin == NULL || preload == NULL || count == 0 || has_comma(preload))
        return;
    char path[LONGEST_PATH];
    const long length = nmm_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path - 1, 0, 0);
    if (length <= 0)
        return;
    path[length] = 0;

    char *option = alloca(length_of(plugin) + sizeof ",program=" + 2 * (size_t)length);
    append(append(append(option, plugin, false), ",program=", false), path, true);
    char *variable = alloca(sizeof PRELOAD + length_of(preload));
    append(append(variable, PRELOAD, false), preload, false);
    const char *first[WORDS] = {emulator, "-cpu", "max", "-E", variable, "-plugin", option, "-0", arguments[0], path};
    const size_t words = 10;
    const char **all = alloca((words + count) * sizeof *all);
    for (size_t i = 0; i < words; i++)
        all[i] = first[i];
    for (size_t i = 1; i <= count; i++) /* with the NULL at their end */
        all[words + i - 1] = arguments[i];
    /* The emulator itself must not load us. */
    const char **own = alloca((variables + 1) * sizeof *own);
    size_t kept = 0;
    for (char **entry = environment; *entry; entry++)
        if (value_of(*entry, PRELOAD) == NULL)
            own[kept++] = *entry;
    own[kept] = NULL;
    nmm_syscall(SYS_execve, (long)emulator, (long)all, (long)own, 0, 0, 0);
}
