/* dlopen was called. The loader allocates itself while it maps the library, which is early enough for static objects to be placed
 * before anybody uses them; so this thread's allocations look, until the library is there. Not for ever, for there may be none to
 * come. */
#include <link.h>

#include "../hooks/hooks.h"
#include "modules.h"

#define LOOKS 256u

const struct r_debug *nmm_r_debug;

static __thread uint32_t looks __attribute__((tls_model("initial-exec")));
static __thread bool some_came __attribute__((tls_model("initial-exec")));

void nmm_place_opened(void)
{
    if (nmm_place.plan == NULL)
        return;
    if (looks == 0)
        __atomic_fetch_add(&nmm_place.opened, 1, __ATOMIC_ACQ_REL);
    looks = LOOKS;
    some_came = false;
    nmm_store_release(&nmm_place_least, 0);
    nmm_find_quick();
}

static void end_looking(void)
{
    looks = 0;
    uint32_t others = nmm_load(&nmm_place.opened);
    while (others > 0 && !__atomic_compare_exchange_n(&nmm_place.opened, &others, others - 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        ;
    if (others <= 1)
        nmm_store(&nmm_place_least, nmm_place.least);
    nmm_find_quick();
}

/* Where the loader tells debuggers what it does, this is read: a word, and no lock. */
static bool is_loading(void)
{
    const struct r_debug *loader = nmm_r_debug;
    return loader == NULL || loader->r_state == RT_ADD;
}

void nmm_look_for_library(uintptr_t caller)
{
    if (looks == 0)
        return;
    const bool by_loader = caller - nmm_process.loader_low < nmm_process.loader_high - nmm_process.loader_low;
    if (by_loader && is_loading()) {
        some_came = true;
        nmm_find_modules();
    }
    /* All of them are there: constructors run, or dlopen is over. */
    const bool done = !by_loader && (some_came || nmm_r_debug == NULL);
    if (done)
        nmm_find_modules();
    if (done || --looks == 0)
        end_looking();
}
