/* Thread-local and stack memory: the main thread uses its stack for one unit of time; a second thread uses its stack for
 * one and a thread-local array for two. glibc keeps both of the second thread's in one mapping: the trap here. */
#include "workload.h"

#include <pthread.h>

enum { TLS = 1 << 15, STACK = 1 << 16 }; /* 256 KiB, 512 KiB */

static _Thread_local double thread_table[TLS];

__attribute__((noinline)) static void use_stack(double seconds)
{
    double local_table[STACK];
    for (int i = 0; i < STACK; i++)
        local_table[i] = 2;
    sweep_for(local_table, STACK, seconds);
    require(local_table[STACK / 2] == 2.0, "2 is a fixed point");
}

static void *second(void *seconds)
{
    use_stack(*(double *)seconds);
    for (int i = 0; i < TLS; i++)
        thread_table[i] = 2;
    sweep_for(thread_table, TLS, 2 * *(double *)seconds);
    require(thread_table[TLS / 2] == 2.0, "2 is a fixed point");
    return NULL;
}

int main(int argc, char **argv)
{
    double unit = seconds_of(argc, argv) / 2;
    pthread_t thread;
    require(pthread_create(&thread, NULL, second, &unit) == 0, "pthread_create");
    use_stack(unit);
    pthread_join(thread, NULL);
    puts("tlsstack ok");
    return 0;
}
