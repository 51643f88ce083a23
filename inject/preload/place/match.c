/* Places in the code are return addresses of the modules that the plan names. The first frame of a call stack that does not belong
 * to a library or a wrapper is where the program allocates; that frame decides. */
#define _GNU_SOURCE
#include "match.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "../base/resolve.h"
#include "../base/sys.h"
#include "../unwind/step.h"
#include "policy.h"
#include "list.h"

/* Frames of libraries and wrappers between an allocation and the program's own code. */
#define DEEPEST 24u
/* Frames that are looked at for callers. */
#define FARTHEST 128u

static const void *table(struct nmm_plan_table of) { return (const char *)nmm_place.plan + of.at; }

/* Libraries no frame of which is a place. */
#define MOST_WHOLE 64u
static struct {
    uintptr_t low, high;
} whole[MOST_WHOLE];
static uint32_t whole_count;

static bool is_whole(uintptr_t address)
{
    const uint32_t count = nmm_load_acquire(&whole_count);
    for (uint32_t i = 0; i < count; i++)
        if (address - whole[i].low < whole[i].high - whole[i].low)
            return true;
    return false;
}

/* The ranges that an address may be in: those that begin below it. They may lie in each other. */
static uint32_t ranges_below(uintptr_t address)
{
    uint32_t low = 0, high = nmm_place.place_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (nmm_place.places[middle].low < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What is looked for. Rules that gather are apart: they decide before an object is there. */
struct wish {
    uint32_t target;
    bool gathered;
    uint64_t bytes;
};

static bool is_wanted(const struct nmm_plan_rule *rule, const struct wish *wish)
{
    return (rule->targets & wish->target) && (rule->gather != NMM_GATHER_NOT) == wish->gathered && wish->bytes >= rule->least
        && wish->bytes <= rule->most;
}

/* The first rule from `first` on of the place around a return address; NMM_NO_RULE: it has none, SKIPPED: the frame is not the
 * user's. */
#define SKIPPED (NMM_NO_RULE - 1)
static uint32_t rule_at(uintptr_t address, const struct wish *wish, uint32_t first)
{
    uint32_t found = NMM_NO_RULE;
    if (is_whole(address))
        return SKIPPED;
    for (uint32_t i = ranges_below(address); i-- > 0 && nmm_place.places[i].reach >= address;) {
        const struct nmm_code_range *range = &nmm_place.places[i];
        if (address <= range->high) {
            if (range->rule == NMM_PLAN_SKIPPED)
                return SKIPPED;
            if (range->rule >= first && range->rule < found && range->rule < NMM_PLAN_CALLER && is_wanted(&nmm_place.rules[range->rule], wish))
                found = range->rule;
        }
    }
    return found;
}

static bool is_caller(uintptr_t address, uint32_t number)
{
    for (uint32_t i = ranges_below(address); i-- > 0 && nmm_place.places[i].reach >= address;)
        if (nmm_place.places[i].rule == (NMM_PLAN_CALLER | number) && address <= nmm_place.places[i].high)
            return true;
    return false;
}

/* Whether all callers that a rule wants are on the stack, further out than a frame. */
static bool is_called(const struct nmm_plan_rule *rule, struct nmm_bounds bounds, struct frame frame)
{
    uint32_t met = 0;
    for (uint32_t depth = 0; met < rule->callers && depth < FARTHEST; depth++) {
        if (step(&nmm_self, &bounds, &frame) != STEP_ON)
            return false;
        if (is_caller(frame.pc, rule->caller + met))
            met++;
    }
    return met == rule->callers;
}

static uint32_t rule_of_stack(const struct wish *wish, const uintptr_t *hook)
{
    const struct nmm_thread *self = &nmm_self;
    struct nmm_bounds bounds = nmm_readable(self, (uintptr_t)hook);
    struct frame frame = nmm_first_frame(hook);
    for (uint32_t depth = 0; depth < DEEPEST; depth++) {
        uint32_t rule = rule_at(frame.pc, wish, 0);
        while (rule != SKIPPED && rule != NMM_NO_RULE && !is_called(&nmm_place.rules[rule], bounds, frame))
            rule = rule_at(frame.pc, wish, rule + 1);
        if (rule != SKIPPED)
            return rule;
        if (step(self, &bounds, &frame) != STEP_ON)
            break;
    }
    return NMM_NO_RULE;
}

static uint32_t lower(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t match(const struct wish *wish, const uintptr_t *frame, uint32_t *instance)
{
    const uint32_t count = nmm_place.bases;
    uint32_t found = NMM_NO_RULE;
    bool places = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct nmm_plan_rule *rule = &nmm_place.rules[i];
        if (!is_wanted(rule, wish))
            continue;
        if (rule->any_place)
            found = lower(found, i);
        else
            places = true;
    }
    if (places && nmm_process.rules != NULL) {
        /* Read between two equal even versions, the ranges were not being changed meanwhile. */
        const uint32_t version = nmm_load_acquire(&nmm_place.place_version);
        const uint32_t by_place = rule_of_stack(wish, frame);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && version == nmm_load(&nmm_place.place_version))
            found = lower(found, by_place);
    }
    if (found == NMM_NO_RULE)
        return found;
    const struct nmm_plan_rule *rule = &nmm_place.rules[found];
    *instance = __atomic_fetch_add(&nmm_place.instances[found], 1, __ATOMIC_RELAXED);
    return *instance >= rule->first && *instance <= rule->last ? found : NMM_NO_RULE;
}

uint32_t nmm_match(uint32_t target, uint64_t bytes, const uintptr_t *frame, uint32_t *instance)
{
    return match(&(struct wish){target, false, bytes}, frame, instance);
}

uint32_t nmm_match_gathered(uint64_t bytes, const uintptr_t *frame, uint32_t *instance)
{
    return match(&(struct wish){NMM_TARGET_HEAP, true, bytes}, frame, instance);
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

static void add_whole(uintptr_t low, uintptr_t high)
{
    if (whole_count < MOST_WHOLE) {
        whole[whole_count].low = low;
        whole[whole_count].high = high;
        nmm_store_release(&whole_count, whole_count + 1);
    }
}

/* Keeps the ranges in order. They are few and come in order, so an insertion seldom moves anything. */
static void add_place(struct nmm_code_range range)
{
    uint32_t i = nmm_place.place_count++;
    for (; i > 0 && nmm_place.places[i - 1].low > range.low; i--)
        nmm_place.places[i] = nmm_place.places[i - 1];
    nmm_place.places[i] = range;
}

static void place_static(const struct nmm_plan_static *object, uintptr_t bias)
{
    struct nmm_plan_rule *rule = &nmm_place.rules[object->rule];
    const uint32_t instance = __atomic_fetch_add(&nmm_place.instances[object->rule], 1, __ATOMIC_RELAXED);
    if (instance < rule->first || instance > rule->last)
        return;
    nmm_place_pages(object->rule, bias + object->address, object->bytes, bias + object->address, -1);
}

/* Where the plan's modules lie, plus one; 0: not there. What lies where it lay keeps its static objects as they are. */
static uint64_t biases[NMM_PLAN_MODULES], former[NMM_PLAN_MODULES];

/* Modules of the plan are few; one that is mapped twice counts once. */
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    unsigned *index = data;
    const bool executable = (*index)++ == 0;
    const struct nmm_plan_module *modules = table(nmm_place.plan->modules);
    const struct nmm_plan_place *places = table(nmm_place.plan->places);
    const struct nmm_plan_static *statics = table(nmm_place.plan->statics);
    const char *texts = table(nmm_place.plan->texts);
    const char *path = executable ? "/proc/self/exe" : info->dlpi_name, *name = path;
    for (const char *c = path; *c; c++)
        name = *c == '/' ? c + 1 : name;

    uintptr_t low, high;
    nmm_object_contains(info, 0, &low, &high);
    uint64_t device = 0, inode = 0;
    const bool identified = *path != 0 && identify(path, &device, &inode);
    for (uint32_t m = 0; m < nmm_place.plan->modules.count; m++) {
        const struct nmm_plan_module *module = &modules[m];
        if (module->whole) {
            if (!executable && begins_with(name, texts + module->text) && !is_whole(low))
                add_whole(low, high);
            continue;
        }
        if (!identified || module->device != device || module->inode != inode || biases[m] != 0)
            continue;
        biases[m] = info->dlpi_addr + 1;
        for (uint32_t i = 0; i < nmm_place.plan->places.count; i++)
            if (places[i].module == m)
                add_place((struct nmm_code_range){.low = info->dlpi_addr + places[i].low,
                    .high = info->dlpi_addr + places[i].high, .rule = places[i].rule});
        for (uint32_t i = 0; i < nmm_place.plan->statics.count; i++)
            if (statics[i].module == m && biases[m] != former[m])
                place_static(&statics[i], info->dlpi_addr);
    }
    return 0;
}

static int count_modules(struct dl_phdr_info *info, size_t size, void *data)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
        *(uint64_t *)data = info->dlpi_adds;
    return 1;
}

