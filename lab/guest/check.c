/* Known accesses: if the lab finds them where they belong, the plug-in knows this QEMU's addresses. */
#define _GNU_SOURCE
#include "guest.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numamma_lab.h"

#define WRITES 1000
#define NODES 64
#define BIND 2 /* MPOL_BIND */

static volatile char *pages[NODES];

static void make_pages(void)
{
    for (unsigned node = 0; node < NODES; node++) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u", node);
        if (access(path, F_OK) != 0)
            continue;
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const uint64_t mask = 1ull << node;
        if (page == MAP_FAILED || syscall(SYS_mbind, page, 4096, BIND, &mask, NODES + 1, 0) != 0)
            fail(path);
        *page = 1;
        pages[node] = page;
    }
}

void access_all_nodes(void)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        fail("sched_getaffinity");
    make_pages();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!CPU_ISSET(cpu, &all) || sched_setaffinity(0, sizeof one, &one) != 0)
            continue;
        for (unsigned node = 0; node < NODES; node++) {
            volatile char *page = pages[node];
            if (page == NULL)
                continue;
            NUMAMMA_LAB_MARK(NUMAMMA_LAB_START);
            for (int i = 0; i < WRITES; i++)
                *page = 1;
            NUMAMMA_LAB_MARK(NUMAMMA_LAB_STOP);
        }
    }
    sched_setaffinity(0, sizeof all, &all);
    NUMAMMA_LAB_MARK(NUMAMMA_LAB_RESET);
}
