#define _GNU_SOURCE
#include "code.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../wire/include/numamma_note.h"

/* Mappings that were looked up. The library is never unmapped, and nothing is mapped over it. */
#define KNOWN 512
static struct {
    uint64_t low, high;
} known[KNOWN];
static unsigned known_count, next_known;
static uint64_t library_low, library_high;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Finds the mapping of an address; true if it is the library's. */
static bool look_up(uint64_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    bool library = false;
    if (maps == NULL)
        return false;
    while (getline(&line, &room, maps) > 0) {
        unsigned long low, high;
        if (sscanf(line, "%lx-%lx", &low, &high) != 2 || address < low || address >= high)
            continue;
        library = strstr(line, "/libnumamma.so\n") != NULL;
        if (library) {
            library_low = library_low == 0 || low < library_low ? low : library_low;
            library_high = high > library_high ? high : library_high;
        } else {
            known[next_known].low = low;
            known[next_known].high = high;
            next_known = (next_known + 1) % KNOWN;
            known_count += known_count < KNOWN;
        }
        break;
    }
    free(line);
    fclose(maps);
    return library;
}

bool nmx_is_library(uint64_t address)
{
    pthread_mutex_lock(&lock);
    bool library = address >= library_low && address < library_high, found = library;
    for (unsigned i = 0; !found && i < known_count; i++)
        found = address >= known[i].low && address < known[i].high;
    if (!found || (!library && library_high == 0)) {
        /* Until the library is there, what is known is not trusted: the loader maps it where there was room. */
        if (!found)
            library = look_up(address);
    }
    pthread_mutex_unlock(&lock);
    return library;
}

void nmx_code_reborn(void) { pthread_mutex_init(&lock, NULL); }

bool nmx_is_note(const uint8_t *bytes, size_t size)
{
    const uint32_t mark = NMM_NOTE_MARK;
    if (size < 6 || memcmp(bytes + size - 4, &mark, 4) != 0)
        return false;
    const size_t at = (bytes[0] & 0xf0) == 0x40; /* a REX prefix */
    return bytes[at] == 0xc7;
}

/* Skips legacy prefixes and REX. */
static size_t opcode_at(const uint8_t *bytes, size_t size, bool *scalar)
{
    size_t at = 0;
    for (; at < size; at++) {
        switch (bytes[at]) {
        case 0xf2:
        case 0xf3:
            *scalar = true;
            continue;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case 0x66:
        case 0x67:
        case 0xf0:
            continue;
        }
        break;
    }
    return at + (at < size && (bytes[at] & 0xf0) == 0x40);
}

bool nmx_is_evex(const uint8_t *bytes, size_t size)
{
    bool scalar = false;
    const size_t at = opcode_at(bytes, size, &scalar);
    return at < size && bytes[at] == 0x62;
}

static bool moves_string(uint8_t opcode) { return (opcode & 0xfe) == 0xa4 || (opcode & 0xfe) == 0xaa; }

bool nmx_is_string_move(const uint8_t *bytes, size_t size)
{
    bool repeated = false;
    const size_t at = opcode_at(bytes, size, &repeated);
    return repeated && at < size && moves_string(bytes[at]);
}

bool nmx_may_follow_string_move(const uint8_t *bytes)
{
    /* The page before may not be there. */
    return ((uintptr_t)bytes & 4095) == 0 || moves_string(bytes[-1]);
}

/* Of F2 and F3: moves and arithmetic of one number. */
static bool is_of_one(uint8_t opcode)
{
    return opcode == 0x10 || opcode == 0x11 || (opcode >= 0x2a && opcode <= 0x2d) || (opcode >= 0x51 && opcode <= 0x5f);
}

/* Whether the two-byte opcode 0F xx works on vectors, or on two words (CMPXCHG16B), or saves a state. */
static bool is_wide(uint8_t opcode, bool scalar)
{
    if (scalar && is_of_one(opcode))
        return false;
    return (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x28 && opcode <= 0x2f) || opcode == 0x38 || opcode == 0x3a
        || (opcode >= 0x50 && opcode <= 0x7f) || opcode == 0xae || (opcode >= 0xc2 && opcode <= 0xc7) || opcode >= 0xd0;
}

bool nmx_comes_in_pieces(const uint8_t *bytes, size_t size)
{
    bool scalar = false;
    const size_t at = opcode_at(bytes, size, &scalar);
    const uint8_t *opcode = bytes + at;
    const size_t left = size - at;
    if (left < 2)
        return false;
    if (opcode[0] == 0x0f)
        return is_wide(opcode[1], scalar);
    if (opcode[0] == 0xc5 && left >= 3)
        return is_wide(opcode[2], (opcode[1] & 2) != 0);
    if (opcode[0] == 0xc4 && left >= 4) {
        const unsigned map = opcode[1] & 0x1f;
        const bool gather = map == 2 && opcode[3] >= 0x90 && opcode[3] <= 0x93; /* elements are accesses of their own */
        return map == 1 ? is_wide(opcode[3], (opcode[2] & 2) != 0) : !gather;
    }
    /* Ten bytes of the x87: a mantissa and an exponent. */
    return opcode[0] == 0xdb || opcode[0] == 0xdd || opcode[0] == 0xd9 || opcode[0] == 0xdf;
}
