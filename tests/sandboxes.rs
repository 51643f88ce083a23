//! Programs that forbid themselves system calls, instructions or memory: what the library does for the recorder must not be
//! what ends them.

use std::path::Path;

use numamma_tests::build::numamma;
use numamma_tests::report::Report;
use numamma_tests::{Place, Run, skip};

/// Enough allocations to fill a ring several times, without a system call of the program's own.
const SANDBOX: &str = r#"
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef SECCOMP_SET_MODE_FILTER
#define SECCOMP_SET_MODE_FILTER 1
#endif
static void say(const char *text) { size_t n = 0; while (text[n]) n++; if (syscall(SYS_write, 1, text, n) < 0) syscall(SYS_exit, 9); }
static __attribute__((noinline)) void work(void)
{
    for (int i = 0; i < 300000; i++) { void *p = malloc(64); __asm__ volatile("" : : "r"(p) : "memory"); free(p); }
}
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
"#;

/// Runs `main` behind that natively and recorded.
#[track_caller]
fn sandbox(main: &str) -> Report {
    Place::together().same_of(&format!("{SANDBOX}\n{main}"), &[])
}

#[test]
fn seccomp_strict() {
    sandbox(
        r#"
int main(void)
{
    work();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 1;
    work();
    say("worked\n");
    syscall(SYS_exit, 6);
}"#,
    );
}

#[test]
fn seccomp_strict_in_one_thread() {
    sandbox(
        r#"
static void *strict(void *arg)
{
    work();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return arg;
    work();
    say("worked\n");
    syscall(SYS_exit, 0);
    return arg;
}
int main(void)
{
    pthread_t t;
    pthread_create(&t, 0, strict, 0);
    work();
    pthread_join(t, 0);
    work();
    say("joined\n");
    return 6;
}"#,
    );
}

#[test]
fn seccomp_strict_in_a_child() {
    let report = sandbox(
        r#"
int main(void)
{
    int status;
    work();
    if (fork() == 0) {
        work();
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(1);
        work();
        syscall(SYS_exit, 5);
    }
    wait(&status);
    work();
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 6;
}"#,
    );
    let (made, _) = report.counted("work");
    assert!(made >= 600_000, "the parent is recorded: {made}, {:?}", report.losses);
}

#[test]
fn a_filter_that_kills() {
    for install in [
        "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)",
        "syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)",
    ] {
        let main = r#"
int main(void)
{
    work();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (INSTALL) return 2;
    work();
    say("worked\n");
    syscall(SYS_exit_group, 6);
}"#;
        sandbox(&main.replace("INSTALL", install));
    }
}

/// A filter for all threads of the process, also those that allocate already.
#[test]
fn a_filter_for_all_threads() {
    sandbox(
        r#"
static atomic_int stage;
static void *other(void *arg)
{
    work();
    stage = 1;
    while (stage == 1) ;
    work();
    stage = 3;
    for (;;) ;
    return arg;
}
int main(void)
{
    pthread_t t;
    pthread_create(&t, 0, other, 0);
    while (stage == 0) ;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return 2;
    stage = 2;
    work();
    while (stage == 2) ;
    say("worked\n");
    syscall(SYS_exit_group, 6);
}"#,
    );
}

/// Threads and processes that begin under a filter.
#[test]
fn a_filter_before_threads() {
    let report = sandbox(
        r#"
static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static void *other(void *arg) { work(); return arg; }
int main(void)
{
    struct sock_fprog allows = {1, all};
    pthread_t t;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allows)) return 1;
    if (pthread_create(&t, 0, other, 0) || pthread_join(t, 0)) return 2;
    if (fork() == 0) { work(); _exit(0); }
    wait(0);
    say("worked\n");
    return 6;
}"#,
    );
    assert!(report.lost("heap_filtered") >= 4 * 300_000, "{:?}", report.losses);
    assert_eq!(report.lost("heap_no_ring"), 0, "{:?}", report.losses);
}

/// What an executed program's loader and C library need to begin, and no more.
const BEGIN: &str = r#"
static struct sock_filter to_begin[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(execve), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(access), ALLOW(openat), ALLOW(read),
    ALLOW(pread64), ALLOW(newfstatat), ALLOW(fstat), ALLOW(close), ALLOW(arch_prctl), ALLOW(set_tid_address),
    ALLOW(set_robust_list), ALLOW(rseq), ALLOW(prlimit64), ALLOW(getrandom), ALLOW(write), ALLOW(exit), ALLOW(exit_group),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
int main(int argc, char **argv)
{
    if (argc == 1) { work(); for (volatile long i = 0; i < 100000000; i++) ; say("worked\n"); syscall(SYS_exit_group, 6); }
    /* FILTER COMMAND..: executes a command under a filter */
    struct sock_fprog kills = {sizeof to_begin / sizeof *to_begin, to_begin}, allows = {1, all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, argv[1][0] == 'k' ? &kills : &allows)) return 2;
    execv(argv[2], argv + 2);
    return 3;
}"#;

