#define _GNU_SOURCE
#include "filter.h"

#include <fcntl.h>

#include "../base/sys.h"

/* Of a process's status in /proc: the mode, and how many filters; -1 where the kernel does not say (before 5.9). */
struct seccomp {
    long mode, filters;
};

/* The number behind `name` at the start of a line. */
static long number_behind(const char *name, const char *line, long otherwise)
{
    while (*name && *name == *line)
        name++, line++;
    if (*name)
        return otherwise;
    while (*line == '\t' || *line == ' ')
        line++;
    long number = 0;
    for (; *line >= '0' && *line <= '9'; line++)
        number = number * 10 + (*line - '0');
    return number;
}

/* By the calls that the loader makes for each library, and no others: who may not make these does not come here. */
static struct seccomp seccomp_of(const char *status)
{
    struct seccomp found = {-1, -1};
    const long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)status, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return found;
    char text[1024] = {0}, line[32];
    size_t length = 0;
    long bytes;
    while (found.filters < 0 && (bytes = nmm_syscall(SYS_read, fd, (long)text, sizeof text, 0, 0, 0)) > 0)
        for (long i = 0; i < bytes; i++) {
            if (text[i] != '\n') {
                if (length < sizeof line - 1)
                    line[length++] = text[i];
                continue;
            }
            line[length] = 0;
            length = 0;
            found.mode = number_behind("Seccomp:", line, found.mode);
            found.filters = number_behind("Seccomp_filters:", line, found.filters);
        }
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return found;
}

bool nmm_is_filtered(const char *segment)
{
    const struct seccomp own = seccomp_of("/proc/self/status");
    if (own.mode <= 0)
        return false;
    /* In many containers everybody is under a filter, the recorder too: it does not mind what we do. */
    char status[40];
    size_t length = 0;
    for (unsigned slashes = 0; length < sizeof status - sizeof "status"; length++) {
        slashes += segment[length] == '/';
        status[length] = segment[length];
        if (slashes == 3)
            break;
    }
    for (size_t i = 0; i < sizeof "status"; i++)
        status[length + 1 + i] = "status"[i];
    const struct seccomp recorder = seccomp_of(status);
    return recorder.mode != own.mode || recorder.filters != own.filters;
}
