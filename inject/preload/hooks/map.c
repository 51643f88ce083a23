/* Mappings and the break. Calls that the allocator makes are its own business: they are not recorded. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../base/sys.h"
#include "../emit/note.h"
#include "../emit/ring.h"
#include "../emit/stack.h"
#include "../place/place.h"
#include "hooks.h"
#include "version.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* An allocator also maps memory outside of calls to it: in a constructor, in a thread of its own. */
static inline struct nmm_thread *enter(const uintptr_t *frame)
{
    struct nmm_thread *self = nmm_enter_hook(frame);
    bool allocator = frame[1] - nmm_process.allocator_low < nmm_process.allocator_high - nmm_process.allocator_low;
    return allocator && !nmm_process.allocator_is_libc ? NULL : self;
}

static __attribute__((noinline)) void mapped(struct nmm_thread *self, void *address, size_t length, int prot, int flags, off_t offset, const uintptr_t *frame)
{
    nmm_carve((uintptr_t)address, length);
    if (unlikely(nmm_process.exact))
        nmm_tell(NMM_NOTE_MAPPING, (uintptr_t)address, length);
    const uint64_t payload[] = {(uintptr_t)address, length, nmm_call_stack(self, frame), (uint64_t)offset, (uint32_t)flags};
    nmm_emit(self, (struct nmm_tag){NMM_MAP, (uint16_t)prot, !(flags & MAP_ANONYMOUS)}, payload, 5);
}

/* NMM_UNMAP before the call, NMM_UNUNMAP after one that failed. Not inline: a hook's frame lies below its callees' on the
 * program's stack. */
static __attribute__((noinline)) void unmapping(struct nmm_thread *self, struct nmm_tag tag, const void *address, size_t length)
{
    if (unlikely(nmm_process.exact))
        nmm_tell(NMM_NOTE_END, (uintptr_t)address, length);
    const uint64_t payload[] = {(uintptr_t)address, length};
    nmm_emit(self, tag, payload, 2);
}

static inline __attribute__((always_inline)) void *map(void *(*real)(void *, size_t, int, int, int, off_t), void *address,
    size_t length, int prot, int flags, int fd, off_t offset, const uintptr_t *frame)
{
    /* What was there ends. The emulator sees that by itself. */
    if (unlikely(nmm_process.counts_itself) && flags & MAP_FIXED)
        nmm_tell(NMM_NOTE_END, (uintptr_t)address, length);
    if (unlikely(nmm_place.plan != NULL) && flags & MAP_FIXED && nmm_self.in_allocator == 0)
        nmm_place_end_mappings((uintptr_t)address, length);
    void *result = real ? real(address, length, prot, flags, fd, offset)
                        : (void *)nmm_libc_result(nmm_syscall(SYS_mmap, (long)address, (long)length, prot, flags, fd, offset));
    struct nmm_thread *self;
    if (unlikely(nmm_place.plan != NULL) && result != MAP_FAILED && fd < 0 && flags & MAP_ANONYMOUS && prot & PROT_WRITE
        && nmm_self.in_allocator == 0)
        nmm_place_mapping(result, length, frame);
    if (result != MAP_FAILED && (self = enter(frame)) != NULL)
        mapped(self, result, length, prot, flags, offset, frame);
    return result;
}

void *nmm_hook_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    return map(nmm_real.mmap, address, length, prot, flags, fd, offset, NMM_FRAME);
}

void *nmm_hook_mmap64(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
    if (unlikely(nmm_process.segment == NULL))
        nmm_start();
    return map(nmm_real.mmap64, address, length, prot, flags, fd, offset, NMM_FRAME);
}

int nmm_hook_munmap(void *address, size_t length)
{
    struct nmm_thread *self = enter(NMM_FRAME);
    if (self)
        unmapping(self, (struct nmm_tag){NMM_UNMAP, 0, 1}, address, length);
    nmm_place_end_mappings((uintptr_t)address, length);
    int result = nmm_real.munmap ? nmm_real.munmap(address, length)
                                 : (int)nmm_libc_result(nmm_syscall(SYS_munmap, (long)address, (long)length, 0, 0, 0, 0));
    if (self && result != 0)
        unmapping(self, (struct nmm_tag){NMM_UNUNMAP, 0, 0}, address, length);
    return result;
}

static void *real_mremap(void *old, size_t old_length, size_t length, int flags, void *wanted)
{
    return nmm_real.mremap
        ? nmm_real.mremap(old, old_length, length, flags, wanted)
        : (void *)nmm_libc_result(nmm_syscall(SYS_mremap, (long)old, (long)old_length, (long)length, flags, (long)wanted, 0));
}

/* Moves what the kernel has as several mappings, since each has a policy: as much as it takes at a time. Returns how much was
 * moved, from the start on. */
