/* Runs a command in the lab, with only its accesses counted, and prints its nanoseconds to standard error. Its exit status is the command's. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/include/numamma_lab.h"

int main(int argc, char **argv)
{
    struct timespec begin, end;
    int status = 0;
    if (argc < 2)
        return 99;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(99);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 99;
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
    clock_gettime(CLOCK_MONOTONIC, &end);
    fprintf(stderr, "timed %lld\n", (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
