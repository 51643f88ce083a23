/* For the Fortran workload: Fortran's own clocks know no threads. */
#define say_cpu_times say_cpu_times_here
#include "workload.h"
#undef say_cpu_times

void say_cpu_times(void);

void say_cpu_times(void)
{
    say_cpu_times_here();
}