static size_t move_by_parts(uintptr_t from, uintptr_t to, size_t length)
{
    size_t moved = 0, part = length;
    while (moved < length && part > 0) {
        const long result = nmm_syscall(SYS_mremap, (long)(from + moved), (long)part, (long)part, MREMAP_MAYMOVE | MREMAP_FIXED,
            (long)(to + moved), 0);
        if (!nmm_failed(result)) {
            moved += part;
            part = length - moved;
        } else if (result == -EFAULT) {
            part = part / 2 & ~(size_t)4095;
        } else {
            break;
        }
    }
    return moved;
}

/* mremap takes one mapping only. Where a placement has made several of one, it is done in steps; what cannot be had is refused
 * as for want of room, which every program must expect. */
static NMM_COLD void *remap_placed(void *old, size_t old_length, size_t length, int flags, void *wanted)
{
    void *result = real_mremap(old, old_length, length, flags, wanted);
    if (result != MAP_FAILED || errno != EFAULT)
        return result;
    errno = ENOMEM;
    if (flags != MREMAP_MAYMOVE)
        return MAP_FAILED;
    const size_t size = nmm_round_up(length, 4096), old_size = nmm_round_up(old_length, 4096);
    char *room = nmm_map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (room == NULL)
        return MAP_FAILED;
    const size_t wanted_size = size < old_size ? size : old_size;
    const size_t moved = move_by_parts((uintptr_t)old, (uintptr_t)room, wanted_size);
    if (moved < wanted_size) {
        /* Back to where nothing is now; what it leaves may be another's at once. */
        nmm_unmap(room + moved, size - moved);
        move_by_parts((uintptr_t)room, (uintptr_t)old, moved);
        return MAP_FAILED;
    }
    if (old_size > size)
        nmm_unmap((char *)old + size, old_size - size);
    return room;
}

/* Variadic in libc, where the fifth argument is read too whether or not it was passed. Both calling conventions pass it the
 * same way if it is declared, and our frame is smaller. */
void *nmm_hook_mremap(void *old, size_t old_length, size_t length, int flags, void *wanted)
{
    const uintptr_t *frame = NMM_FRAME;
    struct nmm_thread *self = enter(frame);
    /* While the call runs, another thread may be given the old range: so it is released before. */
    const bool moves = old_length != 0 && !(flags & MREMAP_DONTUNMAP); /* else the old mapping stays */
    if (self && moves)
        unmapping(self, (struct nmm_tag){NMM_UNMAP, 0, 1}, old, old_length);
    const bool placed = moves && nmm_place_join_mappings((uintptr_t)old, old_length);
    void *result = unlikely(placed) ? remap_placed(old, old_length, length, flags, wanted)
                                    : real_mremap(old, old_length, length, flags, wanted);
    if (unlikely(placed))
        nmm_place_mapping(result != MAP_FAILED ? result : old, result != MAP_FAILED ? length : old_length, frame);
    if (self && result != MAP_FAILED)
        mapped(self, result, length, 0, MAP_ANONYMOUS, 0, frame); /* what it maps, and how, is not known here */
    else if (self && moves)
        unmapping(self, (struct nmm_tag){NMM_UNUNMAP, 0, 0}, old, old_length);
    return result;
}

static void break_moved(struct nmm_thread *self, uintptr_t from, uintptr_t to, const uintptr_t *frame)
{
    if (unlikely(nmm_process.exact))
        nmm_tell(NMM_NOTE_END, from < to ? from : to, from < to ? to - from : from - to);
    const uint64_t payload[] = {from, to, nmm_call_stack(self, frame)};
    nmm_emit(self, (struct nmm_tag){NMM_BREAK, 0, 0}, payload, 3);
}

int nmm_hook_brk(void *end)
{
    const uintptr_t *frame = NMM_FRAME;
    struct nmm_thread *self = enter(frame);
    if (nmm_real.brk == NULL)
        return (int)nmm_libc_result(-ENOMEM);
    const uintptr_t old = self && nmm_real.sbrk ? (uintptr_t)nmm_real.sbrk(0) : 0;
    int result = nmm_real.brk(end);
    if (self && result == 0)
        break_moved(self, old, (uintptr_t)end, frame);
    return result;
}

void *nmm_hook_sbrk(intptr_t increment)
{
    const uintptr_t *frame = NMM_FRAME;
    struct nmm_thread *self = enter(frame);
    if (nmm_real.sbrk == NULL)
        return (void *)nmm_libc_result(-ENOMEM);
    void *old = nmm_real.sbrk(increment);
    if (self && increment != 0 && old != (void *)-1)
        break_moved(self, (uintptr_t)old, (uintptr_t)old + (uintptr_t)increment, frame);
    return old;
}
