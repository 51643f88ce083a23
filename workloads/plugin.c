/* Two libraries are made of this file, alike to the byte: only the file name tells their variables apart. */
#include "workload.h"

enum { N = 1 << 16 }; /* 512 KiB each */

double plugin_table[N];         /* exported */
static double plugin_hidden[N]; /* known to the linker only */

void plugin_run(double seconds);

void plugin_run(double seconds)
{
    sweep_for(plugin_table, N, 0.75 * seconds);
    sweep_for(plugin_hidden, N, 0.25 * seconds);
}
