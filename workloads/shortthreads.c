/* 2000 short threads, two at a time; thread t (in creation order, from 1) touches page t - 1 and no other. Each refuses
 * cancellation, as the threads of some runtimes do. */
#include "workload.h"

#include <pthread.h>

enum { THREADS = 2000, PAGE = 4096 / sizeof(double) };

static _Alignas(4096) double field[THREADS * PAGE];
static double seconds_each;

static void *use(void *page)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (int i = 0; i < PAGE; i++)
        ((double *)page)[i] = 2; /* touch: field */
    sweep_for(page, PAGE, seconds_each);
    return NULL;
}

int main(int argc, char **argv)
{
    seconds_each = 2 * seconds_of(argc, argv) / THREADS; /* two at a time */
    for (int t = 0; t < THREADS; t += 2) {
        pthread_t pair[2];
        for (int i = 0; i < 2; i++)
            require(pthread_create(&pair[i], NULL, use, field + (t + i) * PAGE) == 0, "pthread_create");
        for (int i = 0; i < 2; i++)
            pthread_join(pair[i], NULL);
    }
    for (long i = 0; i < THREADS * PAGE; i++)
        require(field[i] == 2.0, "2 is a fixed point");
    puts("shortthreads ok");
    return 0;
}
