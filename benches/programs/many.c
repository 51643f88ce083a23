/* Many allocations, many of them live at once: many ALLOCATIONS LIVE. Says what memory it and its parent then take.
 *
 * Prints `own N`, `shared N`, `parent N` in bytes: its resident memory without shared memory, its resident shared memory
 * (the rings of a recorder), the same of its parent (the recorder, if there is one) without shared memory.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long resident(const char *file, const char *what)
{
    FILE *status = fopen(file, "r");
    char line[256], name[32];
    long kib, found = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "%31[^:]: %ld", name, &kib) == 2)
            for (const char *c = what, *n = name; *c == *n; c++, n++)
                if (*c == 0)
                    found = kib;
    if (status)
        fclose(status);
    return found * 1024;
}

int main(int argc, char **argv)
{
    long count = argc == 3 ? atol(argv[1]) : 0, live = argc == 3 ? atol(argv[2]) : 0;
    if (count < 1 || live < 1) {
        fputs("usage: many ALLOCATIONS LIVE\n", stderr);
        return 2;
    }
    char **blocks = calloc((size_t)live, sizeof *blocks);
    if (!blocks)
        return 1;
    for (long i = 0; i < count; i++) {
        /* In no order of addresses: as objects of a program come and go. */
        char **slot = &blocks[i < live ? i : (long)((uint64_t)i * 0x9e3779b97f4a7c15u % (uint64_t)live)];
        free(*slot);
        *slot = malloc((size_t)(16 + i % 5 * 16));
        if (!*slot)
            return 1;
        **slot = 1;
    }
    sleep(3); /* the recorder applies what it has read */
    char parent[64];
    snprintf(parent, sizeof parent, "/proc/%d/status", getppid());
    const char *self = "/proc/self/status";
    printf("own %ld\n", resident(self, "RssAnon") + resident(self, "RssFile"));
    printf("shared %ld\n", resident(self, "RssShmem"));
    printf("parent %ld\n", resident(parent, "RssAnon") + resident(parent, "RssFile"));
    return 0;
}