static void visit_all(void)
{
    unsigned index = 0;
    __atomic_fetch_add(&nmm_place.place_version, 1, __ATOMIC_ACQ_REL);
    dl_iterate_phdr(visit, &index);
    uintptr_t reach = 0;
    for (uint32_t i = 0; i < nmm_place.place_count; i++) {
        reach = nmm_place.places[i].high > reach ? nmm_place.places[i].high : reach;
        nmm_place.places[i].reach = reach;
    }
    __atomic_fetch_add(&nmm_place.place_version, 1, __ATOMIC_ACQ_REL);
}

void nmm_forget_modules(void)
{
    if (nmm_place.plan == NULL)
        return;
    /* Somebody else may be looking at what there was before; dlclose is seldom enough to wait. */
    while (__atomic_exchange_n(&nmm_place.updating, 1, __ATOMIC_ACQUIRE))
        nmm_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    for (uint32_t m = 0; m < nmm_place.plan->modules.count; m++) {
        former[m] = biases[m];
        biases[m] = 0;
    }
    __atomic_fetch_add(&nmm_place.place_version, 1, __ATOMIC_ACQ_REL);
    nmm_place.place_count = 0;
    nmm_store_release(&whole_count, 0);
    __atomic_fetch_add(&nmm_place.place_version, 1, __ATOMIC_ACQ_REL);
    visit_all();
    for (uint32_t m = 0; m < nmm_place.plan->modules.count; m++)
        former[m] = 0;
    nmm_store_release(&nmm_place.updating, 0);
}

bool nmm_find_modules(void)
{
    if (__atomic_exchange_n(&nmm_place.updating, 1, __ATOMIC_ACQUIRE))
        return false;
    uint64_t modules = 1;
    dl_iterate_phdr(count_modules, &modules);
    const bool more = modules != nmm_place.seen_modules;
    if (more) {
        nmm_place.seen_modules = modules;
        visit_all();
    }
    nmm_store_release(&nmm_place.updating, 0);
    return more;
}
