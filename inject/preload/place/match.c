/* Places in the code are return addresses of the modules that the plan names. The first frame of a call stack that does not belong
 * to a library or a wrapper is where the program allocates; that frame decides. */
#include "match.h"

#include "../base/sys.h"
#include "../unwind/step.h"

/* Frames of libraries and wrappers between an allocation and the program's own code. */
#define DEEPEST 24u
/* Frames that are looked at for callers. */
#define FARTHEST 128u

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

/* ---- what is at an address ---- */

/* Calls `each` for the places around a return address, until it returns true: they may lie in each other. */
typedef bool each_place(const struct nmm_plan_place *place, void *data);
static bool places_at(uintptr_t address, each_place *each, void *data)
{
    const struct nmm_plan *plan = nmm_place.plan;
    const struct nmm_plan_module *modules = (const void *)((const char *)plan + plan->modules.at);
    const struct nmm_plan_place *places = (const void *)((const char *)plan + plan->places.at);
    for (uint32_t m = 0; m < plan->modules.count; m++) {
        const uint64_t bias = nmm_load_acquire(&nmm_module_bias[m]);
        if (bias == 0 || modules[m].places == 0 || (uint64_t)modules[m].place + modules[m].places > plan->places.count)
            continue;
        const struct nmm_plan_place *first = &places[modules[m].place];
        const uintptr_t at = address - (bias - 1);
        uint32_t low = 0, high = modules[m].places;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (first[middle].low < at)
                low = middle + 1;
            else
                high = middle;
        }
        while (low-- > 0 && first[low].reach >= at)
            if (at <= first[low].high && each(&first[low], data))
                return true;
    }
    return false;
}

static bool is_skipped(const struct nmm_plan_place *place, void *data)
{
    bool *some = data;
    *some |= place->rule < NMM_PLAN_CALLER;
    return place->rule == NMM_PLAN_SKIPPED;
}

uint64_t nmm_known_code[1u << NMM_KNOWN_BITS];

static enum nmm_code_kind kind_of(uintptr_t address)
{
    const enum nmm_code_kind known = nmm_known_kind(address);
    if (likely(known != NMM_CODE_UNKNOWN))
        return known;
    const uint64_t key = nmm_known_key(address); /* before we look */
    bool some = false;
    const bool skipped = nmm_is_library(address) || places_at(address, is_skipped, &some);
    const enum nmm_code_kind kind = skipped ? NMM_CODE_SKIPPED : some ? NMM_CODE_OF_PLACES : NMM_CODE_OF_NO_RULE;
    nmm_store(nmm_known_word(address), key | kind);
    return kind;
}

/* ---- the place of an allocation ---- */

struct place {
    bool there;
    struct nmm_bounds bounds;
    struct frame frame;
};

static struct place find_place(const uintptr_t *hook)
{
    struct place place = {false, nmm_readable(&nmm_self, (uintptr_t)hook), nmm_first_frame(hook)};
    for (uint32_t depth = 0; depth < DEEPEST; depth++) {
        const enum nmm_code_kind kind = kind_of(place.frame.pc);
        place.there = kind == NMM_CODE_OF_PLACES;
        if (kind != NMM_CODE_SKIPPED || step(&nmm_self, &place.bounds, &place.frame) != STEP_ON)
            break;
    }
    return place;
}

/* Most frames of libraries are of a fixed size, so their callers are found without the rest of what a walk keeps. */
bool nmm_is_called_by_no_rule(const uintptr_t *hook)
{
    const struct nmm_bounds bounds = nmm_readable(&nmm_self, (uintptr_t)hook);
    uintptr_t pc = hook[1], sp = (uintptr_t)(hook + 2);
    for (uint32_t depth = 0; depth < DEEPEST; depth++) {
        const enum nmm_code_kind kind = nmm_known_kind(pc);
        if (kind == NMM_CODE_OF_NO_RULE)
            return true;
        const struct nmm_rule rule = nmm_rule_at(pc - 1);
        if (kind != NMM_CODE_SKIPPED || rule.kind != NMM_RULE_SP)
            break;
        sp += rule.cfa * 8;
        if (!load(bounds, sp - 8, &pc))
            break;
    }
    return !find_place(hook).there;
}

struct search {
    const struct wish *wish;
    uint32_t first, found;
};

static bool is_lower(const struct nmm_plan_place *place, void *data)
{
    struct search *search = data;
    if (place->rule >= search->first && place->rule < search->found && place->rule < nmm_place.plan->rules.count
        && is_wanted(&nmm_place.rules[place->rule], search->wish))
        search->found = place->rule;
    return false;
}

static bool is_number(const struct nmm_plan_place *place, void *data)
{
    return place->rule == *(const uint32_t *)data;
}

/* Whether all callers that a rule wants are on the stack, further out than the place. */
static bool is_called(const struct nmm_plan_rule *rule, struct place place)
{
    uint32_t met = 0;
    for (uint32_t depth = 0; met < rule->callers && depth < FARTHEST; depth++) {
        if (step(&nmm_self, &place.bounds, &place.frame) != STEP_ON)
            return false;
        uint32_t number = NMM_PLAN_CALLER | (rule->caller + met);
        met += places_at(place.frame.pc, is_number, &number);
    }
    return met == rule->callers;
}

/* ---- the rule ---- */

/* The next rule for the object from `first` on, of its place or of everything. */
static uint32_t next_rule(const struct wish *wish, const struct place *place, uint32_t first)
{
    struct search search = {wish, first, NMM_NO_RULE};
    for (uint32_t i = 0; i < nmm_place.everywhere_count; i++) {
        const uint32_t rule = nmm_place.everywhere[i];
        if (rule >= first && is_wanted(&nmm_place.rules[rule], wish)) {
            search.found = rule;
            break;
        }
    }
    if (place->there)
        places_at(place->frame.pc, is_lower, &search);
    return search.found;
}

bool nmm_is_instance(uint32_t number, uint32_t *instance)
{
    const struct nmm_plan_rule *rule = &nmm_place.rules[number];
    *instance = __atomic_fetch_add(&nmm_place.instances[number], 1, __ATOMIC_RELAXED);
    return *instance >= rule->first && *instance <= rule->last;
}

/* The first rule decides that the object is an instance of. Those behind it count it all the same. */
static uint32_t match(const struct wish *wish, const uintptr_t *frame, uint32_t *instance)
{
    const bool places = nmm_place.plan->places.count > 0 && nmm_process.rules != NULL;
    const struct place place = places ? find_place(frame) : (struct place){0};
    uint32_t found = NMM_NO_RULE, number;
    for (uint32_t rule = 0; found == NMM_NO_RULE || rule < nmm_place.counting; rule++) {
        rule = next_rule(wish, &place, rule);
        if (rule == NMM_NO_RULE)
            break;
        if (!nmm_place.rules[rule].any_place && !is_called(&nmm_place.rules[rule], place))
            continue;
        if (nmm_is_instance(rule, &number) && found == NMM_NO_RULE) {
            found = rule;
            *instance = number;
        }
    }
    return found;
}

uint32_t nmm_match(uint32_t target, uint64_t bytes, const uintptr_t *frame, uint32_t *instance)
{
    return match(&(struct wish){target, false, bytes}, frame, instance);
}

uint32_t nmm_match_gathered(uint64_t bytes, const uintptr_t *frame, uint32_t *instance)
{
    return match(&(struct wish){NMM_TARGET_HEAP, true, bytes}, frame, instance);
}
