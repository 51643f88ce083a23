/* What the C and C++ workloads share: a clock, the time each part gets, and a loop that touches one object only.
 *
 * Truth by time: a part that touches one object and runs for a stated share of the CPU time must be found with that share
 * of the cost. It is the thread's CPU time, so that a busy machine changes the length of a run, not its truth.
 */
#ifndef NUMAMMA_WORKLOAD_H
#define NUMAMMA_WORKLOAD_H

#ifdef _OPENMP
#include <omp.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/* Built with -DWORKLOAD_PARTS=N, arrays are a Nth as large: for an emulator. The truths are those of 1. */
#ifndef WORKLOAD_PARTS
#define WORKLOAD_PARTS 1
#endif

/* The truths count 4 KiB pages: one fault of a huge page would hide the first touches of 511 others. */
__attribute__((constructor)) static void no_huge_pages(void)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* CPU time of the calling thread, seconds. Built with -DWORKLOAD_READING=S, each reading of the clock takes S seconds and nothing
 * else does: then the work is the same however fast it is done, as a comparison with an emulator needs. */
static inline double cpu_now(void)
{
#ifdef WORKLOAD_READING
    static __thread double readings;
    return readings += WORKLOAD_READING;
#else
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

/* CPU seconds that each thread shall use: the first argument of every workload. */
static inline double seconds_of(int argc, char **argv)
{
    double s = argc > 1 ? atof(argv[1]) : 1.5;
    return s > 0 ? s : 1.5;
}

/* One pass over `p`: a read and a write of each element, and no other memory. Inlined: a call would use the stack. */
__attribute__((always_inline, unused)) static inline void sweep(double *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] * 0.5 + 1.0;
}

/* Passes over `p` until the thread has used `seconds` more CPU time. */
__attribute__((noinline, unused)) static void sweep_for(double *p, size_t n, double seconds)
{
    size_t batch = n < 16384 ? 131072 / (n ? n : 1) + 1 : 4; /* the clock is a system call: ask it every 0.1 ms or so */
    for (double end = cpu_now() + seconds; cpu_now() < end;)
        for (size_t k = 0; k < batch; k++)
            sweep(p, n);
}

#ifdef _OPENMP
/* The CPU time that each thread really had, on standard error: on a busy machine equal work takes unequal time. */
__attribute__((unused)) static void say_cpu_times(void)
{
    double times[64] = {0};
    int threads = 0;
#pragma omp parallel
    {
        times[omp_get_thread_num() % 64] = cpu_now();
        if (omp_get_thread_num() == 0)
            threads = omp_get_num_threads();
    }
    fputs("cpu", stderr);
    for (int t = 0; t < threads && t < 64; t++)
        fprintf(stderr, " %.3f", times[t]);
    fputs("\n", stderr);
}
#endif

/* For results that cannot be wrong unless the program was disturbed. */
__attribute__((unused)) static void require(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "wrong result: %s\n", what);
        exit(3);
    }
}

#endif
