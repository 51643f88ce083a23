/* Many small allocations from two threads, freed at once or by the other thread: the events must all arrive. Then a table
 * is used, so that there is something to sample. */
#include "workload.h"

#include <pthread.h>

enum { EACH = 300000, BATCH = 1000, N = 1 << 16 };

static void *handed_over[BATCH];
static pthread_barrier_t barrier;

static void *churn(void *unused)
{
    for (int i = 0; i < EACH; i++) {
        long *volatile own = malloc(sizeof(long) * (size_t)(1 + i % 9)); /* site: own */
        *own = i;
        free(own);
    }
    return unused;
}

static void *release(void *unused)
{
    for (int i = 0; i < EACH / BATCH; i++) {
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < BATCH; k++)
            free(handed_over[k]);
        pthread_barrier_wait(&barrier);
    }
    return churn(unused);
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    pthread_t thread;

    require(pthread_barrier_init(&barrier, NULL, 2) == 0, "barrier");
    require(pthread_create(&thread, NULL, release, NULL) == 0, "pthread_create");
    for (int i = 0; i < EACH / BATCH; i++) {
        for (int k = 0; k < BATCH; k++)
            handed_over[k] = malloc(40); /* site: handed */
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    churn(NULL);
    pthread_join(thread, NULL);

    double *table = calloc(N, sizeof *table); /* site: table */
    sweep_for(table, N, seconds);
    puts("churn ok");
    free(table);
    return 0;
}
