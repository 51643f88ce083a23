/* Threads. A new thread runs our trampoline, which tells where its stack and TLS lie, and then the program's routine.
 *
 * Cancellation and pthread_exit unwind through the trampoline; it has nothing to clean up (a cleanup would need libgcc's
 * personality routine). So a cancelled thread ends without NMM_THREAD_END; the recorder notices when the kernel does. */
#define _GNU_SOURCE
#include "thread.h"

#include <link.h>
#include <sys/resource.h>

#include "../base/sys.h"
#include "../emit/note.h"
#include "../emit/ring.h"
#include "../place/place.h"
#include "../unwind/memo.h"
#include "hooks.h"

void *nmm_libc_stack_end;
int (*nmm_register_atfork)(void (*)(void), void (*)(void), void (*)(void), void *);
pthread_t (*nmm_pthread_self)(void);
int (*nmm_pthread_getattr_np)(pthread_t, pthread_attr_t *);
int (*nmm_pthread_attr_getstack)(const pthread_attr_t *, void **, size_t *);

/* The kernel keeps at least this much address space free below the main thread's stack. */
#define STACK_GAP (128ul << 20)

extern void *__dso_handle __attribute__((visibility("hidden")));

bool nmm_at_fork(void (*child)(void))
{
    return nmm_register_atfork && nmm_register_atfork(NULL, NULL, child, &__dso_handle) == 0;
}

static int visit_tls(struct dl_phdr_info *info, size_t size, void *data)
{
    uintptr_t *low = data;
    if (size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data && info->dlpi_tls_data) {
        uintptr_t block = (uintptr_t)info->dlpi_tls_data, tp = nmm_thread_pointer();
        /* A block that is far away was allocated for a library that came by dlopen. */
        if (block < tp && tp - block < (16u << 20) && block < *low)
            *low = block;
    }
    return 0;
}

void nmm_measure_tls(void)
{
    uintptr_t low = nmm_thread_pointer();
    dl_iterate_phdr(visit_tls, &low);
    nmm_process.tls_bytes = nmm_thread_pointer() - low;
}

static void send_start(struct nmm_thread *self, bool main, struct nmm_bounds stack, nmm_start_routine *start)
{
    const uintptr_t tp = nmm_thread_pointer();
    /* The thread that has made this one zeroed it: that is no access to variables of either. */
    if (unlikely(nmm_process.exact))
        nmm_tell(NMM_NOTE_END, tp - nmm_process.tls_bytes, nmm_process.tls_bytes);
    const uint64_t payload[]
        = {(uint64_t)nmm_gettid(), stack.low, stack.high, tp - nmm_process.tls_bytes, tp, (uint64_t)(uintptr_t)start};
    nmm_emit(self, (struct nmm_tag){NMM_THREAD_START, main, 0}, payload, 6);
}

/* Not by pthread_getattr_np: for the main thread it reads /proc/self/maps. */
static struct nmm_bounds main_stack(struct nmm_thread *self)
{
    struct nmm_bounds stack = {0};
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    nmm_syscall(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit, 0, 0);
    stack.high = *(uintptr_t *)nmm_libc_stack_end;
    bool bounded = limit.rlim_cur < stack.high;
    stack.low = bounded ? (stack.high - limit.rlim_cur) & ~(uintptr_t)(NMM_PAGE - 1) : 0;
    /* For reading it only matters that nothing else lies between the bounds. */
    nmm_store(&self->stack.low, bounded && limit.rlim_cur > STACK_GAP ? stack.low : stack.high - STACK_GAP);
    nmm_signal_fence();
    nmm_store(&self->stack.high, stack.high);
    return stack;
}

void nmm_main_thread_started(struct nmm_thread *self)
{
    const bool unknown = self->stack.high == 0 && nmm_libc_stack_end != NULL;
    const struct nmm_bounds stack = unknown ? main_stack(self) : self->stack;
    send_start(self, true, stack, NULL);
}

void nmm_know_main_stack(struct nmm_thread *self)
{
    if (nmm_process.segment == NULL && self->stack.high == 0 && nmm_libc_stack_end != NULL && nmm_getpid() == nmm_gettid())
        main_stack(self);
}

/* The bounds of this thread's stack. pthread_getattr_np allocates, and we must not allocate from the program's heap: the
 * first allocation of a thread may create an arena, which is placement that we are here to observe. So it is served from the
 * thread's memo, which is still empty, and signals are held off meanwhile, lest a handler's allocations come from there too.
 * It has room for what is asked for on a kernel for 8192 CPUs: sets of 32, 64 .. 1024 bytes, then a copy of the last. */
static __attribute__((noinline)) struct nmm_bounds own_stack(struct nmm_thread *self, char *scratch, size_t scratch_bytes)
{
    struct nmm_bounds bounds = {0};
    if (!nmm_pthread_self || !nmm_pthread_getattr_np || !nmm_pthread_attr_getstack)
        return bounds;
    uint64_t all = ~0ull, before;
    nmm_syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&all, (long)&before, sizeof all, 0, 0);
    uint32_t depth = nmm_allocator_enter(self, NMM_FRAME);
    self->scratch_end = scratch + scratch_bytes;
    self->scratch = scratch;

    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (nmm_pthread_getattr_np(nmm_pthread_self(), &attributes) == 0) {
        if (nmm_pthread_attr_getstack(&attributes, &low, &size) == 0)
            bounds = (struct nmm_bounds){(uintptr_t)low, (uintptr_t)low + size};
        /* Not destroyed: all that would be freed is scratch. */
    }
    self->scratch = NULL;
    nmm_allocator_leave(self, depth);
    nmm_syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&before, 0, sizeof before, 0, 0);
    return bounds;
}

