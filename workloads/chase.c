/* Pointer chase: one ring of 64-byte nodes in random order, walked by every thread from its own start. */
#include "workload.h"

enum { NODES = 1 << 19, THREADS = 2 }; /* 32 MiB */

struct node {
    struct node *next;
    char rest[56];
};

static struct node *walk(struct node *p, long steps)
{
    for (; steps > 0; steps--)
        p = p->next;
    return p;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    struct node *ring = aligned_alloc(4096, NODES * sizeof *ring); /* site: ring */

    /* i -> a i + c with a = 1 mod 4 and c odd passes through all residues of a power of two before it comes back. */
#pragma omp parallel for schedule(static)
    for (long i = 0; i < NODES; i++)
        ring[i].next = ring + ((1103515245ul * (unsigned long)i + 12345ul) & (NODES - 1)); /* touch: ring */
    for (double end = cpu_now() + seconds; cpu_now() < end;) {
#pragma omp parallel for schedule(static)
        for (int t = 0; t < THREADS; t++)
            require(walk(ring + t * (NODES / THREADS), NODES) == ring + t * (NODES / THREADS), "once round the ring");
    }
    say_cpu_times();
    puts("chase ok");
    free(ring);
    return 0;
}
