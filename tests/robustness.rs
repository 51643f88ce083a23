//! Programs that give a preloaded library trouble: recorded, they end and say what they end and say natively, and what is not
//! tracked is named.

use std::fs;
use std::path::Path;
use std::time::Duration;

use numamma_tests::report::Report;
use numamma_tests::run::{Running, alive, children, signal, until};
use numamma_tests::{Place, Run, skip};

/// 5000 objects at one call site.
const MAKES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static __attribute__((noinline)) void *make(int i) { void *p = malloc(100 + i % 50); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
int main(void)
{
    void *p[5000];
    for (int i = 0; i < 5000; i++) if (!(p[i] = make(i))) return 1;
    for (int i = 0; i < 5000; i++) free(p[i]);
    for (volatile long i = 0; i < 100000000; i++) ; /* samples: a process without any has nothing to be told of */
    puts("made");
    return 7;
}
"#;

#[test]
fn shared_allocators_are_tracked() {
    for allocator in ["jemalloc", "tcmalloc", "tcmalloc_minimal", "mimalloc"] {
        let place = Place::together();
        let flags = ["-Wl,--no-as-needed".to_owned(), format!("-l{allocator}")];
        if place.try_compile("gcc", "program", MAKES, &[&flags[0], &flags[1]]).shell_status() != 0 {
            skip::missing("shared_allocators_are_tracked", allocator);
            continue;
        }
        let report = place.same(&[&place.path("program")]);
        assert_eq!(report.counted("make"), (5000, 5000), "{allocator}: {:?}", report.losses);
        assert_eq!(report.lost("own_allocator"), 0, "{allocator}");
        assert!(report.processes.iter().all(|process| process.tracked), "{allocator}: {:?}", report.processes);
    }
}

/// tcmalloc allocates when it is asked for the first time how large a block is, which a rule for all blocks asks of each: without end.
#[test]
fn blocks_of_shared_allocators_are_placed() {
    for allocator in ["jemalloc", "tcmalloc", "tcmalloc_minimal", "mimalloc"] {
        let place = Place::together();
        let flags = ["-Wl,--no-as-needed".to_owned(), format!("-l{allocator}")];
        if place.try_compile("gcc", "program", MAKES, &[&flags[0], &flags[1]]).shell_status() != 0 {
            skip::missing("blocks_of_shared_allocators_are_placed", allocator);
            continue;
        }
        let plan = place.path("plan.toml");
        fs::write(&plan, "version = 1\n[[object]]\nheap = \"*\"\npolicy = \"interleave\"\n").expect("write a plan");
        let run = Run::numamma().arg("apply").arg(&plan).arg("--").arg(place.path("program")).run();
        assert_eq!((run.shell_status(), run.out().trim()), (7, "made"), "{allocator}: {run}");
    }
}

/// They bring operators of C++ of their own, which do not call malloc.
#[test]
fn shared_allocators_are_tracked_in_cpp() {
    let source = MAKES
        .replace("malloc(100 + i % 50)", "i % 2 ? (void *)new char[100 + i % 50] : operator new(100 + i % 50)")
        .replace("free(p[i])", "i % 2 ? delete[] (char *)p[i] : operator delete(p[i])");
    for allocator in ["jemalloc", "tcmalloc", "tcmalloc_minimal", "mimalloc"] {
        let place = Place::together();
        let flags = ["-Wl,--no-as-needed".to_owned(), format!("-l{allocator}")];
        if place.try_compile("g++", "program", &source, &[&flags[0], &flags[1]]).shell_status() != 0 {
            skip::missing("shared_allocators_are_tracked_in_cpp", allocator);
            continue;
        }
        let report = place.same(&[&place.path("program")]);
        assert_eq!(report.counted("make"), (5000, 5000), "{allocator}: {:?}", report.losses);
        assert_eq!(report.lost("objects_overwritten"), 0, "{allocator}");
    }
}

/// Calls within the executable cannot be seen: that is said.
#[test]
fn allocators_in_the_executable_are_named() {
    let archives: [(&str, &[&str]); 2] = [
        ("libjemalloc.a", &["-l:libjemalloc.a", "-lm", "-ldl"]),
        ("libtcmalloc_minimal.a", &["-l:libtcmalloc_minimal.a", "-lstdc++", "-lm"]),
    ];
    for (archive, flags) in archives {
        let place = Place::together();
        if place.try_compile("gcc", "program", MAKES, flags).shell_status() != 0 {
            skip::missing("allocators_in_the_executable_are_named", archive);
            continue;
        }
        let report = place.same(&[&place.path("program")]);
        assert_eq!(report.lost("own_allocator"), 1, "{archive}: {:?}", report.losses);
        assert_eq!(report.counted("make"), (0, 0), "{archive}");
    }
}

#[test]
fn programs_with_a_sanitizer() {
    let place = Place::together();
    let program = place.compile("gcc", "program", MAKES, &["-fsanitize=address"]);
    let report = place.same(&[&program]);
    assert_eq!(report.lost("sanitizer"), 1, "{:?}", report.losses);
}

#[test]
fn static_programs() {
    for flags in ["-static", "-static-pie"] {
        let place = Place::together();
        let report = place.same_of(MAKES, &[flags]);
        assert!(report.lost("untracked_process") >= 1, "{flags}: {:?}", report.losses);
    }
    // Started by one that is tracked, too.
    let place = Place::together();
    let program = place.compile("gcc", "program", MAKES, &["-static"]);
    let script = place.script(&format!("{} ; echo $?\n", program.display()));
    place.same(&[Path::new("sh"), &script]);
}

#[test]
fn programs_of_another_libc() {
    if !skip::installed("musl-gcc") {
        return skip::missing("programs_of_another_libc", "musl-gcc");
    }
    for flags in [&["-static"][..], &[]] {
        let place = Place::together();
        let program = place.compile("musl-gcc", "program", MAKES, flags);
        place.same(&[&program]);
    }
}

/// The loader ignores the library for a program that runs with another's rights.
#[test]
fn setuid_programs() {
    if !skip::is_root() {
        return skip::skipped("setuid_programs", "only root makes them");
    }
    use std::os::unix::fs::PermissionsExt;
    let place = Place::together();
    let source = MAKES
        .replace("puts(\"made\")", "printf(\"made by %d\\n\", geteuid())")
        .replace("<stdlib.h>", "<stdlib.h>\n#include <unistd.h>");
    let program = place.compile("gcc", "program", &source, &[]);
    std::os::unix::fs::chown(&program, Some(65534), None).expect("another owner");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("the bit");
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).expect("a folder for all");
    if Run::new(&program).run().out() != "made by 65534\n" {
        return skip::skipped("setuid_programs", "the file system ignores the bit");
    }
    let report = place.same(&[&program]);
    // By its owner it is another user's, whose processes cannot be followed; a very short one is only seen to be untracked.
    let missing = report.lost("untracked_process") + report.lost("other_user");
    assert!(missing >= 1, "{:?}", report.losses);
}

