#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sys.h"
#include "../hooks/thread.h"
#include "../hooks/version.h"
#include "../unwind/unwind.h"
#include "attach.h"
#include "emulate.h"
#include "filter.h"
#include "note.h"
#include "ring.h"
#include "stack.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_DONTDUMP
#define MADV_DONTDUMP 16
#endif

/* Functions of the executable's .preinit_array come before libc has `environ`. The kernel has put it on the stack, behind the
 * count of the arguments and the arguments; musl does not say where. */
char **nmm_environment(void)
{
    if (environ != NULL || nmm_libc_stack_end == NULL)
        return environ;
    const uintptr_t *stack = *(uintptr_t **)nmm_libc_stack_end;
    return (char **)(stack + 1 + stack[0] + 1);
}

const char *nmm_shared_file(const char *name)
{
    static const char shape[] = "/proc/#/fd/#";
    char **entry = nmm_environment();
    for (; entry && *entry; entry++) {
        const char *value = *entry;
        size_t i = 0;
        while (name[i] && value[i] == name[i])
            i++;
        if (name[i])
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
        && (bytes - s->rings_offset) / (NMM_RING_EXTRA + (uint64_t)s->ring_bytes) >= s->ring_count
        && s->max_frames > 0 && s->max_frames <= NMM_MAX_FRAMES;
}

/* Opens the segment, or does so again: then it must still be the same file. */
static int open_segment(const char *path, struct stat *stat)
{
    *stat = (struct stat){0};
    long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return -1;
    const struct nmm_process *known = &nmm_process;
    if (nmm_syscall(SYS_fstat, fd, (long)stat, 0, 0, 0, 0) == 0
        && (known->segment == NULL || (known->device == stat->st_dev && known->inode == stat->st_ino)))
        return (int)fd;
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return -1;
}

/* Memory of the segment. A program that locks all of its memory did not mean ours, and may be short of what it may lock. */
static char *adopt(long part, uint64_t bytes)
{
    if (nmm_failed(part))
        return NULL;
    nmm_syscall(SYS_munlock, part, (long)bytes, 0, 0, 0, 0);
    nmm_advise((void *)part, bytes, MADV_DONTDUMP);
    return (char *)part;
}

static char *map_part(int fd, uint64_t offset, uint64_t bytes)
{
    return adopt(nmm_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (long)offset), bytes);
}

/* The header and the controls. */
static struct nmm_segment *map_segment(const char *path, struct stat *stat)
{
    struct nmm_segment *segment = NULL;
    const int fd = open_segment(path, stat);
    if (fd < 0)
        return NULL;
    const uint64_t bytes = (uint64_t)stat->st_size;
    uint64_t mapped = NMM_PAGE;
    if (bytes >= mapped && (segment = (struct nmm_segment *)map_part(fd, 0, mapped)) != NULL) {
        const bool sound = is_sound(segment, bytes);
        const uint64_t wanted = segment->rings_offset;
        nmm_unmap(segment, mapped);
        segment = sound ? (struct nmm_segment *)map_part(fd, 0, wanted) : NULL;
    }
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return segment;
}

/* A ring of the segment that cannot be opened again: the process has changed its user or its root. The kernel maps a shared mapping
 * once more if its old size is said to be none, and as far as the file goes: here from the last page of the controls on. */
static char *map_again(uint32_t index, uint64_t stride)
{
    const uint64_t before = NMM_PAGE + index * stride;
    const uintptr_t last = (uintptr_t)nmm_process.segment + nmm_process.rings_offset - NMM_PAGE;
    const long part = nmm_syscall(SYS_mremap, (long)last, 0, (long)(before + stride), MREMAP_MAYMOVE, 0, 0);
    if (nmm_failed(part))
        return NULL;
    nmm_unmap((void *)part, before);
    return adopt(part + (long)before, stride);
}

