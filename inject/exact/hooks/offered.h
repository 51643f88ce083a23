/* Whether the program tells of its accesses, and to whom. */
#ifndef NMX_OFFERED_H
#define NMX_OFFERED_H

enum nmx_offered {
    NMX_NO_HOOKS,
    NMX_OUR_HOOKS,
    NMX_OTHER_HOOKS, /* the runtime of a sanitizer is part of the executable, or loaded beside us: it would be in the way */
};

enum nmx_offered nmx_offered(void);

#endif
