/* The contract between a compiled placement plan (written by `numamma apply`) and the applier inside the program.
 *
 * One memfd, named in the environment (NUMAMMA_PLAN=/proc/PID/fd/N), which every process of the program maps shared: tables that
 * nobody changes any more, then counters and the list of what has been placed, which the applier fills and `numamma apply` reads.
 * All is numbers: the text was parsed, names were looked up and nodes were counted before the program began.
 *
 *   | nmm_plan | rules | modules | places | statics | nodes | runs | threads | labels | phases | overrides | texts | processes | placed ... |
 *
 * A module is known by its file (device and inode). Addresses are the file's own; the applier adds the bias of the mapping.
 */
#ifndef NUMAMMA_PLAN_H
#define NUMAMMA_PLAN_H

#include <stdint.h>

#define NMM_PLAN_VERSION 3u
#define NMM_PLAN_MAGIC 0x4e414c504d4d4eull /* "NMMPLAN" */
#define NMM_ENV_PLAN "NUMAMMA_PLAN"

#define NMM_PLAN_NODES 1024u    /* the kernel's own limit */
#define NMM_PLAN_COUNTED 64u
#define NMM_PLAN_CPUS 8192u
#define NMM_PLAN_MODULES 256u    /* that a plan names */

/* Kinds of memory that a rule is about (bits). */
#define NMM_TARGET_HEAP 1u
#define NMM_TARGET_MAP 2u
#define NMM_TARGET_STATIC 4u
#define NMM_TARGET_LABEL 8u    /* what the program names by itself: numamma.h */

enum nmm_plan_policy {
    NMM_POLICY_FIRST_TOUCH = 0, /* nothing is asked: takes objects out of the rules behind */
    NMM_POLICY_BIND = 1,
    NMM_POLICY_PREFERRED = 2,
    NMM_POLICY_INTERLEAVE = 3,
    NMM_POLICY_WEIGHTED = 4,
    /* Each page has its node. */
    NMM_POLICY_BLOCK = 5,
    NMM_POLICY_CYCLIC = 6,
    NMM_POLICY_MAP = 7,
};

/* Ways to gather small objects of one place. */
#define NMM_GATHER_NOT 0u
#define NMM_GATHER_BY_THREAD 1u
#define NMM_GATHER_BY_INSTANCE 2u

/* A rule. The first that matches an object decides; those without targets only stand in for others in some phase. */
struct nmm_plan_rule {
    uint32_t targets;
    uint32_t any_place;         /* else only objects of its places */
    uint64_t least, most;       /* bytes, both included */
    uint32_t first, last;       /* instances, both included, counted in each process */
    uint32_t policy;            /* enum nmm_plan_policy */
    uint32_t page_bytes;        /* 0: as the system likes; else 4096 or 2 MiB */
    uint32_t node, nodes;       /* first of its nodes in the table, and how many */
    uint32_t run, runs;         /* of a map */
    uint32_t repeat;            /* the map begins anew at its end */
    uint32_t gather;            /* NMM_GATHER_* */
    uint64_t block_bytes;       /* of block-cyclic */
    uint32_t instances;         /* NMM_GATHER_BY_INSTANCE: how many are divided among the nodes */
    uint32_t caller, callers;   /* numbers that its callers' code has in the places, and how many; all must be on the call stack, in this
                                 * order outwards */
    uint32_t base;              /* the rule that it stands in for, or itself */
    uint32_t phased;            /* 1: another stands in for it in some phase */
    uint32_t last_error;        /* applier: errno of the last call that failed */

    /* The applier's. */
    uint64_t matched;           /* objects */
    uint64_t bytes;             /* of them */
    uint64_t too_small;         /* of them: no whole page */
    uint64_t failed;            /* calls that were in vain */
    uint64_t fell_back;         /* calls that got the next best policy */
    uint64_t unlisted;          /* objects that are placed but in no list: their pages are not read back */
    /* Pages of objects that are gone, as they lay at the end. */
    uint64_t right;             /* where the plan wants them */
    uint64_t elsewhere;
    uint64_t absent;            /* never used */
    uint64_t unread;            /* not asked about: the program filters its system calls */
    uint64_t by_node[NMM_PLAN_COUNTED]; /* pages of the first nodes */
};

