/* The library's own ring code, compiled so that a model checker sees each access to the words that it shares with the recorder:
 * tests/model.rs. Everything else is the code as it is: emit/ring.h, emit/ring.c, emit/attach.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "../../../wire/include/numamma_wire.h"
#include "../../base/common.h"
#include "../../base/sys.h"

enum { RINGS = 2, THREADS = 3, MOST_BYTES = 4096 };

/* What the checker provides. */
struct checker {
    uint64_t (*load)(const void *word, int order);
    void (*store)(void *word, uint64_t value, int order);
    uint64_t (*add)(void *word, uint64_t value, int order);
    uint64_t (*exchange)(void *word, uint64_t value, int order);
    uint64_t (*swap)(void *word, uint64_t expected, uint64_t desired, int order); /* the value before */
    void (*published)(unsigned ring, uint64_t begin, uint64_t end);               /* about to be: these bytes were written */
    long (*system)(long number);
};
static struct checker checker;

/* What the recorder and the program share. */
static struct {
    struct nmm_segment segment;
    struct nmm_ring rings[RINGS];
} shared;
static uint64_t data[RINGS][(NMM_RING_EXTRA + MOST_BYTES) / 8];

static bool is_shared(const volatile void *word)
{
    return (uintptr_t)word - (uintptr_t)&shared < sizeof shared;
}

static void store_shared(void *word, uint64_t value, int order)
{
    for (unsigned i = 0; i < RINGS; i++)
        if (word == &shared.rings[i].head)
            checker.published(i, checker.load(word, __ATOMIC_RELAXED), value);
    checker.store(word, value, order);
}

#define TYPE(p) __typeof__(*(p))
#define PLAIN(p) (*(volatile TYPE(p) *)(p))
#define __atomic_load_n(p, order) (is_shared(p) ? (TYPE(p))checker.load((p), (order)) : PLAIN(p))
#define __atomic_store_n(p, value, order) \
    do { \
        if (is_shared(p)) \
            store_shared((void *)(p), (uint64_t)(value), (order)); \
        else \
            PLAIN(p) = (value); \
    } while (0)
#define __atomic_fetch_add(p, value, order) \
    (is_shared(p) ? (TYPE(p))checker.add((p), (value), (order)) : ((PLAIN(p) += (value)) - (value)))
#define __atomic_exchange_n(p, value, order) \
    __extension__({ \
        TYPE(p) before_ = is_shared(p) ? (TYPE(p))checker.exchange((p), (value), (order)) : PLAIN(p); \
        if (!is_shared(p)) \
            PLAIN(p) = (value); \
        before_; \
    })
#define __atomic_compare_exchange_n(p, expected, desired, weak, order, failure) \
    __extension__({ \
        TYPE(p) wanted_ = *(expected), before_; \
        before_ = is_shared(p) ? (TYPE(p))checker.swap((p), wanted_, (desired), (order)) : PLAIN(p); \
        if (!is_shared(p) && before_ == wanted_) \
            PLAIN(p) = (desired); \
        *(expected) = before_; \
        before_ == wanted_; \
    })
#define nmm_syscall(number, a, b, c, d, e, f) \
    ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f), checker.system(number))

static uint64_t clock_now;
static int model_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    clock_now += 400000000;
    *now = (struct timespec){(time_t)(clock_now / 1000000000), (long)(clock_now % 1000000000)};
    return 0;
}

/* A writer waits for two turns. */
#define FIRST_STEP 500000000

#include "../../emit/ring.c"
#include "../../emit/attach.c"

void nmm_main_thread_started(struct nmm_thread *self) { (void)self; }
bool nmm_ids_are_shared(void) { return false; }
/* Nobody counts accesses here. */
void nmm_tell(uint32_t what, uintptr_t address, size_t length) { (void)what, (void)address, (void)length; }
char *nmm_map_ring(uint32_t index) { return (char *)data[index]; }

static struct nmm_thread threads[THREADS];
static uint32_t alive;

/* A new segment, and threads that have claimed nothing. */
void model_reset(const struct checker *with, unsigned ring_bytes, unsigned ring_count)
{
    checker = *with;
    memset(&shared, 0, sizeof shared);
    memset(data, 0, sizeof data);
    memset(threads, 0, sizeof threads);
    clock_now = 0;
    nmm_vdso_clock = model_clock;
    alive = NMM_ALIVE;
    nmm_process = (struct nmm_process){.segment = &shared.segment,
        .rings = shared.rings,
        .ring_bytes = ring_bytes,
        .ring_count = ring_count,
        .alive = &alive,
        .announced = 1};
    /* All words are there before the threads are. */
    const struct nmm_segment *s = &shared.segment;
    (void)(nmm_load(&s->sleeping) + nmm_load(&s->doorbell) + nmm_load(&s->next_ring) + nmm_load(&s->rings_used)
        + nmm_load(&s->closed) + nmm_load(&s->lost_no_ring) + nmm_load(&s->no_ring));
    for (unsigned i = 0; i < RINGS; i++) {
        const struct nmm_ring *r = &shared.rings[i];
        (void)(nmm_load(&r->state) + nmm_load(&r->pid) + nmm_load(&r->tid) + nmm_load(&r->head) + nmm_load(&r->tail)
            + nmm_load(&r->lost_full) + nmm_load(&r->lost_frees) + nmm_load(&r->waits));
    }
}

struct nmm_segment *model_segment(void) { return &shared.segment; }
struct nmm_ring *model_ring(unsigned ring) { return &shared.rings[ring]; }
uint64_t model_word(unsigned ring, uint64_t position)
{
    return data[ring][NMM_RING_EXTRA / 8 + (position / 8 & (nmm_process.ring_bytes / 8 - 1))];
}

/* Which ring a thread has claimed; -1 if all are taken. */
int model_claim(unsigned thread)
{
    return claim_free_ring(&threads[thread]) == CLAIMED ? (int)(threads[thread].ring - shared.rings) : -1;
}

bool model_emit(unsigned thread, uint64_t value)
{
    return nmm_emit(&threads[thread], (struct nmm_tag){NMM_UNFREE, 0, 0}, &value, 1);
}
