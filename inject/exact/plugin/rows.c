#define _GNU_SOURCE
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static struct nmm_segment *segment;
static struct nmm_ring *rings;
static char *base;
/* Own copies: the program may write to what is shared. */
static uint64_t rings_offset, ring_bytes;
static uint32_t ring_count;

bool nmx_join(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    if (fd < 0)
        return false;
    const bool found = fstat(fd, &stat) == 0 && stat.st_size >= NMM_PAGE;
    void *memory = found
        ? mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
        : MAP_FAILED;
    close(fd);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, (size_t)stat.st_size, MADV_DONTDUMP);
    segment = memory;
    if (segment->magic != NMM_MAGIC || segment->version != NMM_WIRE_VERSION)
        return false;
    base = memory;
    rings = (struct nmm_ring *)(base + segment->header_bytes);
    rings_offset = segment->rings_offset;
    ring_bytes = segment->ring_bytes;
    ring_count = segment->ring_count;
    return true;
}

static uint64_t now(void)
{
    if (segment->clock == NMM_CLOCK_TSC) {
        /* Not before what was counted. */
        _mm_lfence();
        return __rdtsc();
    }
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool is_closed(void) { return __atomic_load_n(&segment->closed, __ATOMIC_RELAXED) != 0; }

static void pause_for(long nanoseconds)
{
    const struct timespec pause = {.tv_nsec = nanoseconds};
    nanosleep(&pause, NULL);
}

/* The recorder may have been killed: then it cannot close the segment. */
static bool recorder_is_gone(void)
{
    if (kill(segment->recorder_pid, 0) == 0 || errno != ESRCH)
        return false;
    __atomic_store_n(&segment->closed, 1, __ATOMIC_SEQ_CST);
    return true;
}

static bool claim(struct nmx_writer *writer, uint32_t index)
{
    struct nmm_ring *ring = &rings[index];
    if (__atomic_load_n(&ring->state, __ATOMIC_RELAXED) != NMM_RING_FREE)
        return false;
    for (uint32_t used = __atomic_load_n(&segment->rings_used, __ATOMIC_RELAXED); used <= index;)
        if (__atomic_compare_exchange_n(&segment->rings_used, &used, index + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            break;
    uint32_t expected = NMM_RING_FREE;
    if (!__atomic_compare_exchange_n(&ring->state, &expected, NMM_RING_OWNED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&segment->next_ring, index + 1, __ATOMIC_RELAXED);
    writer->words = (uint64_t *)(base + rings_offset + index * (NMM_RING_EXTRA + ring_bytes) + NMM_RING_EXTRA);
    writer->position = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    writer->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    __atomic_store_n(&ring->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
    __atomic_store_n(&ring->pid, getpid(), __ATOMIC_RELEASE);
    writer->ring = ring;
    return true;
}

void nmx_attach(struct nmx_writer *writer)
{
    *writer = (struct nmx_writer){0};
    /* Rings of threads that have ended are released when the recorder comes round to it. */
    for (int tries = 0; tries < 1000 && !is_closed(); tries++) {
        const uint32_t first = __atomic_load_n(&segment->next_ring, __ATOMIC_RELAXED);
        for (uint32_t i = 0; i < ring_count; i++)
            if (claim(writer, (first + i) % ring_count))
                return;
        pause_for(1000000);
    }
    __atomic_fetch_add(&segment->lost_no_ring, 1, __ATOMIC_RELAXED);
}

static bool has_room(struct nmx_writer *writer, uint64_t end)
{
    writer->tail_seen = __atomic_load_n(&writer->ring->tail, __ATOMIC_ACQUIRE);
    return end - writer->tail_seen <= ring_bytes;
}

static bool make_room(struct nmx_writer *writer, uint64_t end)
{
    if (has_room(writer, end))
        return true;
    __atomic_fetch_add(&writer->ring->waits, 1, __ATOMIC_RELAXED);
    for (unsigned turns = 1; !has_room(writer, end); turns++) {
        if (is_closed() || (turns % 256 == 0 && recorder_is_gone()))
            return false;
        pause_for(200000);
    }
    return true;
}

void nmx_emit(struct nmx_writer *writer, uint16_t type, uint16_t aux, const uint64_t *payload, size_t count, const uint64_t *more,
    size_t more_count)
{
    if (writer->ring == NULL || is_closed())
        return;
    const uint64_t words = 2 + count + more_count, end = writer->position + words * 8;
    if (end - writer->tail_seen > ring_bytes && !make_room(writer, end))
        return;
    uint64_t at = writer->position / 8;
    const uint64_t mask = ring_bytes / 8 - 1;
    writer->words[at++ & mask] = aux | (uint64_t)type << 16 | words << 32;
    writer->words[at++ & mask] = now();
    for (size_t i = 0; i < count; i++)
        writer->words[at++ & mask] = payload[i];
    for (size_t i = 0; i < more_count; i++)
        writer->words[at++ & mask] = more[i];
    writer->position = end;
    __atomic_store_n(&writer->ring->head, end, __ATOMIC_RELEASE);
}