struct nmm_plan_module {
    uint64_t device, inode;
    uint32_t whole;             /* 1: a library, no frame of which is ever a place */
    uint32_t text;              /* whole: beginning of its file's name, in the texts */
    uint64_t start;             /* address of what is mapped of the file's start */
    uint32_t place, places;     /* first of its places in the table, and how many: they are in ascending order of `low` */
};

/* Return addresses that belong to a place: low < address <= high, for the instruction is the call before. */
struct nmm_plan_place {
    uint64_t low, high;
    uint64_t reach;             /* the highest of this and all before it in its module */
    uint32_t module;
    uint32_t rule;              /* NMM_PLAN_SKIPPED: frames of the C++ library or of an allocator's wrapper; from NMM_PLAN_CALLER on: a
                                 * caller of that number */
};
#define NMM_PLAN_SKIPPED 0xffffffffu
#define NMM_PLAN_CALLER 0x80000000u

struct nmm_plan_static {
    uint64_t address, bytes;
    uint32_t module;
    uint32_t rule;
};

/* Pages of 4 KiB in a row. */
struct nmm_plan_run {
    uint64_t pages;
    uint32_t node;              /* index into the rule's nodes */
    uint32_t pad;
};

/* CPUs of a thread, by the order of creation; the main thread is 0. Beyond the last thread from the first again. */
struct nmm_plan_thread {
    uint64_t cpus[NMM_PLAN_CPUS / 64];
};

/* A name that the program gives to memory. */
struct nmm_plan_label {
    uint32_t text;              /* in the texts */
    uint32_t rule;
};

/* A phase of the program. In phase n (from 1 on; 0: in none) the rule `overrides[(n - 1) * rules that have targets + rule]` stands in
 * for a rule that has targets. */
struct nmm_plan_phase {
    uint32_t text;              /* its name, in the texts */
    uint32_t by_function;       /* 1: `numamma apply` sees it begin, and moves what is there; else the program says so */
    uint64_t begun;             /* how often */
};

/* A process, and the phase it is in. */
struct nmm_plan_process {
    int32_t pid;                /* 0: free. In the applier's pid namespace */
    uint32_t phase;
};

/* Memory that has been placed. */
struct nmm_placed {
    uint64_t address, bytes;    /* whole pages */
    uint64_t base, length;      /* of the object, from which its pages are counted */
    uint32_t rule;              /* by which it lies now */
    int32_t pid;                /* in the applier's pid namespace */
    uint32_t state;             /* NMM_PLACED_*, written last */
    int32_t node;               /* a gathered slab: index of its node; else -1 */
    uint32_t pieces;            /* of the process' mappings it costs up to two each */
    uint32_t pad;
};
#define NMM_PLACED_FREE 0u
#define NMM_PLACED_LIVE 1u
#define NMM_PLACED_BUSY 2u
#define NMM_PLACED_MOVING 4u /* live, and being placed anew */
#define NMM_PLACED_ENDED 5u  /* it ended meanwhile: whoever places it anew gives it back */
#define NMM_PLACED_LEFT 3u /* by a process that became another program: as it was read last */

/* So many places are looked at for room, from nmm_plan.next_placed on; what lies behind has never been used. */
#define NMM_PLACED_TRIES 64u

/* Tables lie at `at` bytes from the start. */
struct nmm_plan_table {
    uint32_t at, count;
};

struct nmm_plan {
    uint64_t magic;
    uint32_t version;
    uint32_t strict;            /* a policy that cannot be had is a reason to end the program */
    uint64_t bytes;             /* of all */
    uint64_t least_heap, least_map; /* no smaller block or mapping is any rule's; UINT64_MAX: none is */
    uint32_t main_node;         /* 1 + the node that the main thread's CPUs are on; 0: it is not pinned, or they are on several */
    uint32_t pad1;
    struct nmm_plan_table rules, modules, places, statics, nodes, runs, threads, labels, phases, overrides, texts, processes, placed;

    /* The applier's. */
    uint32_t joined;            /* processes */
    uint32_t stopped;           /* strict: 1 + the rule that failed; the program is to be ended */
    uint32_t next_placed;       /* where to look for room in the list */
    uint32_t no_phase;          /* processes without room in the table: they are in no phase */
    uint64_t pinned, not_pinned; /* threads */
    uint64_t pad2[4];
};

#endif
