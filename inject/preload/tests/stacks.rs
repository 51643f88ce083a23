//! Call stacks without frame pointers.

mod common;

use common::{Bench, Recording};
use numamma_wire::Event;

/// Functions f0 (outermost) .. f11 (innermost) that call each other through a table, so that nothing is inlined. Each prints
/// its range. `BODY` is what a frame does besides.
const DEEP: &str = r#"
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void step(int);
static step *const table[];
static volatile int sink;
#ifndef BODY
#define BODY char local[16 * (N + 1)]; memset(local, n, sizeof local); sink = local[n & 7];
#endif
#define F(N_) __attribute__((noinline, section("frames" #N_))) static void f##N_(int n) { enum { N = N_ }; BODY table[n + 1](n + 1); sink = n; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10)
__attribute__((noinline, section("frames11"))) static void f11(int n) { void *p = malloc(SIZE + n); sink = n; free(p); }
static step *const table[] = {f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11};
#define R(N) extern char __start_frames##N[], __stop_frames##N[]; printf("low" #N " %p\nhigh" #N " %p\n", __start_frames##N, __stop_frames##N);
static void *run(void *arg) { table[0](0); sink++; return arg; }
int main(void)
{
    R(0) R(1) R(2) R(3) R(4) R(5) R(6) R(7) R(8) R(9) R(10) R(11)
    for (int i = 0; i < 3; i++) run(0);
    pthread_t t;
    pthread_create(&t, 0, run, 0);
    pthread_join(t, 0);
    return 0;
}
"#;

fn deep_frames(recording: &Recording, size: u64) {
    let allocs = recording.allocs(size + 11);
    assert_eq!(allocs.len(), 4);
    for event in allocs {
        let Event::Alloc { stack, .. } = event else { panic!() };
        let (frames, cut) = recording.stack(stack).expect("the stack was sent");
        assert!(!cut, "the walk reaches the outermost frame: {frames:x?}");
        assert!(frames.len() >= 12, "{frames:x?}");
        for (i, frame) in frames.iter().take(12).enumerate() {
            let (low, high) =
                (recording.printed(&format!("low{}", 11 - i)), recording.printed(&format!("high{}", 11 - i)));
            assert!((low..high).contains(frame), "frame {i}, {frame:x}, is not in f{}: {low:x}..{high:x}", 11 - i);
        }
    }
}

fn deep(compiler_flags: &[&str], body: &str) {
    let mut flags = vec!["-DSIZE=5000"];
    flags.extend(compiler_flags);
    let define = format!("-DBODY={body}");
    if !body.is_empty() {
        flags.push(&define);
    }
    deep_frames(&Bench::new().run(DEEP, &flags).check(), 5000);
}

#[test]
fn twelve_frames_optimised_without_frame_pointers() {
    deep(&["-O2", "-fomit-frame-pointer"], "");
}

#[test]
fn twelve_frames_with_frame_pointers_and_unoptimised() {
    deep(&["-O0", "-fno-omit-frame-pointer"], "");
}

#[test]
fn frames_with_alloca_need_the_frame_pointer() {
    deep(&["-O2", "-fomit-frame-pointer"], "char *p = alloca(64 * (n + 1)); memset(p, n, 8); sink = p[n & 7];");
}

#[test]
fn realigned_frames() {
    deep(
        &["-O2", "-fomit-frame-pointer"],
        "char p[256] __attribute__((aligned(128))); memset(p, n, 256); sink = p[n];",
    );
    deep(&["-O2", "-mstackrealign", "-fomit-frame-pointer"], "");
    // Realigned and alloca: gcc keeps the old stack pointer in a register that it saves (DRAP).
    deep(
        &["-O2", "-fomit-frame-pointer"],
        "char q[64] __attribute__((aligned(64))); char *p = alloca(64 * (n + 1)); memset(p, n, 8); memset(q, n, 64); sink = p[n & 7] + q[n];",
    );
}

#[test]
fn big_frames() {
    deep(&["-O2", "-fomit-frame-pointer"], "char local[40000]; memset(local, n, sizeof local); sink = local[n];");
}

#[test]
fn mixed_with_code_built_by_clang() {
    let clang = std::process::Command::new("clang").arg("--version").output();
    if !clang.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no clang");
        return;
    }
    let bench = Bench::new();
    let source = bench.path("clang.c");
    std::fs::write(&source, DEEP).expect("write the source");
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let program = bench.path("clang");
        let status = std::process::Command::new("clang")
            .args([level, "-fno-builtin", "-fomit-frame-pointer", "-pthread", "-DSIZE=5000", "-w"])
            .args([&source, std::path::Path::new("-o"), &program])
            .status();
        assert!(status.expect("run clang").success());
        deep_frames(&bench.record(&mut std::process::Command::new(&program)).check(), 5000);
    }
}

#[test]
fn deep_recursion_is_cut_and_marked() {
    let source = r#"
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) static void down(int n) { if (n == 0) free(malloc(4001)); else down(n - 1); sink = n; }
int main(void) { down(1000); down(5); return 0; }
"#;
    let bench = Bench::new();
    let recording = bench.run(source, &["-O1", "-fomit-frame-pointer"]).check();
    let stacks: Vec<(usize, bool)> = recording
        .allocs(4001)
        .into_iter()
        .map(|event| {
            let Event::Alloc { stack, .. } = event else { panic!() };
            let (frames, cut) = recording.stack(stack).expect("the stack was sent");
            (frames.len(), cut)
        })
        .collect();
    assert_eq!(stacks[0], (bench.options.max_frames as usize, true));
    assert!(stacks[1].0 >= 7 && stacks[1].0 < 15 && !stacks[1].1, "{stacks:?}");
}