char *nmm_map_ring(uint32_t index)
{
    char **mapped = &nmm_process.mapped[index];
    if (nmm_load(mapped) == NULL) {
        struct stat stat;
        const int fd = open_segment(nmm_process.path, &stat);
        const uint64_t stride = NMM_RING_EXTRA + nmm_process.ring_bytes;
        if (fd < 0) {
            nmm_store(mapped, map_again(index, stride));
            return nmm_load(mapped);
        }
        nmm_store(mapped, map_part(fd, nmm_process.rings_offset + index * stride, stride));
        nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return nmm_load(mapped);
}

static void child_of_old_kernel(void)
{
    __atomic_store_n(nmm_process.alive, 0, __ATOMIC_SEQ_CST);
    nmm_forget_stacks();
}

/* One private mapping: the page with `alive`, the table of sent stacks, the unwind rules, the versions of heap addresses,
 * the counts of carvings, where the rings are mapped. The kernel wipes the first two in a forked child; the others stay
 * true there. */
static bool map_tables(uint32_t ring_count)
{
    const size_t wiped = NMM_PAGE + NMM_SENT_BYTES, rules = wiped + NMM_RULES_BYTES, versions = rules + NMM_VERSIONS_BYTES;
    const size_t carvings = versions + NMM_CARVINGS_BYTES;
    const size_t bytes = carvings + ring_count * sizeof *nmm_process.mapped;
    char *tables = nmm_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (tables == NULL)
        return false;
    nmm_process.alive = (uint32_t *)tables;
    nmm_process.sent = (uint64_t *)(tables + NMM_PAGE);
    nmm_process.rules = (uint64_t *)(tables + wiped);
    nmm_process.versions = (uint32_t *)(tables + rules);
    nmm_process.carvings = (struct nmm_carving *)(tables + versions);
    nmm_process.mapped = (char **)(tables + carvings);
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

/* What the header says, which only the recorder has written. */
static void read_header(const struct nmm_segment *segment)
{
    nmm_process.rings = (struct nmm_ring *)((char *)segment + segment->header_bytes);
    nmm_process.rings_offset = segment->rings_offset;
    nmm_process.ring_bytes = segment->ring_bytes;
    nmm_process.ring_count = segment->ring_count;
    nmm_process.max_frames = segment->max_frames;
    nmm_process.heap = segment->heap != 0;
    nmm_process.collapse = segment->heap != 0 && segment->collapse != 0;
    nmm_process.exact = segment->exact != 0;
    nmm_process.tsc = segment->clock == NMM_CLOCK_TSC;
}

/* Where the segment is, for the rings to be mapped later. */
static bool keep_path(const char *path, const struct stat *stat)
{
    size_t length = 0;
    do {
        if (length == sizeof nmm_process.path)
            return false;
        nmm_process.path[length] = path[length];
    } while (path[length++]);
    nmm_process.device = stat->st_dev;
    nmm_process.inode = stat->st_ino;
    return true;
}

static uint64_t new_seed(void)
{
    /* Not by a function of libc: a sanitizer's, which is not ready yet, may stand before it. */
    struct timespec now = {0};
    nmm_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) ^ (uint64_t)nmm_getpid() << 40;
}

/* Every access is to be counted, and no emulator does: by the program's own hooks, or under the emulator from now on. False if
 * neither can be. */
static bool begin_to_count(void)
{
    const char *segment = nmm_shared_file(NMM_ENV_COUNTS "=");
    const uint32_t answer = segment && numamma_counts_begin ? numamma_counts_begin(segment, nmm_ids_are_shared()) : NMM_COUNTS_OTHERS;
    nmm_process.counts_itself = answer == NMM_COUNTS_ACCESSES;
    if (answer == NMM_COUNTS_OTHERS)
        nmm_emulate();
    return nmm_process.counts_itself;
}

/* The segment is as it should be: all that is to be known before it becomes visible. */
static bool prepare(const struct nmm_segment *segment, const char *path, const struct stat *stat)
{
    if (segment->exact && !nmm_is_emulated() && !begin_to_count())
        return false;
    if (!keep_path(path, stat) || !map_tables(segment->ring_count))
        return false;
    read_header(segment);
    nmm_process.ids_shared = nmm_ids_are_shared();
    nmm_measure_tls();
    nmm_process.seed = new_seed();
    return true;
}

void nmm_join(void)
{
    const char *path = nmm_shared_file(NMM_ENV_SEGMENT "=");
    if (path == NULL || getauxval(AT_SECURE) || nmm_is_filtered(path))
        return;
    struct stat stat;
    struct nmm_segment *segment = map_segment(path, &stat);
    if (segment == NULL)
        return;
    if (!prepare(segment, path, &stat)) {
        nmm_unmap(segment, segment->rings_offset);
        return;
    }
    nmm_store_release(&nmm_process.segment, segment);
    if (nmm_process.ids_shared)
        end_rings_of_old_image();
}
