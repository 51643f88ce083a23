/* File systems and drivers. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOST "trans=virtio,version=9p2000.L,msize=262144,"

static char *share;

static void make(const char *path)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        fail(path);
}

static void must_mount(const char *source, const char *where, const char *type, unsigned long flags, const char *options)
{
    if (mount(source, where, type, flags, options) != 0)
        fail(where);
}

/* What some kernels lack and most commands can do without. */
static void try_mount(const char *where, const char *type)
{
    if (mount(type, where, type, 0, NULL) != 0)
        fprintf(stderr, "lab: no %s\n", where);
}

void mount_kernel(void)
{
    must_mount("proc", "/proc", "proc", 0, NULL);
    must_mount("sys", "/sys", "sysfs", 0, NULL);
    must_mount("dev", "/dev", "devtmpfs", 0, NULL);
}

/* In the order of their names, twice: kernels differ in which needs which. One that is missing is built in. */
void load_modules(void)
{
    for (int i = 0; i < 2 * 100; i++) {
        char path[32];
        snprintf(path, sizeof path, "/modules/%02d.ko", i % 100);
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            continue;
        if (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST && i >= 100)
            fprintf(stderr, "lab: %s: %s\n", path, strerror(errno));
        close(file);
    }
    /* The host's programs would look for modules of another kernel, and run beside the command. */
    const int loader = open("/proc/sys/kernel/modprobe", O_WRONLY | O_CLOEXEC);
    if (loader < 0 || write(loader, "\n", 1) != 1)
        fail("/proc/sys/kernel/modprobe");
    close(loader);
}

static void make_all(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        make(path);
        *slash = '/';
    }
    make(path);
}

static void loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    const int socket_of_any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_of_any < 0 || ioctl(socket_of_any, SIOCSIFFLAGS, &request) != 0)
        fputs("lab: no loopback network\n", stderr);
    close(socket_of_any);
}

void mount_host(void)
{
    must_mount("host", "/host", "9p", MS_RDONLY, HOST "cache=loose");
    must_mount("tmpfs", "/over", "tmpfs", 0, "mode=755");
    make("/over/upper");
    make("/over/work");
    must_mount("overlay", "/root", "overlay", 0, "lowerdir=/host,upperdir=/over/upper,workdir=/over/work");
    const char *const moved[] = {"/proc", "/sys", "/dev"};
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        char where[32];
        snprintf(where, sizeof where, "/root%s", moved[i]);
        make(where);
        must_mount(moved[i], where, NULL, MS_MOVE, NULL);
    }
    /* Programs that make namespaces of their own are refused in a mere chroot. */
    if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0)
        fail("the root");
    make("/run");
    must_mount("tmpfs", "/run", "tmpfs", 0, "mode=755");
    make("/dev/shm");
    make("/dev/pts");
    must_mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
    try_mount("/dev/pts", "devpts");
    try_mount("/sys/kernel/debug", "debugfs");
    try_mount("/sys/kernel/tracing", "tracefs");
    try_mount("/sys/fs/cgroup", "cgroup2");
    make(LAB_FOLDER);
    must_mount("lab", LAB_FOLDER, "9p", 0, HOST "cache=none");
    size_t size;
    share = contents(LAB_FOLDER "/share", &size);
    if (size > 0) {
        make_all(share);
        must_mount("share", share, "9p", 0, HOST "cache=mmap");
    }
    loopback_up();
    if (sethostname("lab", 3) != 0)
        fail("sethostname");
}

void unmount_share(void)
{
    sync();
    if (*share != 0 && umount2(share, MNT_DETACH) != 0)
        fail(share);
}