/// Another user may not open the segment: such a program runs, and is named.
#[test]
fn programs_that_become_someone_else() {
    if !skip::is_root() || !skip::installed("setpriv") {
        return skip::skipped("programs_that_become_someone_else", "only root does, with setpriv");
    }
    use std::os::unix::fs::PermissionsExt;
    let place = Place::together();
    let program = place.compile("gcc", "program", MAKES, &[]);
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).expect("a folder for all");
    let command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(Path::new);
    let report = place.same(&[&command[..], &[program.as_path()]].concat());
    let (made, _) = report.counted("make");
    // Which of the two losses is reported is a race: the owner is known only if /proc/PID still exists when the recorder reads it.
    let missing = report.lost("untracked_process") + report.lost("other_user");
    assert!(made == 5000 || missing >= 1, "{made}: {:?}", report.losses);
}

/// A handler on a stack of its own, with little more room than the kernel needs.
#[test]
fn handlers_on_small_stacks() {
    let source = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
static __attribute__((noinline)) void *make(void) { void *p = malloc(50); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
static void handler(int n) { (void)n; free(make()); }
int main(void)
{
    free(malloc(10));
    size_t least = getauxval(AT_MINSIGSTKSZ), size = ((least ? least : 2048) + 3072 + 4095) & ~4095ul;
    char *pages = mmap(0, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE)) return 1; /* whoever needs more meets this page */
    stack_t stack = {.ss_sp = pages + 4096, .ss_size = size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0)) return 2;
    for (int i = 0; i < 1000; i++) raise(SIGUSR1);
    puts("handled");
    return 6;
}
"#;
    let report = Place::together().same_of(source, &["-Wl,-z,now"]);
    assert_eq!(report.counted("make"), (1000, 1000), "{:?}", report.losses);
}

