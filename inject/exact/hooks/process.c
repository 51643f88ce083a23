/* The life of a process that tells of its accesses: when counting begins, what ends the meaning of addresses, and when all must be
 * sent.
 *
 * Whatever is not a plain count happens with signals blocked: no handler then finds a lock taken or an event half written. Nothing
 * of libc is called here that could allocate or set errno. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <dlfcn.h>

#include "../../preload/base/sys.h"
#include "../../wire/include/numamma_note.h"
#include "../count/blocks.h"
#include "access.h"
#include "offered.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum state {
    NOT_ASKED,
    BEGINNING,
    COUNTING,
    OFF, /* not recorded, not to be counted here, or no longer */
};
static uint32_t state;

/* 1; the kernel makes it 0 in the child of a fork. */
static uint32_t *alive;

/* Of the process that counts: a child of vfork shares its memory, and what it does is its parent's. */
static int own_pid;

/* There was no memory for this thread's counters. */
static __thread bool refused;

/* Tells the ends of threads. */
static pthread_key_t key;
static bool has_key;

/* `left` of a thread that has begun to end the process: what it still accesses is sent at once. */
#define ENDING INT64_MIN

static inline uint64_t block_signals(void)
{
    uint64_t all = ~0ull, before = 0;
    nmm_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all, 0, 0);
    return before;
}

static inline void let_signals(uint64_t before)
{
    nmm_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
}

/* No handler finds a lock of the caches taken. */
uint64_t nmc_guard(void) { return block_signals(); }

void nmc_unguard(uint64_t before) { let_signals(before); }

/* ---- Threads */

static void end_thread(void *unused)
{
    (void)unused;
    if (nmm_load(&state) != COUNTING || nmm_load(alive) == 0)
        return;
    const uint64_t before = block_signals();
    nmx_end_thread();
    let_signals(before);
}

/* It is not counted, which is said as a thread for which there was no room. */
void nmx_no_memory(void)
{
    refused = true;
    nmx_lost_thread();
}

void nmx_thread_begins(struct nmx_thread *self)
{
    if (self->caches) {
        self->rest = self->left;
        self->left = 1;
    }
    /* The first keys of a process have their place in each thread: nothing is allocated. */
    if (has_key)
        pthread_setspecific(key, self);
}

/* First touches are page faults, which the kernel tells of. */
void nmx_page_seen(struct nmx_writer *writer, uint64_t address, uint64_t ip, bool write)
{
    (void)writer, (void)address, (void)ip, (void)write;
}

/* ---- Forks */

static void say_counting(bool forked)
{
    struct nmx_writer *writer = nmx_writer();
    if (writer)
        nmx_emit(writer, NMM_COUNTING, forked ? 3 : 2, NULL, 0, NULL, 0);
}

/* With signals blocked. */
static void know_if_forked(void)
{
    if (likely(nmm_load(alive) != 0))
        return;
    nmx_reborn();
    refused = false;
    own_pid = nmm_getpid();
    nmm_store(alive, 1);
    say_counting(true);
}

static void child_of_old_kernel(void)
{
    nmm_store(alive, 0);
    nmc_reborn();
    if (nmx_self)
        nmx_self->left = 0;
}

/* ---- Accesses */

/* One access of a handler, or of a process that ends. */
static void send_one(uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    const uint64_t before = block_signals();
    know_if_forked();
    const struct nmx_thread *self = nmx_self;
    struct nmx_writer *writer = nmx_writer();
    if (writer) {
        const uint64_t payload[] = {address & ~3ull, (uint64_t)nmm_gettid(), write ? 1ull << 32 : 1};
        nmx_emit(writer, NMM_ACCESSES, 0, payload, 3, NULL, 0);
        if (unlikely(nmx_may_trace()))
            nmx_emit_access(writer, address, bytes, ip, write);
        if (self && nmm_load(&self->left) == ENDING)
            nmx_emit(writer, NMM_COUNTED, 0, NULL, 0, NULL, 0);
    }
    let_signals(before);
}

/* Stacks of threads are not larger, as a rule. */
#define FARTHEST (64ul << 20)
/* The kernel puts the registers between a handler's frame and what it interrupts, and leaves 128 bytes free: that takes more. What
 * we need of the stack ourselves takes less. */
#define CLOSEST 512

/* Whether what was at the counters has been left by a longjmp: on one stack, whatever a handler interrupts is above it. */
static bool was_left(uintptr_t then, uintptr_t now)
{
    stack_t stack = {0};
    now += CLOSEST;
    return now >= then && now - then < FARTHEST && nmm_syscall(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0) == 0
        && !(stack.ss_flags & SS_ONSTACK);
}

