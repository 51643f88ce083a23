/* Globals of libraries that come and go: library a runs for 60 % of the time and is closed, then library b gets its
 * addresses. */
#define _GNU_SOURCE
#include "workload.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static void *run(const char *folder, const char *library, double seconds)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, library);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    require(handle != NULL, "dlopen");
    void (*entry)(double);
    *(void **)&entry = dlsym(handle, "plugin_run");
    void *table = dlsym(handle, "plugin_table");
    require(entry && table, "dlsym");
    entry(seconds);
    dlclose(handle);
    return table;
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    char self[PATH_MAX] = "";
    require(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "where the program lies");
    const char *folder = dirname(self);
    void *a = run(folder, "libplugin_a.so", 0.6 * seconds);
    void *b = run(folder, "libplugin_b.so", 0.4 * seconds);
    require(a == b, "the second library lies where the first one lay");
    puts("dlopened ok");
    return 0;
}
