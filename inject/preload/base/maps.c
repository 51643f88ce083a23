#define _GNU_SOURCE
#include "maps.h"

#include <fcntl.h>

#include "sys.h"

/* One line of /proc/self/maps: `low-high perms offset device inode path`. */
struct line {
    uint64_t numbers[5];        /* low, high, offset, device, inode */
    char permissions[4];
    char path[sizeof ((struct nmm_mapped_file *)0)->path];
};

/* The file of which mappings are read, and what tells it from the next. */
struct group {
    struct nmm_mapped_file file;
    uint64_t device, inode;
    uint64_t last_offset;
};

static void parse(const char *text, size_t length, struct line *line)
{
    size_t at = 0;
    *line = (struct line){0};
    for (unsigned field = 0; field < 5 && at < length; field++) {
        const bool decimal = field == 4;
        uint64_t number = 0;
        if (field == 2) {
            for (unsigned i = 0; i < 4 && at < length; i++)
                line->permissions[i] = text[at++];
            at++;
        }
        for (; at < length && text[at] != ' ' && text[at] != '-'; at++) {
            const char c = text[at];
            if (c != ':') /* of the device's two numbers one is made */
                number = number * (decimal ? 10 : 16) + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        line->numbers[field] = number;
        at++;
    }
    while (at < length && text[at] == ' ')
        at++;
    if (length - at >= sizeof line->path || at >= length)
        return;
    for (size_t i = 0; at < length; i++)
        line->path[i] = text[at++];
}

/* Whether the mapping is of another file, or of the same file once more. */
static bool begins_another(const struct group *group, const struct line *line)
{
    return line->numbers[4] != group->inode || line->numbers[3] != group->device || line->numbers[2] < group->last_offset
        || (line->numbers[2] == 0 && group->file.code);
}

static void begin(struct group *group, const struct line *line)
{
    group->device = line->numbers[3];
    group->inode = line->numbers[4];
    group->file = (struct nmm_mapped_file){.low = line->numbers[0], .first_high = line->numbers[1],
        .start = line->numbers[2] == 0, .readable = line->permissions[0] == 'r'};
    __builtin_memcpy(group->file.path, line->path, sizeof group->file.path);
}

/* Adds a mapping to its file. True: `each` wants no more. */
static bool add(struct group *group, const struct line *line, bool (*each)(const struct nmm_mapped_file *, void *), void *data)
{
    const bool file = line->numbers[4] != 0;
    if (group->inode != 0 && (!file || begins_another(group, line))) {
        /* Memory without a file lies between two mappings of one, or behind the last. */
        if (!file)
            return false;
        if (group->file.code && each(&group->file, data))
            return true;
        group->inode = 0;
    }
    if (!file)
        return false;
    if (group->inode == 0)
        begin(group, line);
    group->file.high = line->numbers[1];
    group->file.code |= line->permissions[2] == 'x';
    group->last_offset = line->numbers[2];
    return false;
}

bool nmm_each_mapped_file(bool (*each)(const struct nmm_mapped_file *, void *), void *data)
{
    const long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return false;
    struct group group = {0};
    struct line line;
    char buffer[1024] = {0};
    char text[sizeof line.path + 100]; /* of a longer line, its beginning: then the path is not known */
    size_t length = 0, whole = 0;
    bool done = false;
    long bytes;
    while (!done && (bytes = nmm_syscall(SYS_read, fd, (long)buffer, sizeof buffer, 0, 0, 0)) > 0)
        for (long i = 0; i < bytes && !done; i++) {
            if (buffer[i] != '\n') {
                if (length < sizeof text)
                    text[length++] = buffer[i];
                whole++;
                continue;
            }
            parse(text, length, &line);
            if (whole > length)
                line.path[0] = 0;
            done = add(&group, &line, each, data);
            length = whole = 0;
        }
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (!done && group.inode != 0 && group.file.code)
        each(&group.file, data);
    return true;
}