/* The thread's counters, where they are not there yet, or are its parent's. */
static NMM_COLD struct nmx_thread *begin(void)
{
    if (nmm_load(&state) == NOT_ASKED)
        numamma_counts_wanted();
    if (nmm_load_acquire(&state) != COUNTING || (nmx_self == NULL && refused && nmm_load(alive) != 0))
        return NULL;
    const uint64_t before = block_signals();
    know_if_forked();
    struct nmx_thread *self = nmx_self ? nmx_self : nmx_begin_thread();
    let_signals(before);
    return self;
}

/* What is done of an access with signals blocked: a look at the clock, a page that the thread has not accessed, a trace. The page; NULL
 * if a handler has forked meanwhile: this is the child, and what `self` was is gone. */
static NMM_COLD struct nmx_page *add_slowly(
    struct nmx_thread *self, struct nmx_page *page, uint64_t address, unsigned bytes, uint64_t ip, bool write, int64_t *left)
{
    const uint64_t before = block_signals();
    const bool ours = nmm_load(alive) != 0;
    if (likely(ours)) {
        if (*left <= 1) {
            nmx_look(self);
            *left = NMX_LOOK;
        }
        page = page ? page : nmx_find(self, address, 0, write);
        nmx_add(page, address, write);
        --*left;
        if (self->tracing)
            *left = nmx_trace_one(self, address, bytes, ip, write, *left);
    }
    let_signals(before);
    return ours ? page : NULL;
}

/* Where the thread counts an access; NULL if that is to be found, or if the clock is to be looked at. */
static inline struct nmx_page *page_of(struct nmx_thread *self, uint64_t address, bool write, int64_t left)
{
    /* Looking may put it in the cache of a table that sending empties. */
    if (unlikely(left <= 1))
        return NULL;
    struct nmx_page *page = self->cache[address >> 12 & (NMX_CACHE - 1)];
    if (likely(page != NULL && nmm_load(&page->numbers[write]) == address >> 12))
        return page;
    return nmx_known(self, address, write);
}

void nmx_slowly(uint64_t address, unsigned bytes, uint64_t ip, bool write)
{
    for (;;) {
        struct nmx_thread *self = nmx_self;
        if (unlikely(self == NULL || nmm_load(&state) != COUNTING || nmm_load(alive) == 0) && (self = begin()) == NULL)
            return;
        const uintptr_t here = nmx_stack_pointer();
        int64_t left = nmm_load(&self->left);
        if (unlikely(left < 0)) {
            if (left == ENDING || !was_left((uintptr_t)-left, here)) {
                send_one(address, bytes, ip, write);
                return;
            }
            left = NMX_LOOK;
        } else if (self->caches) {
            left = self->rest;
        }
        /* A handler may fork: then the child finds `self` empty, and the caches, but all of it is there. */
        struct nmc_private *caches = self->caches;
        nmm_store(&self->left, -(int64_t)here);
        nmx_signal_fence();
        struct nmx_page *page = page_of(self, address, write, left);
        if (likely(page != NULL && !self->tracing)) {
            nmx_add(page, address, write);
            left--;
        } else if (unlikely((page = add_slowly(self, page, address, bytes, ip, write, &left)) == NULL)) {
            continue;
        }
        if (caches) {
            if (unlikely(nmc_reaches(caches, address, bytes, ip, write)))
                nmx_add_memory(page, address, write);
            self->rest = left;
            left = 1;
        }
        nmx_signal_fence();
        nmm_store(&self->left, left);
        return;
    }
}

/* ---- What the library tells */

HOOK void __tsan_init(void);
HOOK void __tsan_init(void)
{
    if (nmm_load(&state) == NOT_ASKED)
        numamma_counts_wanted();
}

