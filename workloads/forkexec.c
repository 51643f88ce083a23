/* Processes: the parent uses its array for 4 units, a forked child the inherited copy for 1 and its own array for 2, and a
 * child that executes this program anew uses its array for 3. */
#include "workload.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 17 }; /* 1 MiB */

static void use(double *p, double seconds)
{
    for (long i = 0; i < N; i++)
        p[i] = 2;
    sweep_for(p, N, seconds);
    require(p[N / 2] == 2.0, "2 is a fixed point");
}

static void await(pid_t child)
{
    int status = 0;
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child ends with 0");
}

int main(int argc, char **argv)
{
    double unit = seconds_of(argc, argv) / 5; /* 10 units, two processes at a time */

    if (argc > 2 && strcmp(argv[2], "executed") == 0) {
        double *executed = malloc(N * sizeof *executed); /* site: executed */
        use(executed, 3 * unit);
        free(executed);
        return 0;
    }

    double *parent = malloc(N * sizeof *parent); /* site: parent */
    use(parent, 0.5 * unit);
    pid_t forked = fork();
    if (forked == 0) {
        double *child = malloc(N * sizeof *child); /* site: child */
        use(child, 2 * unit);
        use(parent, 1 * unit); /* the copy under the same address */
        free(child);
        _exit(0);
    }
    pid_t executed = fork();
    if (executed == 0) {
        execl("/proc/self/exe", argv[0], argv[1] ? argv[1] : "1.5", "executed", (char *)NULL);
        _exit(127);
    }
    use(parent, 3.5 * unit);
    await(forked);
    await(executed);
    puts("forkexec ok");
    free(parent);
    return 0;
}
