/* Joining a plan, and what becomes of blocks and mappings. */
#define _GNU_SOURCE
#include "place.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../base/sys.h"
#include "../emit/attach.h"
#include "../emit/filter.h"
#include "../hooks/hooks.h"
#include "../hooks/thread.h"
#include "../../wire/include/numamma_wire.h"
#include "../unwind/unwind.h"
#include "gather.h"
#include "label.h"
#include "list.h"
#include "match.h"
#include "modules.h"
#include "phase.h"
#include "policy.h"
#include "verify.h"

struct nmm_place nmm_place;
uint64_t nmm_place_least = UINT64_MAX;

static bool fits(struct nmm_plan_table table, uint64_t size, uint64_t bytes)
{
    return table.at <= bytes && table.at % 8 == 0 && table.count <= (bytes - table.at) / size;
}

/* Whether all tables lie within the file. What they say about each other was made by a program that is ours. */
static bool is_sound(const struct nmm_plan *plan, uint64_t bytes)
{
    return plan->magic == NMM_PLAN_MAGIC && plan->version == NMM_PLAN_VERSION && plan->bytes == bytes
        && plan->modules.count <= NMM_PLAN_MODULES && plan->placed.count > 0
        && fits(plan->rules, sizeof(struct nmm_plan_rule), bytes) && fits(plan->modules, sizeof(struct nmm_plan_module), bytes)
        && fits(plan->places, sizeof(struct nmm_plan_place), bytes) && fits(plan->statics, sizeof(struct nmm_plan_static), bytes)
        && fits(plan->nodes, sizeof(uint32_t), bytes) && fits(plan->runs, sizeof(struct nmm_plan_run), bytes)
        && fits(plan->threads, sizeof(struct nmm_plan_thread), bytes) && fits(plan->texts, 1, bytes)
        && fits(plan->labels, sizeof(struct nmm_plan_label), bytes) && fits(plan->phases, sizeof(struct nmm_plan_phase), bytes)
        && fits(plan->overrides, sizeof(uint32_t), bytes) && fits(plan->processes, sizeof(struct nmm_plan_process), bytes)
        && fits(plan->placed, sizeof(struct nmm_placed), bytes);
}