static bool prepare(const char *segment, bool ids_shared)
{
    alive = nmm_map(NMM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (alive == NULL || !nmx_join(segment, ids_shared))
        return false;
    *alive = 1;
    if (!nmm_advise(alive, NMM_PAGE, MADV_WIPEONFORK) && pthread_atfork(NULL, NULL, child_of_old_kernel) != 0)
        return false;
    has_key = pthread_key_create(&key, end_thread) == 0;
    return true;
}

HOOK uint32_t numamma_counts_begin(const char *segment, bool ids_shared)
{
    uint32_t expected = NOT_ASKED;
    if (!__atomic_compare_exchange_n(&state, &expected, BEGINNING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return expected == COUNTING ? NMM_COUNTS_ACCESSES : NMM_COUNTS_NOTHING;
    const enum nmx_offered offered = nmx_offered();
    if (offered != NMX_OUR_HOOKS || !prepare(segment, ids_shared)) {
        nmm_store(&state, OFF);
        return offered == NMX_NO_HOOKS ? NMM_COUNTS_OTHERS : NMM_COUNTS_NOTHING;
    }
    const uint64_t before = block_signals();
    own_pid = nmm_getpid();
    nmm_store_release(&state, COUNTING);
    say_counting(false);
    let_signals(before);
    return NMM_COUNTS_ACCESSES;
}

/* With signals blocked. */
static void everything_is_sent(void)
{
    struct nmx_writer *writer = nmx_writer();
    if (writer == NULL)
        return;
    nmx_take_all();
    nmx_emit(writer, NMM_COUNTED, 0, NULL, 0, NULL, 0);
}

HOOK void numamma_counts_note(uint32_t what, uint64_t address, uint64_t length)
{
    if (nmm_load(&state) != COUNTING)
        return;
    const uint64_t before = block_signals();
    know_if_forked();
    if (what == NMM_NOTE_QUIET) {
        everything_is_sent();
        nmx_muted();
        nmm_store(&state, OFF);
        nmx_self = NULL;
    } else if (what == NMM_NOTE_ALL) {
        nmx_take_all();
    } else {
        nmx_cut(address, address + length, what == NMM_NOTE_BLOCK);
        if (what != NMM_NOTE_END)
            nmx_block_begins((struct nmx_range){address, address + length}, what == NMM_NOTE_MAPPING);
    }
    let_signals(before);
}

/* ---- The end */

static void send_everything(bool ends)
{
    if (nmm_load_acquire(&state) != COUNTING)
        return;
    const uint64_t before = block_signals();
    know_if_forked();
    if (nmm_getpid() == own_pid) {
        everything_is_sent();
        if (ends && nmx_self)
            nmm_store(&nmx_self->left, ENDING);
    }
    let_signals(before);
}

/* Destructors of libraries that were loaded after us are still to come. */
__attribute__((destructor)) static void end(void) { send_everything(true); }

/* Functions that end the program's image look here first and go on as they were called: their arguments may be many, and on the
 * stack. Where the program does not count, nothing is done. */
enum { EXITS, EXECUTES, KILLS, RAISES };

#define LEAVING(define) \
    define(_exit, EXITS) define(_Exit, EXITS) define(quick_exit, EXITS) define(abort, EXECUTES) define(kill, KILLS) \
    define(raise, RAISES) define(execl, EXECUTES) define(execle, EXECUTES) define(execlp, EXECUTES) define(execv, EXECUTES) \
    define(execve, EXECUTES) define(execvp, EXECUTES) define(execvpe, EXECUTES) define(fexecve, EXECUTES)

#define PLACE(name, how) PLACE_##name,
enum { LEAVING(PLACE) PLACES };
__attribute__((used, visibility("hidden"))) void *nmx_next[PLACES];

struct leaving {
    const char *name;
    int how;
};
#define NAME(name, how) {#name, how},
static const struct leaving leaving[] = {LEAVING(NAME)};

static bool may_kill(long signal)
{
    return signal == SIGABRT || signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

static void find_next(void)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (nmx_next[i] == NULL)
            nmx_next[i] = dlsym(RTLD_NEXT, leaving[i].name);
}

__attribute__((constructor)) static void begin_image(void) { find_next(); }

__attribute__((used, visibility("hidden"))) void *nmx_look_at_leaving(unsigned place, long a, long b)
{
    const int how = leaving[place].how;
    if (how == EXITS || how == EXECUTES || (how == KILLS && may_kill(b)) || (how == RAISES && may_kill(a)))
        send_everything(how == EXITS);
    if (unlikely(nmx_next[place] == NULL))
        find_next();
    return nmx_next[place];
}

#define STUB(name, how) \
    __asm__(".text\n" \
            ".globl " #name "\n" \
            ".type " #name ", @function\n" #name ":\n" \
            "    .cfi_startproc\n" \
            "    push %rdi\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %rsi\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %rdx\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %rcx\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %r8\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %r9\n    .cfi_adjust_cfa_offset 8\n" \
            "    push %rax\n    .cfi_adjust_cfa_offset 8\n" \
            "    mov %rsi, %rdx\n" \
            "    mov %rdi, %rsi\n" \
            "    mov nmx_place_of_" #name "(%rip), %edi\n" \
            "    call nmx_look_at_leaving\n" \
            "    mov %rax, %r11\n" \
            "    pop %rax\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %r9\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %r8\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %rcx\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %rdx\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %rsi\n    .cfi_adjust_cfa_offset -8\n" \
            "    pop %rdi\n    .cfi_adjust_cfa_offset -8\n" \
            "    jmp *%r11\n" \
            "    .cfi_endproc\n" \
            ".size " #name ", . - " #name "\n");
#define NUMBER(name, how) __attribute__((used, visibility("hidden"))) const unsigned nmx_place_of_##name = PLACE_##name;
LEAVING(NUMBER)
LEAVING(STUB)
