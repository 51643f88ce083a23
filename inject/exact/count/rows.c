#define _GNU_SOURCE
#include "rows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <x86intrin.h>

#include "../../preload/base/sys.h"
#include "../caches/caches.h"

static struct nmm_segment *segment;
static struct nmm_ring *rings;
/* Own copies: the program may write to what is shared. */
static uint64_t rings_offset, ring_bytes;
static uint32_t ring_count;
static bool ids_shared;
static char segment_path[40];
static dev_t device;
static ino_t inode;

/* Opens the segment, or does so again: then it must still be the same file. */
static int open_segment(struct stat *stat)
{
    const long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)segment_path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return -1;
    if (nmm_syscall(SYS_fstat, fd, (long)stat, 0, 0, 0, 0) == 0
        && (segment == NULL || (stat->st_dev == device && stat->st_ino == inode)))
        return (int)fd;
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return -1;
}

/* A program that locks all of its memory did not mean ours. */
static void *map_part(int fd, uint64_t offset, uint64_t bytes)
{
    const long part = nmm_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (long)offset);
    if (nmm_failed(part))
        return NULL;
    nmm_syscall(SYS_munlock, part, (long)bytes, 0, 0, 0, 0);
    nmm_advise((void *)part, bytes, MADV_DONTDUMP);
    return (void *)part;
}

/* The header and the controls of rings. */
static struct nmm_segment *map_header(int fd, uint64_t bytes)
{
    struct nmm_segment *header = bytes >= NMM_PAGE ? map_part(fd, 0, NMM_PAGE) : NULL;
    if (header == NULL)
        return NULL;
    const bool ours = header->magic == NMM_MAGIC && header->version == NMM_WIRE_VERSION && header->rings_offset <= bytes;
    const uint64_t wanted = header->rings_offset;
    nmm_unmap(header, NMM_PAGE);
    return ours ? map_part(fd, 0, wanted) : NULL;
}

bool nmx_join(const char *path, bool shared)
{
    struct stat stat = {0};
    size_t length = 0;
    do {
        if (length == sizeof segment_path)
            return false;
        segment_path[length] = path[length];
    } while (path[length++]);
    const int fd = open_segment(&stat);
    if (fd < 0)
        return false;
    struct nmm_segment *header = map_header(fd, (uint64_t)stat.st_size);
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (header == NULL)
        return false;
    segment = header;
    device = stat.st_dev;
    inode = stat.st_ino;
    ids_shared = shared;
    rings = (struct nmm_ring *)((char *)header + header->header_bytes);
    rings_offset = header->rings_offset;
    ring_bytes = header->ring_bytes;
    ring_count = header->ring_count;
    const struct nmm_caches caches = header->caches;
    return caches.line == 0 || nmc_begin(&caches);
}

