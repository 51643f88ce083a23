/* Runs a command and writes what it used: meter [-t PERIOD_NS] FILE COMMAND...
 *
 * One line to FILE: wall seconds, user seconds, system seconds, peak memory of the largest process in KiB, exit status.
 * With -t it also makes the kernel sample the command's threads by the clock, as the recorder does, into no ring: what
 * that costs is the timer tick alone.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* On this process and its threads to be, on every CPU, from its next exec on. */
static void sample_into_nothing(unsigned long period)
{
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
        struct perf_event_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.size = sizeof attr;
        attr.type = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_TASK_CLOCK;
        attr.sample_period = period;
        attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
        attr.disabled = 1;
        attr.inherit = 1;
        attr.enable_on_exec = 1;
        attr.exclude_kernel = 1;
        attr.exclude_hv = 1;
        if (syscall(SYS_perf_event_open, &attr, 0, (int)cpu, -1, 0ul) < 0) {
            perror("meter: perf_event_open");
            _exit(125);
        }
    }
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

int main(int argc, char **argv)
{
    unsigned long period = 0;
    if (argc > 2 && strcmp(argv[1], "-t") == 0) {
        period = strtoul(argv[2], NULL, 10);
        argv += 2;
        argc -= 2;
    }
    if (argc < 3) {
        fputs("usage: meter [-t PERIOD_NS] FILE COMMAND...\n", stderr);
        return 125;
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t child = fork();
    if (child == 0) {
        if (period > 0)
            sample_into_nothing(period);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status = 0;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) < 0) {
        perror("meter");
        return 125;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double wall = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 125;
    }
    fprintf(out, "%.6f %.6f %.6f %ld %d\n", wall, seconds(used.ru_utime), seconds(used.ru_stime), used.ru_maxrss, code);
    return fclose(out) == 0 ? code : 125;
}