/// A library that is bound to libc first calls it behind our back: what it releases is not seen, and ends when another object
/// takes its address, which is counted.
#[test]
fn libraries_that_bind_deeply() {
    let place = Place::together();
    let library =
        "#include <stdlib.h>\nvoid *make_deep(void) { return malloc(40); }\nvoid free_deep(void *p) { free(p); }";
    place.compile("gcc", "library.so", library, &["-shared", "-fPIC"]);
    let source = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static __attribute__((noinline)) void *make(void) { void *p = malloc(40); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
int main(int argc, char **argv)
{
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_DEEPBIND);
    if (!library) return 1;
    void *(*make_deep)(void) = (void *(*)(void))dlsym(library, "make_deep");
    void (*free_deep)(void *) = (void (*)(void *))dlsym(library, "free_deep");
    for (int i = 0; i < 1000; i++) { free(make_deep()); free_deep(make()); free(make()); }
    puts("bound");
    return 6;
}
"#;
    let program = place.compile("gcc", "program", source, &["-ldl"]);
    let report = place.same(&[&program, &place.path("library.so")]);
    assert_eq!(report.counted("make").0, 2000, "{:?}", report.losses);
    assert!(report.lost("objects_overwritten") >= 999, "{:?}", report.losses);
}

#[test]
fn chains_of_shells() {
    let place = Place::together();
    let text = "exec sh -c 'exec bash -c \"exec sh -c \\\"exec env A=1 bash -c true\\\"\"'\n";
    let script = place.script(&text.replace("true", "'(echo $A; exec sh -c \\\"exit 5\\\")'"));
    place.same(&[Path::new("sh"), &script]);
    let place = Place::together();
    let script = place.script(
        "i=0; while [ $i -lt 150 ]; do i=$((i+1)); v=$(sh -c 'exec echo a'); (:) ; done; echo $i $v | tr a b\n",
    );
    let report = place.same(&[Path::new("sh"), &script]);
    assert_eq!(report.lost("heap_no_ring"), 0);
    assert_eq!(report.lost("objects_overwritten"), 0, "{:?}", report.losses);
}

/// More threads than there are rings over a life, and a thousand at once.
#[test]
fn very_many_threads() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_barrier_t all;
static __attribute__((noinline)) void *make(void) { void *p = malloc(123); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
static void *brief(void *arg) { free(make()); return arg; }
static void *waits(void *arg) { void *p = make(); pthread_barrier_wait(&all); free(p); return arg; }
int main(void)
{
    static pthread_t t[1000];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (int round = 0; round < 11000 / 50; round++) {
        for (int i = 0; i < 50; i++) if (pthread_create(&t[i], &attr, brief, 0)) return 1;
        for (int i = 0; i < 50; i++) pthread_join(t[i], 0);
    }
    pthread_barrier_init(&all, 0, 1000);
    for (int i = 0; i < 1000; i++) if (pthread_create(&t[i], &attr, waits, 0)) return 2;
    for (int i = 0; i < 1000; i++) pthread_join(t[i], 0);
    puts("joined");
    return 0;
}
"#;
    let place = Place::together();
    let report = place.same_of(source, &[]);
    assert_eq!(report.counted("make"), (12_000, 12_000), "{:?}", report.losses);
    assert_eq!(report.lost("heap_no_ring") + report.lost("heap_ring_full"), 0, "{:?}", report.losses);
}

