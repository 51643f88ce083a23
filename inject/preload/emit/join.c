#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sys.h"
#include "../hooks/thread.h"
#include "../unwind/unwind.h"
#include "attach.h"
#include "ring.h"
#include "stack.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_DONTDUMP
#define MADV_DONTDUMP 16
#endif

/* The value of NMM_ENV_SEGMENT, if it is /proc/PID/fd/N: nothing else is ever opened. */
static const char *segment_path(void)
{
    static const char name[] = NMM_ENV_SEGMENT "=";
    static const char shape[] = "/proc/#/fd/#";
    if (environ == NULL)
        return NULL;
    for (char **entry = environ; *entry; entry++) {
        const char *value = *entry;
        size_t i = 0;
        while (i < sizeof name - 1 && value[i] == name[i])
            i++;
        if (i < sizeof name - 1)
            continue;
        const char *path = value += i;
        for (const char *s = shape; *s; s++) {
            if (*s == '#') {
                if (*value < '0' || *value > '9')
                    return NULL;
                while (*value >= '0' && *value <= '9')
                    value++;
            } else if (*value++ != *s) {
                return NULL;
            }
        }
        return *value ? NULL : path;
    }
    return NULL;
}

bool nmm_ids_are_shared(void)
{
    /* The segment was found through /proc. If /proc calls us by another number, we are in a pid namespace of our own. */
    char target[16] = {0};
    long length = nmm_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self", (long)target, sizeof target, 0, 0);
    int seen = 0;
    for (long i = 0; i < length; i++)
        seen = seen * 10 + (target[i] - '0');
    return length > 0 && seen == nmm_getpid();
}

/* Whether the header describes a segment that lies within `bytes`. */
static bool is_sound(const struct nmm_segment *s, uint64_t bytes)
{
    return s->magic == NMM_MAGIC && s->version == NMM_WIRE_VERSION && s->header_bytes >= sizeof *s && s->header_bytes <= bytes
        && s->ring_count > 0 && s->ring_bytes >= NMM_PAGE && (s->ring_bytes & (s->ring_bytes - 1)) == 0
        && s->rings_offset % NMM_PAGE == 0 && s->rings_offset <= bytes && s->header_bytes % 8 == 0
        && (s->rings_offset - s->header_bytes) / sizeof(struct nmm_ring) >= s->ring_count
        && (bytes - s->rings_offset) / s->ring_bytes >= s->ring_count && s->max_frames > 0 && s->max_frames <= NMM_MAX_FRAMES;
}

static struct nmm_segment *map_segment(int fd, uint64_t *bytes)
{
    struct stat stat = {0};
    if (nmm_syscall(SYS_fstat, fd, (long)&stat, 0, 0, 0, 0) != 0 || stat.st_size < (off_t)NMM_PAGE)
        return NULL;
    *bytes = (uint64_t)stat.st_size;
    struct nmm_segment *segment = nmm_map(*bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd);
    if (segment == NULL)
        return NULL;
    if (!is_sound(segment, *bytes)) {
        nmm_unmap(segment, *bytes);
        return NULL;
    }
    nmm_advise(segment, *bytes, MADV_DONTDUMP);
    return segment;
}

static void child_of_old_kernel(void)
{
    __atomic_store_n(nmm_process.alive, 0, __ATOMIC_SEQ_CST);
    nmm_forget_stacks();
}

/* One private mapping: the page with `alive`, the table of sent stacks, the unwind rules, the memos. The kernel wipes the
 * first two in a forked child; the others stay true there. */
static bool map_tables(uint32_t ring_count)
{
    const size_t wiped = NMM_PAGE + NMM_SENT_BYTES, rules = wiped + NMM_RULES_BYTES;
    const size_t bytes = rules + (size_t)ring_count * NMM_PAGE;
    char *tables = nmm_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (tables == NULL)
        return false;
    nmm_process.alive = (uint32_t *)tables;
    nmm_process.sent = (uint64_t *)(tables + NMM_PAGE);
    nmm_process.rules = (uint64_t *)(tables + wiped);
    nmm_process.memos = tables + rules;
    /* Kernels before 4.14 cannot wipe; then the child of a fork() is noticed, but not that of a raw clone. */
    if (!nmm_advise(tables, wiped, MADV_WIPEONFORK) && !nmm_at_fork(child_of_old_kernel)) {
        nmm_unmap(tables, bytes);
        return false;
    }
    *nmm_process.alive = NMM_ALIVE;
    return true;
}

/* An exec keeps the pid and ends everything else: rings that our pid still owns belong to the image before us. */
static void end_rings_of_old_image(void)
{
    const int pid = nmm_getpid();
    const uint32_t used = nmm_load(&nmm_process.segment->rings_used);
    for (uint32_t i = 0; i < used && i < nmm_process.ring_count; i++) {
        struct nmm_ring *ring = &nmm_process.rings[i];
        uint32_t owned = NMM_RING_OWNED;
        if (nmm_load(&ring->pid) == pid)
            __atomic_compare_exchange_n(&ring->state, &owned, NMM_RING_ENDED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

void nmm_join(void)
{
    const char *path = segment_path();
    if (path == NULL || getauxval(AT_SECURE))
        return;
    long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return;
    uint64_t bytes = 0;
    struct nmm_segment *segment = map_segment((int)fd, &bytes);
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (segment == NULL)
        return;
    if (!map_tables(segment->ring_count)) {
        nmm_unmap(segment, bytes);
        return;
    }
    nmm_process.rings = (struct nmm_ring *)((char *)segment + segment->header_bytes);
    nmm_process.data = (char *)segment + segment->rings_offset;
    nmm_process.ring_bytes = segment->ring_bytes;
    nmm_process.ring_count = segment->ring_count;
    nmm_process.max_frames = segment->max_frames;
    nmm_process.heap = segment->heap != 0;
    nmm_process.ids_shared = nmm_ids_are_shared();
    nmm_measure_tls();
    nmm_process.seed = nmm_now() ^ (uint64_t)nmm_getpid() << 40;
    nmm_store_release(&nmm_process.segment, segment);
    if (nmm_process.ids_shared)
        end_rings_of_old_image();
}