/// A filter that a program installs before it executes another.
#[test]
fn a_filter_that_is_inherited() {
    let place = Place::together();
    let program = place.compile("gcc", "program", &format!("{SANDBOX}\n{BEGIN}"), &[]);
    let report = place.same(&[&program, Path::new("kills"), &program]);
    assert_eq!(report.lost("untracked_process"), 1, "{:?}", report.losses);
}

/// In many containers all run under a filter, the recorder too.
#[test]
fn a_filter_above_the_recorder() {
    let place = Place::together();
    let program = place.compile("gcc", "program", &format!("{SANDBOX}\n{BEGIN}"), &[]);
    let dataset = place.dataset();
    let run = Run::new(&program).args([Path::new("allows"), numamma(), Path::new("record"), Path::new("-o"), &dataset]);
    assert_eq!(run.args([&program]).run().shell_status(), 6);
    let report = Report::of(&dataset);
    assert_eq!((report.counted("work").0, report.lost("untracked_process")), (300_000, 0), "{:?}", report.losses);
}

/// The time stamp counter is forbidden; the C library reads the clock with it.
#[test]
fn no_time_stamp_counter() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    sandbox(
        r#"
int main(void)
{
    work();
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 1;
    work();
    say("worked\n");
    return 6;
}"#,
    );
}

/// An address space that is just large enough for the program: 64 MiB remain for the library.
#[test]
fn a_limit_of_the_address_space() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    for (int i = 0; i < 400; i++) {
        char *p = malloc(1 << 20);
        if (!p) { printf("no block %d\n", i); return 1; }
        memset(p, 1, 4096);
    }
    for (int i = 0; i < 100000; i++) free(malloc(64));
    puts("allocated");
    return 6;
}
"#;
    let place = Place::together();
    let program = place.compile("gcc", "program", source, &[]);
    let script = place.script(&format!("ulimit -v {}\nexec {}\n", (400 + 16 + 64) * 1024, program.display()));
    let report = place.same(&[Path::new("sh"), &script]);
    let (made, _) = report.counted("main");
    assert!(made >= 100_400, "there is room for a ring: {made}, {:?}", report.losses);
}

/// All memory is locked: what the library maps is then resident.
#[test]
fn locked_memory() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void *work(void *arg) { for (int i = 0; i < 20000; i++) free(malloc(64)); return arg; }
int main(void)
{
    pthread_t t[4];
    char line[256];
    long resident = 0;
    free(malloc(64));
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) { puts("refused"); return 5; }
    for (int i = 0; i < 4; i++) if (pthread_create(&t[i], 0, work, 0)) { puts("no thread"); return 1; }
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f)) if (sscanf(line, "VmRSS: %ld", &resident) == 1) break;
    printf("%s\n", resident < (64 + 64) * 1024 ? "small" : "large");
    return 6;
}
"#;
    let place = Place::together();
    // Stacks of 8 MiB each, all resident natively too.
    let program = place.compile("gcc", "program", source, &[]);
    let native = Run::new(&program).run();
    assert!(["small\n", "refused\n"].contains(&native.out().as_str()), "{native}");
    place.same(&[&program]);
}

/// A program built with a sanitizer that another program starts.
#[test]
fn a_sanitizer_below_a_shell() {
    let source =
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(10)); puts(\"fine\"); return 6; }\n";
    for compiler in ["gcc", "clang"] {
        if !skip::installed(compiler) {
            skip::missing("a_sanitizer_below_a_shell", compiler);
            continue;
        }
        let place = Place::together();
        let program = place.compile(compiler, "program", source, &["-fsanitize=address"]);
        place.same(&[&program]);
        let place = Place::together();
        let program = place.compile(compiler, "program", source, &["-fsanitize=address"]);
        let script = place.script(&format!("{}\necho $?\n", program.display()));
        place.same(&[Path::new("sh"), &script]);
    }
}

/// What a program allocates before any constructor has run.
#[test]
fn before_all_constructors() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
static void *early;
static __attribute__((noinline)) void *make(void) { void *p = malloc(77); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
static void preinit(int argc, char **argv, char **env) { (void)argc, (void)argv, (void)env; early = make(); }
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = preinit;
int main(void) { free(early); puts("main"); return 6; }
"#;
    let report = Place::together().same_of(source, &[]);
    assert_eq!((report.counted("make").0, report.lost_of_heap()), (1, 0));
}

/// libseccomp comes by syscall(): what a program forbids itself, the library that places its memory does not do.
#[test]
fn a_placed_program_that_confines_itself_lives() {
    let place = Place::together();
    let source = r#"
        #define _GNU_SOURCE
        #include <linux/audit.h>
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            char *before = malloc(8 << 20);
            memset(before, 1, 8 << 20);
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_pages, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            };
            struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 2;
            char *after = malloc(8 << 20);
            memset(after, 1, 8 << 20);
            free(before);
            free(after);
            return 3;
        }"#;
    let program = place.compile("gcc", "confined", source, &["-O1"]);
    Run::numamma().args(["apply", "--policy", "interleave", "--"]).arg(&program).run().exits(3);
}
