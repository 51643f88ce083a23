/* Memory from mmap: an anonymous region for half of the time, a file for 30 %, one that mremap has grown for 20 %. */
#define _GNU_SOURCE
#include "workload.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    int rw = PROT_READ | PROT_WRITE;

    double *anonymous = mmap(NULL, 8 * MIB, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* site: anonymous */
    require(anonymous != MAP_FAILED, "mmap");

    char path[] = "/tmp/numamma-mapped-XXXXXX";
    int fd = mkstemp(path);
    require(fd >= 0 && unlink(path) == 0 && ftruncate(fd, 4 * MIB) == 0, "a file of 4 MiB");
    double *file = mmap(NULL, 4 * MIB, rw, MAP_SHARED, fd, 0); /* site: file */
    require(file != MAP_FAILED, "mmap of a file");

    double *grown = mmap(NULL, 1 * MIB, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* site: small */
    require(grown != MAP_FAILED, "mmap");
    grown = mremap(grown, 1 * MIB, 6 * MIB, MREMAP_MAYMOVE); /* site: grown */
    require(grown != MAP_FAILED, "mremap");

    sweep_for(anonymous, 8 * MIB / sizeof *anonymous, 0.5 * seconds);
    sweep_for(file, 4 * MIB / sizeof *file, 0.3 * seconds);
    sweep_for(grown, 6 * MIB / sizeof *grown, 0.2 * seconds);
    puts("mapped ok");
    munmap(anonymous, 8 * MIB);
    munmap(file, 4 * MIB);
    munmap(grown, 6 * MIB);
    close(fd);
    return 0;
}
