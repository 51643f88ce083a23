/* Objects of each kind that plans place. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { BYTES = 8 << 20 };
static char grid[BYTES];
static char *block, *mapping;
__attribute__((noinline)) static char *make(size_t bytes) {
    char *made = malloc(bytes);
    made[0] = 0; // else the call would be a jump, and nothing would tell of this function
    return made;
}
static void *work(void *x) {
    long half = (long)x, sum = 0;
    cpu_set_t cpus;
    for (long i = half * BYTES / 2; i < (half + 1) * BYTES / 2; i += 64) sum += ++grid[i] + ++block[i] + ++mapping[i];
    sched_getaffinity(0, sizeof cpus, &cpus);
    return (void *)(sum * 100 + CPU_COUNT(&cpus));
}
int main(void) {
    void *sum;
    pthread_t t;
    block = make(BYTES);
    mapping = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 0, BYTES);
    long own = (long)work(0);
    pthread_create(&t, 0, work, (void *)1);
    pthread_join(t, &sum);
    printf("%ld %ld\n", own / 100, (long)sum);
    free(block);
    munmap(mapping, BYTES);
    return 3;
}
