/* Runs a command in the lab, with only its accesses counted and delayed, and prints its nanoseconds to standard error. Its exit status is
 * the command's.
 *
 *   timed COMMAND
 *   timed --uncounted COMMAND    nothing of it is counted or delayed, but for what it starts by `timed`:
 *                                `timed --uncounted numamma apply ... -- timed PROGRAM` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/include/numamma_lab.h"

static void execute(char **command)
{
    execvp(command[0], command);
    perror(command[0]);
    _exit(99);
}

int main(int argc, char **argv)
{
    struct timespec begin, end;
    int status = 0;
    if (argc < 2)
        return 99;
    if (argc > 2 && strcmp(argv[1], "--uncounted") == 0) {
        NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
        execute(argv + 2);
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
    const pid_t child = fork();
    if (child == 0)
        execute(argv + 1);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 99;
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    clock_gettime(CLOCK_MONOTONIC, &end);
    fprintf(stderr, "timed %lld\n", (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