uint64_t nmx_now(void)
{
    struct timespec time = {0};
    nmm_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now(void)
{
    if (segment->clock == NMM_CLOCK_TSC) {
        /* Not before what was counted. */
        _mm_lfence();
        return __rdtsc();
    }
    return nmx_now();
}

static bool is_closed(void) { return nmm_load(&segment->closed) != 0; }

static void pause_for(long nanoseconds)
{
    const struct timespec pause = {.tv_nsec = nanoseconds};
    nmm_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

/* The recorder may have been killed: then it cannot close the segment. */
static bool recorder_is_gone(void)
{
    if (!ids_shared || nmm_syscall(SYS_kill, segment->recorder_pid, 0, 0, 0, 0, 0) != -ESRCH)
        return false;
    __atomic_store_n(&segment->closed, 1, __ATOMIC_SEQ_CST);
    return true;
}

void nmx_lost_thread(void) { __atomic_fetch_add(&segment->lost_no_map, 1, __ATOMIC_RELAXED); }

void nmx_muted(void) { __atomic_fetch_add(&segment->muted, 1, __ATOMIC_RELAXED); }

enum claim { CLAIMED, TAKEN, NOT_MAPPED };

static enum claim claim(struct nmx_writer *writer, uint32_t index)
{
    struct nmm_ring *ring = &rings[index];
    if (nmm_load(&ring->state) != NMM_RING_FREE)
        return TAKEN;
    for (uint32_t used = nmm_load(&segment->rings_used); used <= index;)
        if (__atomic_compare_exchange_n(&segment->rings_used, &used, index + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            break;
    uint32_t expected = NMM_RING_FREE;
    if (!__atomic_compare_exchange_n(&ring->state, &expected, NMM_RING_OWNED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return TAKEN;
    /* At once: if we are killed now, the recorder must know whose it was. */
    nmm_store(&ring->tid, nmm_gettid());
    nmm_store_release(&ring->pid, ids_shared ? nmm_getpid() : 0);
    struct stat stat = {0};
    const int fd = open_segment(&stat);
    char *memory = fd < 0 ? NULL : map_part(fd, rings_offset + index * (NMM_RING_EXTRA + ring_bytes), NMM_RING_EXTRA + ring_bytes);
    if (fd >= 0)
        nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (memory == NULL) {
        nmm_store(&ring->pid, 0);
        nmm_store(&ring->tid, 0);
        nmm_store_release(&ring->state, NMM_RING_FREE);
        return NOT_MAPPED;
    }
    nmm_store(&segment->next_ring, index + 1);
    writer->memory = memory;
    writer->words = (uint64_t *)(memory + NMM_RING_EXTRA);
    writer->position = nmm_load(&ring->head);
    writer->tail_seen = nmm_load_acquire(&ring->tail);
    writer->ring = ring;
    return CLAIMED;
}

static enum claim claim_any(struct nmx_writer *writer)
{
    const uint32_t first = nmm_load(&segment->next_ring);
    for (uint32_t i = 0; i < ring_count; i++) {
        const enum claim claimed = claim(writer, (first + i) % ring_count);
        if (claimed != TAKEN)
            return claimed;
    }
    return TAKEN;
}

void nmx_attach(struct nmx_writer *writer)
{
    *writer = (struct nmx_writer){0};
    /* Rings of threads that have ended are released when the recorder comes round to it. */
    enum claim claimed = TAKEN;
    for (int tries = 0; tries < 1000 && !is_closed(); tries++) {
        claimed = claim_any(writer);
        if (claimed == CLAIMED)
            return;
        if (claimed == NOT_MAPPED)
            break;
        pause_for(1000000);
    }
    __atomic_fetch_add(claimed == NOT_MAPPED ? &segment->lost_no_map : &segment->lost_no_ring, 1, __ATOMIC_RELAXED);
}

void nmx_detach(struct nmx_writer *writer)
{
    if (writer->memory)
        nmm_unmap(writer->memory, NMM_RING_EXTRA + ring_bytes);
    *writer = (struct nmx_writer){0};
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

/* A part of an event's payload. */
struct part {
    const uint64_t *words;
    size_t count;
};

/* `aux2`: as in the header of an event. */
static void emit(struct nmx_writer *writer, uint16_t type, uint16_t aux, uint16_t aux2, const struct part *parts, size_t parts_count)
{
    if (writer->ring == NULL || is_closed())
        return;
    uint64_t words = 2;
    for (size_t i = 0; i < parts_count; i++)
        words += parts[i].count;
    const uint64_t end = writer->position + words * 8;
    if (end - writer->tail_seen > ring_bytes && !make_room(writer, end))
        return;
    uint64_t at = writer->position / 8;
    const uint64_t mask = ring_bytes / 8 - 1;
    writer->words[at++ & mask] = aux | (uint64_t)type << 16 | words << 32 | (uint64_t)aux2 << 48;
    writer->words[at++ & mask] = now();
    for (size_t part = 0; part < parts_count; part++)
        for (size_t i = 0; i < parts[part].count; i++)
            writer->words[at++ & mask] = parts[part].words[i];
    writer->position = end;
    __atomic_store_n(&writer->ring->head, end, __ATOMIC_RELEASE);
}

void nmx_emit(struct nmx_writer *writer, uint16_t type, uint16_t aux, const uint64_t *payload, size_t count, const uint64_t *more,
    size_t more_count)
{
    const struct part parts[] = {{payload, count}, {more, more_count}};
    emit(writer, type, aux, 0, parts, 2);
}

void nmx_emit_counts(
    struct nmx_writer *writer, uint64_t address, int tid, const uint64_t *accesses, const uint64_t *memory, size_t count)
{
    const uint64_t payload[] = {address, (uint64_t)tid};
    const struct part parts[] = {{payload, 2}, {accesses, count}, {memory, count}};
    emit(writer, NMM_ACCESSES, memory != NULL, 0, parts, memory ? 3 : 2);
}

bool nmx_may_trace(void) { return nmm_load(&segment->trace_left) > 0; }

static void emit_one(struct nmx_writer *writer, uint16_t type, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    const uint64_t payload[] = {address, ip};
    const struct part part = {payload, 2};
    emit(writer, type, write ? 2 : 1, (uint16_t)bytes, &part, 1);
}

bool nmx_emit_access(struct nmx_writer *writer, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    /* Below zero it is as good as zero: each thread goes there once. */
    if (writer->ring == NULL || __atomic_fetch_sub(&segment->trace_left, 1, __ATOMIC_RELAXED) <= 0)
        return false;
    emit_one(writer, NMM_ACCESS, address, bytes, ip, write);
    return true;
}

void nmx_emit_more(struct nmx_writer *writer, uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    emit_one(writer, NMM_ACCESS_MORE, address, bytes, ip, write);
}
