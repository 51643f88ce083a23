/* The first program of the guest. It talks with the lab over one virtual serial port, line by line:
 *
 *   guest                            lab
 *   READY <seconds since boot>  -->
 *                               <--  GO <seconds since 1970> <check: 0 or 1>    (a snapshot is taken before this)
 *   CHECKED                     -->                                            (only if asked to)
 *                               <--  RUN
 *   EXIT <status>               -->
 *
 * and FAIL <why> at any time. No host file is in use before GO: QEMU takes no snapshot of a guest with mounted host folders. */
#define _GNU_SOURCE
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int port = -1;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* Without a port the console is all there is; the lab shows its end. */
    if (write(port >= 0 ? port : STDERR_FILENO, line, (size_t)length) != length)
        fputs(line, stderr);
}

void fail(const char *what)
{
    say("FAIL %s: %s\n", what, strerror(errno));
    for (;;)
        pause();
}

char *contents(const char *path, size_t *size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t room = 4096, used = 0;
    char *text = malloc(room);
    ssize_t got = -1;
    while (file >= 0 && text != NULL && (got = read(file, text + used, room - used - 1)) > 0) {
        used += (size_t)got;
        if (used + 1 == room)
            text = realloc(text, room *= 2);
    }
    if (got < 0)
        fail(path);
    close(file);
    text[used] = 0;
    *size = used;
    return text;
}

/* Ports are numbered as they are found; the one that the lab listens on has a name. */
static void open_port(void)
{
    DIR *ports = opendir("/sys/class/virtio-ports");
    for (struct dirent *entry; ports != NULL && (entry = readdir(ports)) != NULL;) {
        char path[600], name[16] = "";
        snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strcmp(name, "lab\n") == 0) {
            snprintf(path, sizeof path, "/dev/%s", entry->d_name);
            port = open(path, O_RDWR | O_CLOEXEC);
        }
        fclose(file);
    }
    if (ports != NULL)
        closedir(ports);
    if (port < 0)
        fail("no port to the lab");
}

/* The next line from the lab. */
static void hear(char *line, size_t room)
{
    size_t used = 0;
    for (;;) {
        char byte;
        const ssize_t got = read(port, &byte, 1);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            fail("the port");
        if (got == 0) /* nobody has opened the other end: it is being restored */
            usleep(1000);
        if (got != 1)
            continue;
        if (byte == '\n')
            break;
        if (used + 1 < room)
            line[used++] = byte;
    }
    line[used] = 0;
}

static double uptime(void)
{
    double seconds = 0;
    FILE *file = fopen("/proc/uptime", "re");
    if (file == NULL || fscanf(file, "%lf", &seconds) != 1)
        seconds = 0;
    if (file != NULL)
        fclose(file);
    return seconds;
}

int main(void)
{
    char line[128];
    mount_kernel();
    load_modules();
    open_port();
    say("READY %.2f\n", uptime());

    hear(line, sizeof line);
    struct timeval now = {0};
    int check = 0;
    if (sscanf(line, "GO %ld %d", &now.tv_sec, &check) != 2)
        fail(line);
    settimeofday(&now, NULL);
    mount_host();
    if (check) {
        access_all_nodes();
        say("CHECKED\n");
    }
    hear(line, sizeof line);
    if (strcmp(line, "RUN") != 0)
        fail(line);
    const int status = run_command();
    unmount_share();
    say("EXIT %d\n", status);
    for (;;)
        pause();
}
