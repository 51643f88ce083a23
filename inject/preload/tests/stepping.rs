//! Signal handlers at every instruction of the hooks.
//!
//! A program steps through a call of `malloc` and `free` once, for the order of its instructions. Then it makes the call again
//! and again with a breakpoint at the next of them, and a handler allocates there. So what `emit/ring.h` says of handlers is
//! tried at each point of the machine code, not only where a timer happens to hit.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{ALLOCATOR, Bench, Recording, replay};
use numamma_wire::{Event, Options};

/// How a program interrupts itself.
const STEPPER: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
enum { OUTER = 13003, INNER = 13001, INNERMOST = 13005, AFTER = 13007, MOST = 1 << 16 };
static __attribute__((noinline)) void pair(size_t size)
{
    void *p = malloc(size);
    __asm__ volatile("" : : "r"(p) : "memory");
    free(p);
}

/* Code of the library and of the allocator, writable. */
static uintptr_t low[2], high[2];
static int find_code(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    int which = strstr(info->dlpi_name, "libnumamma") ? 0 : strstr(info->dlpi_name, "liballocator") ? 1 : -1;
    for (int i = 0; which >= 0 && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
            continue;
        low[which] = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & ~4095ul;
        high[which] = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz + 4095) & ~4095ul;
        if (mprotect((void *)low[which], high[which] - low[which], PROT_READ | PROT_WRITE | PROT_EXEC))
            abort();
    }
    return 0;
}

/* The instructions of a call in the order in which it comes to them; `pass` counts how often it has been at each. */
static struct instruction {
    uintptr_t at;
    long pass;
} *trace; /* shared with children */
static long *traced;

/* A breakpoint at a pass of an instruction, one for each level of handlers. */
static struct breakpoint {
    unsigned char *at, code;
    long left;
} points[2];
static volatile int level, stepping;
static volatile long handled[2], inner_at = -1;
static sigjmp_buf back;
static volatile int jumps;

static void arm(int which, struct instruction instruction)
{
    points[which] = (struct breakpoint){(unsigned char *)instruction.at, *(unsigned char *)instruction.at, instruction.pass};
    *points[which].at = 0xcc;
}

static void disarm(int which)
{
    if (points[which].at)
        *points[which].at = points[which].code;
    points[which].at = NULL;
}

static void hit(void)
{
    const int here = level;
    disarm(here);
    level = here + 1;
    if (here == 0 && inner_at >= 0)
        arm(1, trace[inner_at]);
    pair(here == 0 ? INNER : INNERMOST);
    disarm(1);
    handled[here]++;
    level = here;
    if (jumps)
        siglongjmp(back, 1);
}

#define TRAP_FLAG 0x100
static void trapped(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uintptr_t at = (uintptr_t)registers[REG_RIP];
    struct breakpoint *point = &points[level < 2 ? level : 1];
    if (stepping) {
        const int inside = (at >= low[0] && at < high[0]) || (at >= low[1] && at < high[1]);
        if (inside && *traced < MOST)
            trace[(*traced)++].at = at;
    } else if (registers[REG_EFL] & TRAP_FLAG) { /* past the instruction: until the next pass */
        registers[REG_EFL] &= ~TRAP_FLAG;
        if (point->at)
            *point->at = 0xcc;
    } else if (point->at && at == (uintptr_t)point->at + 1) {
        registers[REG_RIP] = (greg_t)point->at;
        if (--point->left > 0) {
            *point->at = point->code;
            registers[REG_EFL] |= TRAP_FLAG;
        } else {
            hit();
        }
    } else {
        abort();
    }
}

static void count_passes(void)
{
    static int passes[2][1 << 20];
    for (long i = 0; i < *traced; i++) {
        int which = trace[i].at >= low[0] && trace[i].at < high[0] ? 0 : 1;
        trace[i].pass = ++passes[which][(trace[i].at - low[which]) & ((1 << 20) - 1)];
    }
}

/* A call from always the same place: interrupted at an instruction, stepped through to find them, or neither. */
enum { PLAIN = -2, STEPPED = -1 };
static __attribute__((noinline)) void call(long instruction)
{
    if (instruction >= 0)
        arm(0, trace[instruction]);
    stepping = instruction == STEPPED;
    if (stepping)
        __asm__ volatile("lea -128(%%rsp), %%rsp\npushfq\norq $0x100, (%%rsp)\npopfq\nlea 128(%%rsp), %%rsp" : : : "memory", "cc");
    pair(OUTER);
    if (stepping)
        __asm__ volatile("lea -128(%%rsp), %%rsp\npushfq\nandq $~0x100, (%%rsp)\npopfq\nlea 128(%%rsp), %%rsp" : : : "memory", "cc");
    if (stepping)
        count_passes();
    stepping = 0;
    disarm(0);
}