/// Everywhere that code runs before and after main.
#[test]
fn before_and_after_main() {
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#define MAKE(name) static __attribute__((noinline)) void name(void) { void *p = malloc(77); __asm__ volatile("" : : "r"(p) : "memory"); free(p); }
MAKE(in_constructor) MAKE(in_destructor) MAKE(in_atexit) MAKE(in_key) MAKE(in_tss) MAKE(in_handler) MAKE(in_on_exit)
__attribute__((constructor)) static void constructor(void) { in_constructor(); }
__attribute__((destructor)) static void destructor(void) { in_destructor(); }
static void key_gone(void *p) { in_key(); free(p); }
static void tss_gone(void *p) { in_tss(); free(p); }
static void handler(int n) { (void)n; in_handler(); }
static void exited(int status, void *arg) { (void)status, (void)arg; in_on_exit(); }
static pthread_key_t key;
static tss_t tss;
static void *work(void *arg) { pthread_setspecific(key, malloc(1)); tss_set(tss, malloc(2)); return arg; }
int main(void)
{
    pthread_t t;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    atexit(in_atexit);
    on_exit(exited, 0);
    pthread_key_create(&key, key_gone);
    tss_create(&tss, tss_gone);
    pthread_create(&t, 0, work, 0);
    pthread_join(t, 0);
    puts("main");
    return 0;
}
"#;
    let place = Place::together();
    let report = place.same_of(source, &["-Wl,-z,now"]);
    for site in ["constructor", "destructor", "atexit", "key", "tss", "handler", "on_exit"] {
        assert_eq!(report.counted(&format!("in_{site}")), (1, 1), "{site}: {:?}", report.sites);
    }
}

#[test]
fn cpp_thread_locals() {
    let source = r#"
#include <cstdlib>
#include <cstdio>
#include <thread>
#include <vector>
__attribute__((noinline)) static void *make() { void *p = std::malloc(99); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
struct Holder { void *p = make(); ~Holder() { std::free(p); std::free(make()); } };
thread_local Holder holder;
int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; i++) threads.emplace_back([] { if (!holder.p) std::abort(); });
    for (auto &t : threads) t.join();
    if (!holder.p) return 1;
    std::puts("joined");
}
"#;
    let place = Place::together();
    let report = place.same(&[&place.compile("g++", "program", source, &[])]);
    assert_eq!(report.counted("make"), (42, 42), "{:?}", report.losses);
}

