/* The library's ring code with real threads, for the compilers' checkers: tests/races.rs. Writers claim rings one after another
 * and are interrupted by a timer whose handler writes too; a reader drains, and gives back the rings of those that are gone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../emit/ring.c"
#include "../../emit/attach.c"

enum { RINGS = 4, WRITERS = 3, LIVES = 40, EVENTS = 2000, RING_BYTES = 4096 };

static struct nmm_segment segment;
static struct nmm_ring rings[RINGS];
static uint64_t data[RINGS][(NMM_RING_EXTRA + RING_BYTES) / 8];
static uint32_t alive = NMM_ALIVE;
static uint32_t gone[RINGS]; /* the kernel's part: the ring's thread has ended */
static uint32_t writers_done;
static uint64_t emitted, read_in_all, lost;

void nmm_main_thread_started(struct nmm_thread *self) { (void)self; }
bool nmm_ids_are_shared(void) { return false; }
/* Nobody counts accesses here. */
void nmm_tell(uint32_t what, uintptr_t address, size_t length) { (void)what, (void)address, (void)length; }
char *nmm_map_ring(uint32_t index) { return (char *)data[index]; }

static void emit(struct nmm_thread *self, uint64_t value)
{
    __atomic_fetch_add(&emitted, 1, __ATOMIC_RELAXED);
    nmm_emit(self, (struct nmm_tag){NMM_FREE, NMM_MALLOC, 0}, &value, 1);
}

static void handler(int number)
{
    (void)number;
    if (nmm_self.ring)
        emit(&nmm_self, 7);
}

static void *live(void *unused)
{
    (void)unused;
    while (claim_free_ring(&nmm_self) != CLAIMED)
        usleep(50);
    struct nmm_ring *ring = nmm_self.ring;
    for (uint64_t i = 0; i < EVENTS; i++)
        emit(&nmm_self, 7);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    nmm_store_release(&gone[ring - rings], 1);
    return NULL;
}

/* Threads of one life after another: each has a state of its own, as threads of a program have. */
static void *lives(void *unused)
{
    for (int i = 0; i < LIVES; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, NULL))
            abort();
        pthread_join(thread, NULL);
    }
    __atomic_fetch_add(&writers_done, 1, __ATOMIC_RELEASE);
    return unused;
}

static void drain(unsigned index)
{
    struct nmm_ring *ring = &rings[index];
    uint64_t tail = nmm_load(&ring->tail), head = nmm_load_acquire(&ring->head);
    while (tail != head) {
        uint64_t event[3];
        for (int i = 0; i < 3; i++)
            event[i] = data[index][NMM_RING_EXTRA / 8 + (tail / 8 + (uint64_t)i) % (RING_BYTES / 8)];
        if ((event[0] >> 32 & 0xffff) != 3 || event[2] != 7) {
            fprintf(stderr, "no event at %lu of ring %u\n", (unsigned long)tail, index);
            exit(1);
        }
        read_in_all++;
        tail += 24;
    }
    nmm_store_release(&ring->tail, head);
}

static void come_round(void)
{
    for (unsigned i = 0; i < RINGS; i++) {
        if (__atomic_load_n(&rings[i].state, __ATOMIC_ACQUIRE) == NMM_RING_FREE)
            continue;
        const bool ended = nmm_load_acquire(&gone[i]);
        drain(i);
        if (!ended)
            continue;
        lost += nmm_load(&rings[i].lost_full);
        nmm_store(&rings[i].head, 0);
        nmm_store(&rings[i].tail, 0);
        nmm_store(&rings[i].lost_full, 0);
        nmm_store(&rings[i].lost_frees, 0);
        nmm_store(&gone[i], 0);
        nmm_store_release(&rings[i].state, NMM_RING_FREE);
    }
}

int main(void)
{
    nmm_process = (struct nmm_process){.segment = &segment, .rings = rings, .ring_bytes = RING_BYTES, .ring_count = RINGS,
        .alive = &alive, .announced = 1};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    pthread_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if (pthread_create(&writers[i], NULL, lives, NULL))
            return 2;
    /* Signals go to the writers. */
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec period = {{0, 300000}, {0, 300000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &period, NULL))
        return 3;
    while (__atomic_load_n(&writers_done, __ATOMIC_ACQUIRE) < WRITERS)
        come_round();
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    come_round();
    printf("emitted %lu\nread %lu\nlost %lu\n", (unsigned long)emitted, (unsigned long)read_in_all, (unsigned long)lost);
    return emitted == read_in_all + lost ? 0 : 4;
}