static void prepare(void)
{
    /* NODEFER: a handler may be interrupted, too. */
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_NODEFER | SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
    dl_iterate_phdr(find_code, 0);
    trace = mmap(0, MOST * sizeof *trace + sizeof *traced, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    traced = (long *)(trace + MOST);
    if (!low[0] || !low[1] || trace == MAP_FAILED)
        exit(9);
}

/* Calls until they all take the same way, then one that is stepped through, then one interrupted at each instruction; after each
 * of those a plain one, for a handler leaves other things remembered. */
static void call_interrupted_at_each(int rounds)
{
    unsigned random = 1;
    for (int round = 0; round < rounds; round++)
        for (long i = round ? 0 : -5; i < *traced || i < 0; i++) {
            call(i < STEPPED ? PLAIN : i);
            call(PLAIN);
            random = random * 1103515245 + 12345;
            if (rounds > 1 && *traced)
                inner_at = (random >> 8) % *traced;
        }
    printf("instructions %ld\ninner %ld\ninnermost %ld\n", *traced, handled[0], handled[1]);
}
"#;

/// Runs `main` with an allocator that may be interrupted anywhere.
fn step(bench: &Bench, main: &str) -> Recording {
    bench.run_with_allocator(ALLOCATOR, &format!("{STEPPER}\n{main}"), &["-Wl,-z,now"])
}

/// Sizes of the interrupted call, of its handler, of that one's handler, and of calls that nothing interrupts.
const OUTER: u64 = 13003;
const INNER: u64 = 13001;
const INNERMOST: u64 = 13005;
const AFTER: u64 = 13007;

fn count(recording: &Recording, size: u64) -> u64 {
    recording.allocs(size).len() as u64
}

/// As many releases as allocations of ours.
fn check_releases(recording: &Recording) {
    let allocs: u64 = [OUTER, INNER, INNERMOST, AFTER].map(|size| count(recording, size)).iter().sum();
    let frees = recording.events().iter().filter(|event| matches!(event, Event::Free { .. })).count() as u64;
    assert!(frees >= allocs, "{frees} releases of {allocs}");
}

#[test]
fn a_handler_at_every_instruction() {
    let main = r#"
int main(void)
{
    prepare();
    call_interrupted_at_each(1);
    return 0;
}
"#;
    // In the small ring, each point is also met where the ring ends, is half full, or has no room.
    let small = Bench { options: Options { ring_bytes: 4096, ..Options::default() }, ..Bench::new() };
    for bench in [Bench::new(), small] {
        let recording = step(&bench, main).check();
        let (instructions, inner) = (recording.printed("instructions"), recording.printed("inner"));
        assert!(instructions > 200 && inner > instructions * 9 / 10, "{inner} of {instructions}");
        assert_eq!((count(&recording, OUTER), count(&recording, INNER)), (2 * (instructions + 5), inner));
        check_releases(&recording);
    }
}

/// A handler that is itself interrupted: pairs of instructions that are spread over all.
#[test]
fn a_handler_in_a_handler() {
    let main = r#"
int main(void)
{
    prepare();
    call_interrupted_at_each(12);
    return 0;
}
"#;
    let recording = step(&Bench::new(), main).check();
    let [instructions, inner, innermost] = ["instructions", "inner", "innermost"].map(|name| recording.printed(name));
    assert!(innermost > instructions, "{instructions} {inner} {innermost}");
    let seen = [OUTER, INNER, INNERMOST].map(|size| count(&recording, size));
    assert_eq!(seen, [2 * (12 * instructions + 5), inner, innermost]);
    check_releases(&recording);
}

/// A handler that jumps out: what it interrupted may be lost, which is counted; the thread is not silenced.
#[test]
fn a_jump_from_every_instruction() {
    let main = r#"
int main(void)
{
    volatile long jumped = 0;
    prepare();
    for (volatile long i = -5; i < *traced || i < 0; i++) {
        jumps = i >= 0;
        if (sigsetjmp(back, 1) == 0) {
            call(i < STEPPED ? PLAIN : i);
        } else {
            level = 0;
            jumped++;
        }
        call(PLAIN);
        pair(AFTER);
        call(PLAIN);
    }
    printf("instructions %ld\n", *traced);
    printf("jumped %ld\n", jumped);
    return 0;
}
"#;
    let recording = step(&Bench::new(), main);
    assert_eq!((recording.exit, &recording.malformed[..]), (Some(0), &[][..]), "{}", recording.errors);
    let (instructions, jumped) = (recording.printed("instructions"), recording.printed("jumped"));
    assert!(jumped > instructions * 9 / 10, "{jumped} of {instructions}");
    assert_eq!(count(&recording, AFTER), instructions + 5);
    // A jump out of an emitter costs what that had begun, and what its handler wrote behind it: one loss is counted.
    let (inner, losses) = (count(&recording, INNER), recording.losses().full);
    assert!(losses <= jumped && jumped - inner <= losses, "{inner} of {jumped}, {losses} lost");
}

/// The first call of a process: a ring is claimed, the process and its thread are announced, the stack is walked for the first
/// time. Each child is one try at one instruction; every fifth of them, for a child takes longer than a call.
#[test]
fn a_handler_in_the_first_call() {
    let main = r#"
int main(void)
{
    long children = 0, inner = 0;
    prepare();
    for (long i = -1; i < *traced; i += 5) {
        pid_t pid = fork();
        if (pid == 0) {
            call(i);
            if (i % 2) /* else what it wrote must be visible without anything after it */
                pair(AFTER);
            _exit(handled[0] ? 1 : 0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
            return 1;
        children++;
        inner += WEXITSTATUS(status);
    }
    printf("instructions %ld\nchildren %ld\ninner %ld\n", *traced, children, inner);
    return 0;
}
"#;
    let recording = step(&Bench::new(), main);
    assert_eq!((recording.exit, &recording.malformed[..]), (Some(0), &[][..]), "{}", recording.errors);
    let [instructions, children, inner] = ["instructions", "children", "inner"].map(|name| recording.printed(name));
    assert!(children * 5 > instructions && inner > children * 9 / 10, "{inner} of {children}, {instructions}");
    assert_eq!((count(&recording, OUTER), count(&recording, AFTER)), (children, children.div_ceil(2)));
    // A handler that interrupts the claiming of a ring has none to write to: its two events are counted instead.
    let seen = count(&recording, INNER);
    assert!(2 * (inner - seen) <= recording.lost_no_ring, "{seen} of {inner}, {} lost", recording.lost_no_ring);
    assert!(seen > inner / 2, "{seen} of {inner}");
    assert_eq!(recording.losses().full, 0);
}

/// As [`ALLOCATOR`], but what was freed last is given out first: the calls and their handlers take each other's addresses.
const REUSING: &str = r#"
#include <stddef.h>
#include <string.h>
static char pool[64 << 20];
static size_t used;
static void *spare[2];
static volatile int busy;
struct header { size_t size, pad; };
void *malloc(size_t n)
{
    struct header *h = NULL;
    for (busy = 0; busy < 5; busy++) ;
    for (int i = 0; i < 2 && n <= 1032 && h == NULL; i++) h = __atomic_exchange_n(&spare[i], NULL, __ATOMIC_RELAXED);
    if (h == NULL) h = (struct header *)(pool + __atomic_fetch_add(&used, (n < 1040 ? 1040 : n + 15 & ~(size_t)15) + 16, __ATOMIC_RELAXED));
    h->size = n;
    return h + 1;
}
void free(void *p)
{
    struct header *h = p ? (struct header *)p - 1 : NULL;
    for (busy = 0; busy < 5; busy++) ;
    for (int i = 0; i < 2 && h && h->size <= 1032; i++) h = __atomic_exchange_n(&spare[i], h, __ATOMIC_RELAXED);
}
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }
"#;

/// The same where the hooks keep events to themselves: a handler finds the table of recent blocks in any state.
#[test]
fn a_handler_at_every_instruction_of_the_table() {
    let main = r#"
int main(void)
{
    prepare();
    /* Always from here: the call comes anew, but for what its handler did. */
    for (long i = -5; i < *traced || i < 0; i++)
        for (volatile int turn = 0; turn < 3; turn++)
            call(turn || i < STEPPED ? PLAIN : i);
    printf("instructions %ld\ninner %ld\n", *traced, handled[0]);
    return 0;
}
"#;
    let small = STEPPER.replace("13003", "103").replace("13001", "101").replace("13005", "105").replace("13007", "107");
    let recording =
        Bench::collapsing().run_with_allocator(REUSING, &format!("{small}\n{main}"), &["-Wl,-z,now"]).check();
    let (instructions, inner) = (recording.printed("instructions"), recording.printed("inner"));
    assert!(instructions > 200 && inner > instructions * 9 / 10, "{inner} of {instructions}");
    let (mut events, mut seen) = (0, [0; 2]);
    for event in recording.events() {
        let (size, count) = match event {
            Event::Alloc { size, .. } => (size, 1),
            Event::Repeat { size, count, .. } => (size, count),
            _ => continue,
        };
        if let Some(at) = [103, 101].iter().position(|known| *known == size) {
            events += u64::from(matches!(event, Event::Alloc { .. }));
            seen[at] += count;
        }
    }
    assert_eq!(seen, [3 * (instructions + 5), inner]);
    assert!(2 * events < seen.iter().sum(), "{events} events for {seen:?}");
    assert!(!replay(&recording).values().any(|size| [103, 101].contains(size)));
}