/// Children made in every way, of a program with threads that allocate meanwhile.
#[test]
fn children_of_a_threaded_program() {
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile int over;
static __attribute__((noinline)) void *make(void) { void *p = malloc(123); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
static __attribute__((noinline)) void child(void) { for (int i = 0; i < 100; i++) free(malloc(321)); }
static void *busy(void *arg) { while (!over) { free(make()); usleep(10); } return arg; }
int main(int argc, char **argv)
{
    if (argc > 1) { child(); return 3; }
    pthread_t t[3];
    int bad = 0, status;
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, busy, 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) { child(); exit(3); }
        waitpid(pid, &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
        pid = vfork();
        if (pid == 0) { execl("/proc/self/exe", argv[0], "child", (char *)0); _exit(1); }
        waitpid(pid, &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
        char *leaf[] = {argv[0], "child", 0};
        bad += posix_spawn(&pid, "/proc/self/exe", 0, 0, leaf, environ) != 0;
        waitpid(pid, &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
    }
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("bad %d\n", bad);
    return 0;
}
"#;
    let place = Place::together();
    let report = place.same_of(source, &[]);
    assert_eq!(report.counted("child"), (6000, 6000), "{:?}", report.losses);
    // Children have what their parents had; nothing was released twice or made where something lived.
    assert_eq!(report.lost("objects_overwritten"), 0, "{:?}", report.losses);
}

/// The call stack of an object leads through a library that is closed while the object lives.
#[test]
fn a_closed_library_stays_in_call_stacks() {
    let place = Place::together();
    let library = "#include <stdlib.h>\n#include <string.h>\nchar *work(void) { char *p = malloc(8 << 20); memset(p, 1, 8 << 20); return p; }";
    place.compile("gcc", "library.so", library, &["-shared", "-fPIC"]);
    let source = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    long sum = 0;
    void *library = dlopen(argv[argc - 1], RTLD_NOW);
    if (!library) return 1;
    char *p = ((char *(*)(void))dlsym(library, "work"))();
    if (dlclose(library)) return 2;
    for (int round = 0; round < 60; round++) for (long i = 0; i < 8 << 20; i++) sum += p[i];
    free(p);
    printf("%ld\n", sum);
    return 0;
}
"#;
    let program = place.compile("gcc", "program", source, &["-ldl"]);
    let report = place.same(&[&program, &place.path("library.so")]);
    assert_eq!(report.counted("work"), (1, 1), "{:?}", report.sites);
    let object = report.objects.first().expect("an object");
    assert_eq!(object.site.as_ref().map(|site| site.function.as_str()), Some("work"));
}

/// Pairs of malloc and free until `seconds` are over; says how many.
const PAIRS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void *held[1000]; /* so many that each coming and going is an event */
static __attribute__((noinline)) void *make(void) { void *p = malloc(64); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
int main(int argc, char **argv)
{
    double seconds = atof(argv[argc - 1]);
    struct timespec begin, now;
    long pairs = 0;
    puts("begun");
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 1000; i++) { free(held[i * 7 % 1000]); held[i * 7 % 1000] = make(); }
        pairs += 1000;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) < seconds);
    printf("%ld\n", pairs);
    return 4;
}
"#;

/// Three seconds of [`PAIRS`] that are being recorded, and the process of the program.
fn pairs_that_began(place: &Place) -> (Running, i32) {
    let program = place.compile("gcc", "program", PAIRS, &[]);
    let running = place.record().arg(&program).arg("3").start();
    running.wait_for_output("begun");
    let program = children(running.pid()).first().copied().expect("the program");
    (running, program)
}

/// A recorder that is stopped for ten seconds: the program does not wait for it, and each event that found no room is counted.
#[test]
fn the_recorder_is_stopped_for_a_while() {
    let place = Place::together();
    let (running, program) = pairs_that_began(&place);
    let recorder = running.pid();
    signal(recorder, libc::SIGSTOP);
    let stopped = std::time::Instant::now();
    // A child that was not waited for stays, as a zombie.
    until("the program to end", Duration::from_secs(9), || !alive(program));
    std::thread::sleep(Duration::from_secs(10).saturating_sub(stopped.elapsed()));
    signal(recorder, libc::SIGCONT);
    let outcome = running.wait().exits(4);
    let pairs: u64 = outcome.out().lines().nth(1).and_then(|line| line.parse().ok()).expect("a number");
    let report = Report::of(&place.dataset());
    let (made, _) = report.counted("make");
    let (dropped, overwritten) = (report.lost("heap_ring_full"), report.lost("objects_overwritten"));
    assert!(dropped > 0 && made < pairs, "{made} of {pairs}, {:?}", report.losses);
    assert!(made + dropped >= pairs, "{made} of {pairs}, {dropped} dropped");
    assert!(overwritten <= dropped, "{overwritten} overwritten, {dropped} dropped");
}

/// A recorder that is killed: the program is held up by no more than its bounded wait.
#[test]
fn the_recorder_is_killed_while_the_program_allocates() {
    let place = Place::together();
    let (running, program) = pairs_that_began(&place);
    let recorder = running.pid();
    let output = running.stdout_handle();
    signal(recorder, libc::SIGKILL);
    running.wait().exits(137);
    until("the program to end", Duration::from_secs(6), || !alive(program));
    let output = String::from_utf8_lossy(&output.contents()).into_owned();
    let pairs: u64 = output.lines().nth(1).and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{output:?}"));
    assert!(pairs >= 1000, "{pairs}");
}
