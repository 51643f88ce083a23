#define _GNU_SOURCE
#include "modules.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../base/maps.h"
#include "../base/sys.h"
#include "../emit/state.h"
#include "list.h"
#include "verify.h"

uint64_t nmm_module_bias[NMM_PLAN_MODULES];
uint32_t nmm_code_generation = 1;

/* Libraries that are there, in any order: first page and number of pages in one word; 0: free. */
#define MOST_LIBRARIES 64u
#define PAGES_BITS 28
static uint64_t libraries[MOST_LIBRARIES];

/* So many times libraries were closed. */
static uint32_t closings;
/* Modules that are there from the start stay. */
static bool is_initial[NMM_PLAN_MODULES];
static bool began;

static const void *table(struct nmm_plan_table of) { return (const char *)nmm_place.plan + of.at; }

static uint64_t library_word(uintptr_t low, uintptr_t high) { return low >> 12 << PAGES_BITS | (high - low) >> 12; }

bool nmm_is_library(uintptr_t address)
{
    const uint64_t page = address >> 12, pages_mask = (1ull << PAGES_BITS) - 1;
    for (uint32_t i = 0; i < MOST_LIBRARIES; i++) {
        const uint64_t word = nmm_load(&libraries[i]);
        if (word != 0 && page - (word >> PAGES_BITS) < (word & pages_mask))
            return true;
    }
    return false;
}

static bool identify(const char *path, uint64_t *device, uint64_t *inode)
{
    struct stat stat = {0};
    if (nmm_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&stat, 0, 0, 0) != 0)
        return false;
    *device = stat.st_dev;
    *inode = stat.st_ino;
    return true;
}

static bool begins_with(const char *text, const char *beginning)
{
    while (*beginning && *text == *beginning)
        text++, beginning++;
    return *beginning == 0;
}

static void place_statics(uint32_t module, uintptr_t bias)
{
    const struct nmm_plan_static *statics = table(nmm_place.plan->statics);
    for (uint32_t i = 0; i < nmm_place.plan->statics.count; i++)
        if (statics[i].module == module && statics[i].rule < nmm_place.plan->rules.count) {
            const uintptr_t address = bias + statics[i].address;
            nmm_place_pages(statics[i].rule, address, statics[i].bytes, address, -1);
        }
}

/* One look at what is mapped, and what was known before it. */
struct look {
    const struct nmm_plan_module *modules;
    uint64_t *known, *now;      /* by module of the plan: where it was known to be, and where it is */
    uint64_t known_libraries[MOST_LIBRARIES];
    uint64_t libraries_seen;    /* a bit for each of those */
    uintptr_t program;          /* an address in the executable */
    bool changed;
};

