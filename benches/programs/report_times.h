/* What the measured programs share: the time of their work, without their start and end. */
#ifndef NUMAMMA_REPORT_TIMES_H
#define NUMAMMA_REPORT_TIMES_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double clock_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall_began, cpu_began;

static void work_begins(void)
{
    wall_began = clock_of(CLOCK_MONOTONIC);
    cpu_began = clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* Wall seconds, and CPU seconds of all threads, to standard output. */
static void work_ends(void)
{
    printf("%.6f %.6f\n", clock_of(CLOCK_MONOTONIC) - wall_began, clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_began);
}

static long count_of(int argc, char **argv, long otherwise)
{
    return argc > 1 ? atol(argv[1]) : otherwise;
}

#endif