#[test]
fn a_stack_is_sent_once() {
    let source = r#"
#include <stdlib.h>
int main(void) { for (int i = 0; i < 10000; i++) free(malloc(4003)); return 0; }
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    assert_eq!(recording.allocs(4003).len(), 10_000);
    let stacks = recording.events().iter().filter(|event| matches!(event, Event::Stack { .. })).count();
    assert!(stacks < 20, "{stacks}");
}

#[test]
fn through_a_signal_handler() {
    let source = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline, section("inner"))) static void handler(int n) { void *p = malloc(6000 + n); sink = n; free(p); }
__attribute__((noinline, section("outer"))) static void interrupted(void) { raise(SIGUSR1); raise(SIGUSR2); sink++; }
int main(void)
{
    extern char __start_inner[], __stop_inner[], __start_outer[], __stop_outer[];
    static char other[65536];
    stack_t ss = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction act = {.sa_handler = handler};
    sigaction(SIGUSR1, &act, 0);
    sigaltstack(&ss, 0);
    act.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &act, 0);
    printf("inner %p\ninner_end %p\nouter %p\nouter_end %p\n", __start_inner, __stop_inner, __start_outer, __stop_outer);
    interrupted();
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O2", "-fomit-frame-pointer"]).check();
    let range = |name: &str| recording.printed(name)..recording.printed(&format!("{name}_end"));
    for signal in [10, 12] {
        let allocs = recording.allocs(6000 + signal);
        let [Event::Alloc { stack, .. }] = allocs[..] else { panic!("{allocs:?}") };
        let (frames, _) = recording.stack(stack).expect("the stack was sent");
        assert!(range("inner").contains(&frames[0]), "signal {signal}: {frames:x?}");
        assert!(frames.iter().any(|frame| range("outer").contains(frame)), "signal {signal}: {frames:x?}");
    }
}

#[test]
fn random_walks_through_a_call_graph() {
    // Stacks that share changing parts with the one before: what the memo of the last walk must not get wrong. The program
    // says which way it went; frames of `b` have a size that changes from call to call, and `c` realigns its stack.
    let source = r#"
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned long state = 1;
static unsigned number(unsigned below) { state = state * 6364136223846793005ul + 1442695040888963407ul; return (state >> 33) % below; }
static char path[64];
static char log_[1 << 20];
static size_t logged;
static volatile int sink;
static int left = 6000, next = 15000;
static void choose(int depth);
#define F(name, body) __attribute__((noinline, section("frames_" #name))) static void name(int depth) { path[depth] = #name[0]; body choose(depth + 1); sink++; choose(depth + 1); sink++; }
F(a, )
F(b, char *p = alloca(16 * (1 + number(4))); memset(p, 0, 8); sink = p[depth & 7];)
F(c, char p[64] __attribute__((aligned(64))); memset(p, 0, 64); sink = p[depth];)
F(d, char p[200]; memset(p, 0, 200); sink = p[depth];)
__attribute__((noinline, section("frames_z"))) static void z(int depth)
{
    if (left-- <= 0) return;
    void *p = malloc(next);
    logged += sprintf(log_ + logged, "path %d %.*s\n", next++, depth, path);
    free(p);
    sink++;
}
__attribute__((noinline, section("frames_choose"))) static void choose(int depth)
{
    static void (*const all[])(int) = {a, b, c, d};
    if (left <= 0) return;
    if (depth >= 12 || number(5) == 0) z(depth);
    else all[number(4)](depth);
    sink++;
}
#define R(name) extern char __start_frames_##name[], __stop_frames_##name[]; printf(#name " %p\n" #name "_end %p\n", __start_frames_##name, __stop_frames_##name);
int main(void)
{
    R(a) R(b) R(c) R(d) R(z) R(choose)
    while (left > 0) choose(0);
    fputs(log_, stdout);
    return 0;
}
"#;
    for flags in [["-O2", "-fomit-frame-pointer"], ["-O1", "-fno-omit-frame-pointer"]] {
        let recording = Bench::new().run(source, &flags).check();
        let functions = ["a", "b", "c", "d", "z", "choose"].map(|name| {
            let range = recording.printed(name)..recording.printed(&format!("{name}_end"));
            (if name == "choose" { None } else { name.chars().next() }, range)
        });
        let mut stacks = std::collections::HashMap::new();
        let mut sizes = std::collections::HashMap::new();
        for event in recording.events() {
            match event {
                Event::Stack { hash, frames, .. } => drop(stacks.insert(hash, frames)),
                Event::Alloc { size, stack, .. } => drop(sizes.insert(size, stack)),
                _ => {}
            }
        }
        let mut checked = 0;
        for line in recording.output.lines().filter_map(|line| line.strip_prefix("path ")) {
            let (size, path) = line.split_once(' ').expect("size and path");
            let frames = &stacks[&sizes[&size.parse().expect("a size")]];
            let name = |frame| functions.iter().find(|(_, range)| range.contains(frame)).and_then(|(name, _)| *name);
            let seen: String = frames.iter().rev().filter_map(name).collect();
            assert_eq!(seen, format!("{path}z"), "{frames:x?}");
            checked += 1;
        }
        assert_eq!(checked, 6000);
    }
}
