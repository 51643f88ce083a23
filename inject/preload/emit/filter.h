/* Filters of system calls that a program's predecessors have left it. */
#ifndef NMM_FILTER_H
#define NMM_FILTER_H

#include "../base/common.h"

/* Whether this image runs under a filter that the recorder does not run under: one that was installed by a program which then
 * executed this one. What it allows, we cannot know. `segment`: /proc/PID/fd/N of the recorder. */
bool nmm_is_filtered(const char *segment);

#endif
