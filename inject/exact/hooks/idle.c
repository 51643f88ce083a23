/* Functions of ThreadSanitizer that have nothing to do here. Whatever they are passed, they ignore it; the result is 0. */
#include <stdint.h>

#define IDLE(name) \
    __attribute__((visibility("default"))) uintptr_t name(void); \
    __attribute__((visibility("default"))) uintptr_t name(void) { return 0; }
#include "idle.def"