/* Start routine and argument on their way to a new thread. A fixed table: nothing is allocated, and a slot is free again as
 * soon as its thread runs. */
struct start {
    uint32_t used;
    nmm_start_routine *routine;
    void *argument;
    uint32_t thread;        /* its number in the plan */
};

#define STARTS 1024
static struct start starts[STARTS];
static uint32_t next_start;

static struct start *take_start(nmm_start_routine *routine, void *argument, uint32_t thread)
{
    for (unsigned tries = 0; tries < STARTS; tries++) {
        struct start *start = &starts[__atomic_fetch_add(&next_start, 1, __ATOMIC_RELAXED) % STARTS];
        if (nmm_load(&start->used) == 0 && __atomic_exchange_n(&start->used, 1, __ATOMIC_ACQUIRE) == 0) {
            start->routine = routine;
            start->argument = argument;
            start->thread = thread;
            return start;
        }
    }
    return NULL;
}

static void not_started(struct start *start)
{
    nmm_place_thread_ended(start->thread);
    nmm_store_release(&start->used, 0);
}

static void thread_ended(struct nmm_thread *self)
{
    nmm_place_thread_ended(nmm_self.number);
    nmm_self.number = 0;
    if (self == NULL)
        return;
    const uint64_t payload[] = {(uint64_t)nmm_load(&self->ring->tid)};
    nmm_emit(self, (struct nmm_tag){NMM_THREAD_END, 0, 0}, payload, 1);
}

static struct nmm_bounds know_stack(struct nmm_thread *self, char *scratch, size_t scratch_bytes)
{
    const struct nmm_bounds stack = own_stack(self, scratch, scratch_bytes);
    /* In this order: a handler in between must find an empty range, not one that begins at 0. */
    nmm_store(&self->stack.low, stack.low);
    nmm_signal_fence();
    nmm_store(&self->stack.high, stack.high);
    return stack;
}

/* A thread that is not recorded has no memo; near its start its stack has room. */
static __attribute__((noinline)) void know_stack_without_memo(void)
{
    char scratch[sizeof ((struct nmm_memo *)0)->more];
    know_stack(&nmm_self, scratch, sizeof scratch);
}

static void *trampoline(void *data)
{
    struct start *slot = data;
    nmm_start_routine *routine = slot->routine;
    void *argument = slot->argument;
    const uint32_t thread = slot->thread;
    nmm_store_release(&slot->used, 0);
    nmm_self.number = thread;
    nmm_place_pin(thread);

    struct nmm_thread *self = nmm_enter((uintptr_t)NMM_FRAME);
    if (self)
        send_start(self, false, know_stack(self, (char *)nmm_memo_spend(self->memo), sizeof self->memo->more), routine);
    else if (nmm_place.plan != NULL)
        know_stack_without_memo();
    void *result = routine(argument);
    thread_ended(nmm_enter((uintptr_t)NMM_FRAME));
    return result;
}

int nmm_hook_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, nmm_start_routine *routine, void *argument)
{
    struct nmm_thread *self = nmm_enter_hook(NMM_FRAME);
    if (unlikely(nmm_real.pthread_create == NULL))
        nmm_resolve_late();
    if (nmm_real.pthread_create == NULL)
        return 11 /* EAGAIN */;
    const uint32_t number = nmm_place_new_thread();
    struct start *start = self || nmm_place.plan != NULL ? take_start(routine, argument, number) : NULL;
    if (start == NULL) {
        nmm_place_thread_ended(number);
        return nmm_real.pthread_create(thread, attributes, routine, argument);
    }
    int error = nmm_real.pthread_create(thread, attributes, trampoline, start);
    if (error != 0)
        not_started(start);
    return error;
}

/* The same for threads of C11, whose routines return an int: it comes back in the lower half of where a pointer would. */
static int c11_trampoline(void *data) { return (int)(intptr_t)trampoline(data); }

int nmm_hook_thrd_create(void *thread, nmm_c11_routine *routine, void *argument)
{
    struct nmm_thread *self = nmm_enter_hook(NMM_FRAME);
    if (unlikely(nmm_real.thrd_create == NULL))
        nmm_resolve_late();
    if (nmm_real.thrd_create == NULL)
        return 2 /* thrd_error */;
    const uint32_t number = nmm_place_new_thread();
    struct start *start
        = self || nmm_place.plan != NULL ? take_start((nmm_start_routine *)(void *)routine, argument, number) : NULL;
    if (start == NULL) {
        nmm_place_thread_ended(number);
        return nmm_real.thrd_create(thread, routine, argument);
    }
    int error = nmm_real.thrd_create(thread, c11_trampoline, start);
    if (error != 0)
        not_started(start);
    return error;
}

void nmm_hook_pthread_exit(void *result)
{
    thread_ended(nmm_enter_hook(NMM_FRAME));
    if (unlikely(nmm_real.pthread_exit == NULL))
        nmm_resolve_late();
    nmm_real.pthread_exit(result); /* who calls it has it */
}
