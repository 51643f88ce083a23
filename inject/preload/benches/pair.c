/* What a malloc and free cost, 12 frames deep. Run it alone and under the library:
 *
 *     cc -O2 -fno-builtin benches/pair.c -o pair && ./pair
 *     cargo run -p numamma-preload --example record -- ./pair
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAIRS 2000000

static double best = 1e9;
static volatile int sink;

static __attribute__((noinline)) void pairs(void)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < PAIRS; i++) {
        void *p = malloc(64);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / PAIRS;
    if (ns < best)
        best = ns;
}

static __attribute__((noinline)) void down(int depth)
{
    if (depth == 0)
        pairs();
    else
        down(depth - 1);
    sink = depth;
}

int main(void)
{
    for (int i = 0; i < 7; i++)
        down(7); /* pairs, down 8 times, main, two of libc's, _start: 13 */
    printf("%.1f ns per pair\n", best);
    return 0;
}