static void see_library(struct look *look, uint64_t word)
{
    for (uint32_t i = 0; i < MOST_LIBRARIES; i++)
        if (look->known_libraries[i] == word) {
            look->libraries_seen |= 1ull << i;
            return;
        }
    look->changed = true;
    for (uint32_t i = 0; i < MOST_LIBRARIES; i++) {
        uint64_t none = 0;
        if (nmm_load(&libraries[i]) == 0
            && __atomic_compare_exchange_n(&libraries[i], &none, word, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

static bool see(const struct nmm_mapped_file *file, void *data)
{
    struct look *look = data;
    const bool program = look->program - file->low < file->high - file->low;
    const char *texts = table(nmm_place.plan->texts), *path = program ? "/proc/self/exe" : file->path, *name = path;
    for (const char *c = path; *c; c++)
        name = *c == '/' ? c + 1 : name;
    uint64_t device = 0, inode = 0;
    bool identified = false, asked = false;
    for (uint32_t m = 0; m < nmm_place.plan->modules.count; m++) {
        const struct nmm_plan_module *module = &look->modules[m];
        if (module->whole) {
            if (!program && begins_with(name, texts + module->text))
                see_library(look, library_word(file->low, file->high));
            continue;
        }
        if (!asked)
            identified = file->start && *path != 0 && identify(path, &device, &inode);
        asked = true;
        /* One that is mapped twice counts once. */
        if (identified && module->device == device && module->inode == inode && look->now[m] == 0)
            look->now[m] = file->low - module->start + 1;
    }
    return false;
}

/* What has changed since `look` began, and no other thread has noticed. */
static void publish(struct look *look)
{
    for (uint32_t m = 0; m < nmm_place.plan->modules.count; m++) {
        uint64_t known = look->known[m];
        if (look->modules[m].whole || known == look->now[m])
            continue;
        look->changed = true;
        if (__atomic_compare_exchange_n(&nmm_module_bias[m], &known, look->now[m], false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)
            && look->now[m] != 0)
            place_statics(m, look->now[m] - 1);
        if (!began)
            is_initial[m] = look->now[m] != 0;
    }
    for (uint32_t i = 0; i < MOST_LIBRARIES; i++) {
        uint64_t gone = look->known_libraries[i];
        if (gone == 0 || look->libraries_seen >> i & 1)
            continue;
        look->changed = true;
        __atomic_compare_exchange_n(&libraries[i], &gone, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

void nmm_find_modules(void)
{
    const uint32_t count = nmm_place.plan->modules.count;
    uint32_t before;
    uint64_t words[2 * count + 1];
    /* A library that is closed meanwhile must not be taken to be there. */
    for (unsigned tries = 0; tries < 4 && !nmm_load(&nmm_process.quiet); tries++) {
        struct look look = {.modules = table(nmm_place.plan->modules), .known = words, .now = words + count};
        look.program = getauxval(AT_PHDR);
        before = nmm_load_acquire(&closings);
        for (uint32_t m = 0; m < count; m++) {
            look.known[m] = nmm_load_acquire(&nmm_module_bias[m]);
            look.now[m] = 0;
        }
        for (uint32_t i = 0; i < MOST_LIBRARIES; i++)
            look.known_libraries[i] = nmm_load_acquire(&libraries[i]);
        if (!nmm_each_mapped_file(see, &look))
            return;
        publish(&look);
        if (look.changed)
            __atomic_fetch_add(&nmm_code_generation, 1, __ATOMIC_ACQ_REL);
        began = true;
        if (nmm_load_acquire(&closings) == before)
            return;
    }
}

/* A static object that may go, as its pages lay before. */
struct closed_static {
    uint32_t number;            /* in the plan's table */
    uint64_t bias;              /* of its module */
    struct nmm_tally tally;
};

struct nmm_closing {
    size_t bytes;
    uint32_t count;
    struct closed_static statics[];
};

static bool may_go(const struct nmm_plan_static *object)
{
    return object->module < NMM_PLAN_MODULES && !is_initial[object->module] && nmm_load(&nmm_module_bias[object->module]) != 0;
}

struct nmm_closing *nmm_place_closing(void)
{
    const struct nmm_plan *plan = nmm_place.plan;
    uint32_t count = 0;
    if (plan == NULL || nmm_load(&nmm_process.quiet))
        return NULL;
    const struct nmm_plan_static *statics = table(plan->statics);
    for (uint32_t i = 0; i < plan->statics.count; i++)
        count += may_go(&statics[i]);
    if (count == 0)
        return NULL;
    const size_t bytes = sizeof(struct nmm_closing) + count * sizeof(struct closed_static);
    struct nmm_closing *closing = nmm_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (closing == NULL)
        return NULL;
    closing->bytes = bytes;
    for (uint32_t i = 0; i < plan->statics.count && closing->count < count; i++) {
        if (!may_go(&statics[i]))
            continue;
        struct closed_static *of = &closing->statics[closing->count];
        of->number = i;
        of->bias = nmm_load(&nmm_module_bias[statics[i].module]);
        const struct nmm_placed *placed = of->bias != 0 ? nmm_list_find(of->bias - 1 + statics[i].address) : NULL;
        if (placed != NULL && nmm_tally(placed, &of->tally))
            closing->count++;
    }
    return closing;
}

void nmm_place_closed(struct nmm_closing *closing)
{
    if (nmm_place.plan == NULL)
        return;
    __atomic_fetch_add(&closings, 1, __ATOMIC_ACQ_REL);
    nmm_find_modules();
    const struct nmm_plan_static *statics = table(nmm_place.plan->statics);
    for (uint32_t i = 0; closing != NULL && i < closing->count; i++) {
        const struct closed_static *of = &closing->statics[i];
        if (nmm_load(&nmm_module_bias[statics[of->number].module]) == of->bias)
            continue;
        struct nmm_placed *placed = nmm_list_take(of->bias - 1 + statics[of->number].address);
        if (placed == NULL)
            continue;
        nmm_count_tally(nmm_load(&placed->rule), &of->tally);
        nmm_list_give(placed);
    }
    if (closing != NULL)
        nmm_unmap(closing, closing->bytes);
}
