/* What the compiler calls before each access: names and meanings are ThreadSanitizer's. */
#include "access.h"

#include <string.h>

#define ACCESS(name, size, write) \
    HOOK void __tsan_##name##size(void *where); \
    HOOK void __tsan_##name##size(void *where) { nmx_access(where, size, NMX_CALLER, write); } \
    HOOK void __tsan_##name##size##_pc(void *where, void *ip); \
    HOOK void __tsan_##name##size##_pc(void *where, void *ip) { nmx_access(where, size, (uint64_t)ip, write); }

/* Reads first, as the processor does. */
#define BOTH(name, size) \
    HOOK void __tsan_##name##size(void *where); \
    HOOK void __tsan_##name##size(void *where) \
    { \
        nmx_access(where, size, NMX_CALLER, false); \
        nmx_access(where, size, NMX_CALLER, true); \
    }

#define SIZES(define, ...) \
    define(__VA_ARGS__, 1) define(__VA_ARGS__, 2) define(__VA_ARGS__, 4) define(__VA_ARGS__, 8) define(__VA_ARGS__, 16)

#define READ(name, size) ACCESS(name, size, false)
#define WRITE(name, size) ACCESS(name, size, true)

SIZES(READ, read)
SIZES(READ, unaligned_read)
SIZES(READ, volatile_read)
SIZES(READ, unaligned_volatile_read)
SIZES(WRITE, write)
SIZES(WRITE, unaligned_write)
SIZES(WRITE, volatile_write)
SIZES(WRITE, unaligned_volatile_write)
SIZES(BOTH, read_write)
SIZES(BOTH, unaligned_read_write)

/* Of objects with virtual functions: the pointer to their table. */
HOOK void __tsan_vptr_read(void **where);
HOOK void __tsan_vptr_read(void **where) { nmx_access(where, sizeof *where, NMX_CALLER, false); }
HOOK void __tsan_vptr_update(void **where, void *table);
HOOK void __tsan_vptr_update(void **where, void *table) { (void)table, nmx_access(where, sizeof *where, NMX_CALLER, true); }

void nmx_range(const volatile void *where, uint64_t bytes, uint64_t ip, bool write)
{
    if (bytes == 32 || bytes == 64) {
        nmx_access(where, (unsigned)bytes, ip, write);
        return;
    }
    const uint64_t first = (uint64_t)where, end = first + bytes;
    for (uint64_t at = first, next; at < end; at = next) {
        next = nmx_unit_end(at) < end ? nmx_unit_end(at) : end;
        nmx_access((const volatile char *)where + (at - first), (unsigned)(next - at), ip, write);
    }
}

HOOK void __tsan_read_range(void *where, uint64_t bytes);
HOOK void __tsan_read_range(void *where, uint64_t bytes) { nmx_range(where, bytes, NMX_CALLER, false); }
HOOK void __tsan_read_range_pc(void *where, uint64_t bytes, void *ip);
HOOK void __tsan_read_range_pc(void *where, uint64_t bytes, void *ip) { nmx_range(where, bytes, (uint64_t)ip, false); }
HOOK void __tsan_write_range(void *where, uint64_t bytes);
HOOK void __tsan_write_range(void *where, uint64_t bytes) { nmx_range(where, bytes, NMX_CALLER, true); }
HOOK void __tsan_write_range_pc(void *where, uint64_t bytes, void *ip);
HOOK void __tsan_write_range_pc(void *where, uint64_t bytes, void *ip) { nmx_range(where, bytes, (uint64_t)ip, true); }

/* Newer clangs call these where the program copies. */
HOOK void *__tsan_memcpy(void *to, const void *from, uint64_t bytes);
HOOK void *__tsan_memcpy(void *to, const void *from, uint64_t bytes)
{
    nmx_range(from, bytes, NMX_CALLER, false);
    nmx_range(to, bytes, NMX_CALLER, true);
    return memcpy(to, from, bytes);
}

HOOK void *__tsan_memmove(void *to, const void *from, uint64_t bytes);
HOOK void *__tsan_memmove(void *to, const void *from, uint64_t bytes)
{
    nmx_range(from, bytes, NMX_CALLER, false);
    nmx_range(to, bytes, NMX_CALLER, true);
    return memmove(to, from, bytes);
}

HOOK void *__tsan_memset(void *to, int value, uint64_t bytes);
HOOK void *__tsan_memset(void *to, int value, uint64_t bytes)
{
    nmx_range(to, bytes, NMX_CALLER, true);
    return memset(to, value, bytes);
}