static struct nmm_plan *map_plan(const char *path)
{
    struct stat stat = {0};
    struct nmm_plan *plan = NULL;
    const long fd = nmm_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (nmm_failed(fd))
        return NULL;
    if (nmm_syscall(SYS_fstat, fd, (long)&stat, 0, 0, 0, 0) == 0 && (uint64_t)stat.st_size >= sizeof *plan)
        plan = nmm_map((size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd);
    nmm_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (plan != NULL && !is_sound(plan, (uint64_t)stat.st_size)) {
        nmm_unmap(plan, (size_t)stat.st_size);
        plan = NULL;
    }
    return plan;
}

/* Private memory: the counts of instances, the rules that are of no place, and the unwind rules where no recording has them. */
static bool map_tables(const struct nmm_plan *plan)
{
    const size_t numbers = (plan->rules.count * sizeof(uint32_t) + 7) & ~(size_t)7;
    const bool rules = nmm_process.rules == NULL;
    char *tables = nmm_map(2 * numbers + (rules ? NMM_RULES_BYTES : 0) + 8, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (tables == NULL)
        return false;
    nmm_place.instances = (uint32_t *)tables;
    nmm_place.everywhere = (uint32_t *)(tables + numbers);
    if (rules)
        nmm_process.rules = (uint64_t *)(tables + 2 * numbers);
    return true;
}

/* What is asked of all rules at once, for each allocation. */
static void sort_rules(void)
{
    for (uint32_t i = 0; i < nmm_place.bases; i++) {
        const struct nmm_plan_rule *rule = &nmm_place.rules[i];
        if (rule->any_place)
            nmm_place.everywhere[nmm_place.everywhere_count++] = i;
        if (rule->first > 0 || rule->last < UINT32_MAX || rule->gather == NMM_GATHER_BY_INSTANCE)
            nmm_place.counting = i + 1;
    }
}

/* An exec keeps the pid and ends everything else. */
static void leave_old_image(void)
{
    const int pid = nmm_getpid();
    for (uint32_t i = 0, length = nmm_list_length(); i < length; i++) {
        struct nmm_placed *placed = &nmm_place.placed[i];
        uint32_t state = nmm_load_acquire(&placed->state);
        if ((state == NMM_PLACED_LIVE || state == NMM_PLACED_MOVING) && nmm_load(&placed->pid) == pid)
            __atomic_compare_exchange_n(&placed->state, &state, NMM_PLACED_LEFT, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

/* A library that another thread was opening does not come in the child. */
static void child_of_fork(void)
{
    nmm_place_leave_main_node();
    nmm_place_forget_threads();
    nmm_store(&nmm_place.opened, 0);
    nmm_store(&nmm_place_least, nmm_place.least);
    nmm_find_quick();
}

void nmm_place_join(void)
{
    const char *path = nmm_shared_file(NMM_ENV_PLAN "=");
    if (path == NULL || getauxval(AT_SECURE) || nmm_is_filtered(path))
        return;
    struct nmm_plan *plan = map_plan(path);
    if (plan == NULL)
        return;
    if (!map_tables(plan)) {
        nmm_unmap(plan, plan->bytes);
        return;
    }
    char *start = (char *)plan;
    nmm_place.rules = (struct nmm_plan_rule *)(start + plan->rules.at);
    nmm_place.nodes = (const uint32_t *)(start + plan->nodes.at);
    nmm_place.placed = (struct nmm_placed *)(start + plan->placed.at);
    nmm_place.least = plan->least_heap;
    nmm_place.bases = plan->phases.count > 0 ? plan->overrides.count / plan->phases.count : plan->rules.count;
    nmm_place.bases = nmm_place.bases < plan->rules.count ? nmm_place.bases : plan->rules.count;
    sort_rules();
    nmm_process.ids_shared = nmm_ids_are_shared();
    nmm_store_release(&nmm_place.plan, plan);
    if (__atomic_fetch_add(&plan->joined, 1, __ATOMIC_RELAXED) > 0)
        leave_old_image();
    nmm_join_phases();
    nmm_know_main_stack(&nmm_self);
    nmm_gather_prepare();
    nmm_at_fork(child_of_fork);
    nmm_place_main_thread();
    nmm_find_modules();
    nmm_store_release(&nmm_place_least, nmm_place.least);
}

/* Memory that an allocator hands out again and again lies right from the second time on. To move pages that need not be moved takes the
 * kernel long (mbind waits for all CPUs, lru_add_drain_all in mm/swap.c), so what lay right when it was released is remembered, by its
 * address: a word each, of which an older or a newer one is found, or another place's, and then pages are moved as if nothing were
 * known. Pages that somebody else has touched meanwhile are found out when they are released. */
#define SETTLED 4096u
static uint64_t settled[SETTLED];

static uint64_t settled_word(uintptr_t low, uintptr_t high, uint32_t rule)
{
    return ((low >> 12) * 0x9e3779b97f4a7c15ull ^ (high - low) >> 12) * 0xbf58476d1ce4e5b9ull + rule + 1;
}

static uint64_t *settled_at(uintptr_t low) { return &settled[((low >> 12) * 0x9e3779b97f4a7c15ull >> 32) % SETTLED]; }

static bool is_settled(uintptr_t low, uintptr_t high, uint32_t rule)
{
    return nmm_load(settled_at(low)) == settled_word(low, high, rule);
}

static void settle(const struct nmm_placed *placed, bool right)
{
    const uint64_t word = settled_word(placed->address, placed->address + placed->bytes, nmm_load(&placed->rule));
    nmm_store(settled_at(placed->address), right ? word : 0);
}

void nmm_place_pages(uint32_t rule, uintptr_t address, uint64_t bytes, uintptr_t key, int32_t node)
{
    struct nmm_plan_rule *of = &nmm_place.rules[rule];
    __atomic_fetch_add(&of->matched, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&of->bytes, bytes, __ATOMIC_RELAXED);
    if (of->policy == NMM_POLICY_FIRST_TOUCH && !of->phased)
        return;
    struct nmm_pages pages = nmm_whole_pages(of, address, bytes);
    if (pages.low >= pages.high) {
        __atomic_fetch_add(&of->too_small, 1, __ATOMIC_RELAXED);
        return;
    }
    if (of->phased) {
        const uint32_t now = nmm_rule_now(rule);
        if (now != rule) {
            __atomic_fetch_add(&nmm_place.rules[now].matched, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&nmm_place.rules[now].bytes, bytes, __ATOMIC_RELAXED);
        }
        rule = now;
    }
    pages.settled = is_settled(pages.low, pages.high, rule);
    const uint32_t pieces = nmm_ask(rule, &pages, node);
    if (pieces == 0 && !of->phased)
        return;
    nmm_list_add(key, &(struct nmm_placed){.address = pages.low, .bytes = pages.high - pages.low, .base = pages.base,
        .length = pages.high - pages.base, .rule = rule, .pid = nmm_getpid(), .node = node, .pieces = pieces});
    /* Another phase may have begun before it was in the list. */
    if (of->phased && nmm_rule_now(of->base) != rule)
        nmm_place_all_anew();
}

/* The pages that hold nothing but the block: also the first, if there is only the allocator's own word before the block, and
 * the last, if the block fills it. */
static void own_pages(uintptr_t *low, uintptr_t *high)
{
    if (*low % 4096 <= 16)
        *low &= ~(uintptr_t)4095;
    if (-*high % 4096 <= 8)
        *high = nmm_round_up(*high, 4096);
}

void nmm_place_block(void *block, uint64_t bytes, const uintptr_t *frame)
{
    uint32_t instance;
    /* What the allocator allocates for itself is not the program's. */
    if (unlikely(nmm_load(&nmm_self.busy)) && nmm_is_nested(&nmm_self, (uintptr_t)frame))
        return;
    if (unlikely(nmm_load(&nmm_place.opened)))
        nmm_look_for_library(frame[1]);
    if (bytes < nmm_place.least || nmm_place.plan == NULL)
        return;
    const uint32_t rule = nmm_match(NMM_TARGET_HEAP, bytes, frame, &instance);
    if (rule == NMM_NO_RULE)
        return;
    const size_t usable = nmm_usable_size(block, frame);
    uintptr_t low = (uintptr_t)block, high = low + (usable > bytes ? usable : bytes);
    own_pages(&low, &high);
    nmm_place_pages(rule, low, high - low, (uintptr_t)block, -1);
}

void nmm_place_mapping(void *address, uint64_t bytes, const uintptr_t *frame)
{
    uint32_t instance;
    if (nmm_place.plan == NULL)
        return;
    if (unlikely(nmm_load(&nmm_place.opened)))
        nmm_look_for_library(frame[1]);
    if (bytes < nmm_place.plan->least_map)
        return;
    const uint32_t rule = nmm_match(NMM_TARGET_MAP, bytes, frame, &instance);
    if (rule != NMM_NO_RULE)
        nmm_place_pages(rule, (uintptr_t)address, nmm_round_up(bytes, 4096), (uintptr_t)address, -1);
}

static void end(struct nmm_placed *placed)
{
    nmm_read_back(placed);
    nmm_list_give(placed);
}

/* The memory may stay with the allocator and go to another object: it must not keep this one's policy. */
static void end_and_free(struct nmm_placed *placed)
{
    settle(placed, nmm_read_back(placed));
    nmm_ask_nothing(placed->address, placed->address + placed->bytes);
    nmm_list_give(placed);
}

bool nmm_place_end_block(uintptr_t block)
{
    struct nmm_placed *placed = nmm_list_take(block);
    if (placed == NULL)
        return false;
    end_and_free(placed);
    return true;
}

/* What it was in, if that is placed, has this part back. */
static void give_back(uintptr_t low, uintptr_t high)
{
    for (uint32_t i = 0, length = nmm_list_length(); i < length; i++) {
        struct nmm_placed *placed = &nmm_place.placed[i];
        const uintptr_t begin = nmm_load(&placed->address), end = begin + nmm_load(&placed->bytes);
        if (nmm_load_acquire(&placed->state) != NMM_PLACED_LIVE || begin > low || end < high || !nmm_list_hold(placed))
            continue;
        nmm_ask_anew(placed);
        nmm_list_let(placed);
        return;
    }
}

/* Addresses are even here, and this number is odd: no block and no mapping is found by it. */
static uint64_t label_key(uintptr_t address) { return (uint64_t)address << 1 | 1; }

static void end_label(uintptr_t address)
{
    struct nmm_placed *placed = nmm_list_take(label_key(address));
    if (placed == NULL)
        return;
    const uintptr_t low = placed->address, high = low + placed->bytes;
    end_and_free(placed);
    give_back(low, high);
}

static bool is_allocators(const void *function)
{
    return (uintptr_t)function - nmm_process.allocator_low < nmm_process.allocator_high - nmm_process.allocator_low;
}

/* Of an allocator that does not tell how large its blocks are, names are known at their starts alone. */
void nmm_place_end_labels(uintptr_t block)
{
    if (block >= nmm_load(&nmm_labels_high))
        return;
    const bool told = nmm_real.malloc_usable_size != NULL && is_allocators((const void *)nmm_real.malloc_usable_size);
    const size_t bytes = told ? nmm_usable_size((void *)block, NMM_FRAME) : 1;
    nmm_labels_end(block, block + bytes, end_label);
}

/* As far as names go: what is longer is cut. */
bool nmm_is_text(const char *a, const char *b)
{
    for (uint32_t i = 0; i < 8 * NMM_TEXT_WORDS; i++)
        if (a[i] != b[i] || a[i] == 0)
            return a[i] == b[i];
    return true;
}

const char *nmm_plan_text(uint32_t at) { return (const char *)nmm_place.plan + nmm_place.plan->texts.at + at; }

void nmm_place_label(uintptr_t address, uint64_t bytes, const char *name)
{
    if (nmm_place.plan == NULL || bytes > 1ul << 46 || address > 1ul << 47)
        return;
    nmm_place_unlabel(address);
    bool done = false;
    const struct nmm_plan_label *labels = (const void *)((const char *)nmm_place.plan + nmm_place.plan->labels.at);
    for (uint32_t i = 0; i < nmm_place.plan->labels.count; i++) {
        const uint32_t number = labels[i].rule;
        if (number >= nmm_place.plan->rules.count)
            return;
        const struct nmm_plan_rule *rule = &nmm_place.rules[number];
        if (bytes < rule->least || bytes > rule->most || !nmm_is_text(nmm_plan_text(labels[i].text), name))
            continue;
        uint32_t instance;
        if (!nmm_is_instance(number, &instance) || done)
            continue;
        done = true;
        if (!nmm_label_begins(address, bytes)) {
            __atomic_fetch_add(&nmm_place.rules[number].unlisted, 1, __ATOMIC_RELAXED);
            continue;
        }
        nmm_store_release(&nmm_place.labels, 1);
        /* A block's first page is its own but for the allocator's word before it; that of a part is not. */
        uintptr_t low = address, high = address + bytes;
        own_pages(&low, &high);
        nmm_place_pages(number, low, high - low, label_key(address), -1);
    }
}

void nmm_place_unlabel(uintptr_t address)
{
    if (nmm_place.plan != NULL && nmm_load(&nmm_place.labels) && nmm_label_ends(address) != 0)
        end_label(address);
}

bool nmm_place_end_mappings(uintptr_t address, uint64_t bytes)
{
    if (nmm_place.plan == NULL || bytes < 4096)
        return false;
    const bool labels = nmm_load_acquire(&nmm_place.labels) && nmm_labels_end(address, address + bytes, end_label);
    return (nmm_place.plan->least_map != UINT64_MAX && nmm_list_take_range(address, address + bytes, end)) || labels;
}

/* mremap takes one mapping only, and pieces are several: with one policy they are one again. */
bool nmm_place_join_mappings(uintptr_t address, uint64_t bytes)
{
    const bool ended = nmm_place_end_mappings(address, bytes);
    if (ended)
        nmm_ask_nothing(address, address + nmm_round_up(bytes, 4096));
    return ended;
}

void nmm_place_finish(void)
{
    if (nmm_place.plan != NULL && nmm_load(&nmm_place.plan->joined) > 0)
        nmm_list_take_all(end);
    if (nmm_place.plan != NULL)
        nmm_leave_phases();
}
