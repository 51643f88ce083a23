/* The command of this run. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numamma_lab.h"

extern char **environ;

/* The strings of a file, each of which ends with a zero. */
static char **strings(const char *path)
{
    size_t size, count = 0;
    char *text = contents(path, &size);
    for (size_t i = 0; i < size; i++)
        count += text[i] == 0;
    char **list = calloc(count + 1, sizeof *list);
    if (list == NULL)
        fail(path);
    for (size_t i = 0; i < count; i++, text += strlen(text) + 1)
        list[i] = text;
    return list;
}

static void redirect(int to, const char *path, int how)
{
    const int file = open(path, how | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, to) < 0)
        fail(path);
    close(file);
}

static void become_command(char **argv, const char *folder)
{
    setsid();
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, LAB_FOLDER "/out", O_WRONLY | O_APPEND);
    redirect(STDERR_FILENO, LAB_FOLDER "/err", O_WRONLY | O_APPEND);
    if (chdir(folder) != 0 && chdir("/") != 0)
        _exit(125);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
    execvp(argv[0], argv);
    const int status = errno == ENOENT ? 127 : 126;
    dprintf(STDERR_FILENO, "lab/run: %s: %s\n", argv[0], strerror(errno));
    _exit(status);
}

int run_command(void)
{
    size_t size;
    char **argv = strings(LAB_FOLDER "/argv");
    environ = strings(LAB_FOLDER "/environ");
    const char *folder = contents(LAB_FOLDER "/cwd", &size);
    const pid_t command = fork();
    if (command < 0)
        fail("fork");
    if (command == 0)
        become_command(argv, folder);
    int status = 0;
    for (pid_t ended; (ended = wait(&status)) != command;) {
        if (ended < 0 && errno != EINTR)
            fail("wait");
    }
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    /* What it left running may still hold files of the share open. */
    kill(-1, SIGKILL);
    int rest;
    while (wait(&rest) > 0 || errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
