//! Fork, exec and their kin; libraries that come and go; environments that are odd.

mod common;

use std::collections::HashSet;
use std::process::Command;

use common::{Bench, Recording};
use numamma_wire::{Event, Options, RingState, Segment};

fn processes(recording: &Recording) -> Vec<(i32, bool)> {
    let of = |event| match event {
        Event::Process { pid, forked, .. } => Some((pid, forked)),
        _ => None,
    };
    recording.events().into_iter().filter_map(of).collect()
}

/// Pids whose rings hold an allocation of this size.
fn allocators(recording: &Recording, wanted: u64) -> Vec<i32> {
    let allocates = |event: &Event| matches!(event, Event::Alloc { size, .. } if *size == wanted);
    let with = recording.threads.iter().filter(|thread| thread.events.iter().any(|stamped| allocates(&stamped.event)));
    let mut pids: Vec<i32> = with.map(|thread| thread.pid).collect();
    pids.sort();
    pids
}

#[test]
fn children_of_fork_write_their_own_rings() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(void) { for (int i = 0; i < 100; i++) free(malloc(11001)); }
static void *forks(void *arg)
{
    for (int i = 0; i < 5; i++) {
        free(malloc(11003));
        pid_t pid = fork();
        if (pid == 0) { child(); if (fork() == 0) { child(); _exit(0); } wait(0); _exit(0); }
        int status;
        waitpid(pid, &status, 0);
        if (status) abort();
    }
    return arg;
}
int main(void)
{
    pthread_t t[4];
    forks(0);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, forks, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    if (fork() == 0) _exit(0); /* a child that does nothing is no trouble */
    wait(0);
    printf("pid %d\n", getpid());
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    let parent = recording.printed("pid") as i32;
    let children = allocators(&recording, 11001);
    assert_eq!(children.len(), 50);
    assert_eq!(children.iter().collect::<HashSet<_>>().len(), 50);
    assert!(!children.contains(&parent));
    assert_eq!(recording.allocs(11001).len(), 5000);
    assert_eq!(recording.allocs(11003).len(), 25);
    assert_eq!(allocators(&recording, 11003), vec![parent; 5]);
    // Each process presents itself, before all else in its first ring, and sends its own stacks.
    for thread in recording.threads.iter().filter(|thread| children.contains(&thread.pid)) {
        assert!(
            matches!(thread.events[0].event, Event::Process { pid, forked: true, .. } if pid == thread.pid),
            "{:?}",
            thread.events[0]
        );
        assert!(matches!(thread.events[1].event, Event::ThreadStart { main: true, tid, .. } if tid == thread.tid));
        assert!(thread.events.iter().any(|event| matches!(event.event, Event::Stack { .. })));
    }
    assert_eq!(processes(&recording).iter().filter(|(_, forked)| !forked).count(), 1);
}

#[test]
fn fork_by_raw_clone_and_in_a_signal_handler() {
    let source = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void handler(int n) { (void)n; pid_t pid = fork(); if (pid == 0) { free(malloc(11011)); _exit(0); } waitpid(pid, 0, 0); }
int main(void)
{
    free(malloc(11013));
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) { free(malloc(11015)); _exit(0); }
    waitpid(pid, 0, 0);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("pid %d\n", getpid());
    free(malloc(11017));
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    let parent = recording.printed("pid") as i32;
    for (size, own) in [(11011, false), (11013, true), (11015, false), (11017, true)] {
        let pids = allocators(&recording, size);
        assert_eq!(pids.len(), 1, "{size}");
        assert_eq!(pids[0] == parent, own, "{size}");
    }
    assert_eq!(processes(&recording).len(), 3);
}

#[test]
fn vfork_spawn_and_exec() {
    let source = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "leaf") == 0) { free(malloc(11021)); return 0; }
    if (argc > 1) { /* exec chain: N images in one process */
        int n = atoi(argv[1]);
        free(malloc(11100 + n));
        char next[16];
        sprintf(next, "%d", n - 1);
        execl("/proc/self/exe", argv[0], n ? next : "leaf", (char *)0);
        return 9;
    }
    int status;
    pid_t pid = vfork();
    if (pid == 0) { execl("/proc/self/exe", argv[0], "leaf", (char *)0); _exit(1); }
    waitpid(pid, &status, 0); if (status) return 1;
    char *leaf[] = {argv[0], "leaf", 0};
    if (posix_spawn(&pid, "/proc/self/exe", 0, 0, leaf, environ)) return 2;
    waitpid(pid, &status, 0); if (status) return 3;
    char shell[64];
    sprintf(shell, "true && (/proc/%d/exe leaf)", getpid());
    if (system(shell)) return 4;
    free(malloc(11023));
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "10", (char *)0);
    return 5;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    assert_eq!(allocators(&recording, 11021).len(), 4);
    assert_eq!(recording.allocs(11023).len(), 1);
    let pids: HashSet<i32> = (0..=10).flat_map(|n| allocators(&recording, 11100 + n)).collect();
    assert_eq!(pids.len(), 1, "one process, eleven images");
    // Nothing but the shell forked and went on without exec; a vfork's child is no process of its own until its exec.
    assert!(processes(&recording).iter().filter(|(_, forked)| *forked).count() <= 1, "{:?}", processes(&recording));
}

#[test]
fn rings_of_old_images_can_be_released_while_the_process_lives() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 20;
    char next[16];
    sprintf(next, "%d", n - 1);
    if (n > 0) execl("/proc/self/exe", argv[0], next, (char *)0);
    pause();
    return 0;
}
"#;
    let bench = Bench::new();
    let segment = Segment::create(bench.options).expect("a segment");
    let (mut child, _) = bench.start(&mut Command::new(bench.compile("program", source, &["-O1"])), &segment);
    // Nobody reads until the last image is there: all 21 rings are used.
    let begin = std::time::Instant::now();
    while segment.rings().count() < 21 || segment.rings().filter(|ring| ring.state() == RingState::Ended).count() < 20 {
        assert!(begin.elapsed().as_secs() < 60, "{} rings", segment.rings().count());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(segment.rings().filter_map(|ring| ring.release()).count(), 0, "they are not drained");
    for ring in segment.rings() {
        ring.drain(|event| drop(event.expect("a sound event")));
    }
    assert_eq!(segment.rings().filter_map(|ring| ring.release()).count(), 20);
    assert_eq!(segment.active_rings().count(), 1);
    child.kill().expect("kill the program");
    child.wait().expect("wait for it");
    assert!(segment.active_rings().all(|ring| ring.has_ended()));
}

/// Whoever dies, at whatever moment, the recorder knows whose rings there are: else they would be nobody's for ever.
#[test]
fn killed_at_each_system_call() {
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *arg) { free(malloc(100)); return arg; }
int main(void) { pthread_t t; work(0); return pthread_create(&t, 0, work, 0) || pthread_join(t, 0); }
"#;
    let tracer = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int status, stops = atoi(argv[1]);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("LD_PRELOAD", argv[2], 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[3], argv + 3);
        _exit(9);
    }
    waitpid(pid, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE)) return 2;
    pid_t stopped = pid;
    while (stops-- > 0) {
        ptrace(PTRACE_SYSCALL, stopped, 0, 0);
        if ((stopped = waitpid(-1, &status, __WALL)) < 0 || (stopped == pid && WIFEXITED(status))) return 1;
    }
    kill(pid, SIGKILL);
    while (waitpid(-1, &status, __WALL) > 0) ;
    return 0;
}
"#;
    let bench = Bench::new();
    let (program, tracer) = (bench.compile("program", source, &["-O1"]), bench.compile("tracer", tracer, &["-O1"]));
    let mut stops = 0;
    loop {
        stops += 1;
        let segment = Segment::create(Options { ring_count: 4, ..Options::default() }).expect("a segment");
        let mut command = Command::new(&tracer);
        command.arg(stops.to_string()).arg(bench.library()).arg(&program).env("NUMAMMA_SEGMENT", segment.path());
        let status = command.status().expect("run the tracer").code();
        for ring in segment.active_rings() {
            assert!(ring.has_ended(), "after {stops} stops: {:?}", ring.owner());
        }
        if status != Some(0) {
            assert_eq!(status, Some(1));
            break;
        }
    }
    assert!(stops > 50, "{stops}");
}

#[test]
fn shells_and_python_run_as_ever() {
    let bench = Bench::new();
    let mut sh = Command::new("sh");
    sh.args(["-c", "echo one | tr a-z A-Z; (echo two); for i in 1 2 3; do sh -c 'sh -c \"echo $0\"' $i; done; ls / | head -1 >/dev/null"]);
    let recording = bench.record(&mut sh).check();
    assert!(recording.output.starts_with("ONE\ntwo\n"), "{}", recording.output);
    assert_eq!(recording.errors, "");
    let python = Command::new("python3").args(["-c", "print(1)"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no python3");
        return;
    }
    let mut python = Command::new("python3");
    python.args(["-c", "import threading, subprocess\nprint(1)\nt = [threading.Thread(target=lambda: [bytearray(12345) for _ in range(100)]) for _ in range(8)]\n[x.start() for x in t]; [x.join() for x in t]\nprint(subprocess.run(['echo', 'two'], capture_output=True, text=True).stdout, end='')"]);
    let recording = bench.record(&mut python).check();
    assert_eq!(recording.output, "1\ntwo\n");
}

#[test]
fn constructors_before_main_and_bind_now() {
    let source = r#"
#include <stdlib.h>
static void *early;
__attribute__((constructor(101))) static void before(void) { early = malloc(11031); }
__attribute__((destructor)) static void after(void) { free(early); free(malloc(11033)); }
int main(void) { free(malloc(11035)); return 0; }
"#;
    let bench = Bench::new();
    let program = bench.compile("program", source, &["-O1", "-Wl,-z,lazy"]);
    for bind in ["", "1"] {
        let mut command = Command::new(&program);
        if !bind.is_empty() {
            command.env("LD_BIND_NOW", bind);
        }
        let recording = bench.record(&mut command).check();
        for size in [11031, 11033, 11035] {
            let addresses = recording.addresses(size);
            assert_eq!(addresses.len(), 1, "{size}");
            assert!(recording.frees(addresses[0]) > 0);
        }
    }
}

#[test]
fn libraries_come_and_go() {
    let bench = Bench::new();
    let library = r#"
#include <stdlib.h>
__attribute__((constructor)) static void enter(void) { free(malloc(11041)); }
__attribute__((destructor)) static void leave(void) { free(malloc(11043)); }
void work(void) { free(malloc(11045)); }
"#;
    let path = bench.compile("library.so", library, &["-O1", "-shared", "-fPIC"]);
    let source = r#"
#include <dlfcn.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 50; i++) {
        void *handle = dlopen(argv[argc - 1], RTLD_NOW);
        if (!handle) return 1;
        void (*work)(void) = (void (*)(void))dlsym(handle, "work");
        work();
        if (dlclose(handle)) return 2;
    }
    return dlopen("/nonexistent.so", RTLD_NOW) != 0;
}
"#;
    let program = bench.compile("program", source, &["-O1", "-ldl"]);
    let recording = bench.record(Command::new(program).arg(path)).check();
    for size in [11041, 11043, 11045] {
        assert_eq!(recording.allocs(size).len(), 50, "{size}");
    }
    assert_eq!(recording.events().iter().filter(|event| matches!(event, Event::Dlclose)).count(), 50);
    // After each close the stack is described anew.
    let stacks: HashSet<u64> = recording
        .allocs(11045)
        .into_iter()
        .map(|event| match event {
            Event::Alloc { stack, .. } => stack,
            _ => 0,
        })
        .collect();
    assert_eq!(stacks.len(), 50);
}

#[test]
fn mappings() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    char *a = mmap(0, 123 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open("/proc/self/exe", O_RDONLY);
    char *b = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
    char *c = mremap(a, 123 * 4096, 456 * 4096, MREMAP_MAYMOVE);
    printf("a %p\nb %p\nc %p\n", a, b, c);
    if (mremap(c, 456 * 4096, 400 * 4096, 0) != c) return 6; /* in place */
    errno = 0; if (mremap(c + 1, 4096, 8192, MREMAP_MAYMOVE) != MAP_FAILED || errno != EINVAL) return 7;
    errno = 0; if (munmap(a + 1, 4096) != -1 || errno != EINVAL) return 1;
    errno = 0; if (mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EINVAL) return 2;
    if (munmap(b, 4096) || munmap(c, 400 * 4096)) return 3;
    char *old = sbrk(0);
    if (sbrk(8192) != old) return 4;
    printf("break %p\n", old);
    if (brk(old)) return 5;
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1"]).check();
    let [a, b, c, old] = ["a", "b", "c", "break"].map(|name| recording.printed(name));
    let page = 4096;
    let seen: Vec<Event> = recording
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Map { address, length, prot, file_backed, offset, flags, stack } => {
                assert_ne!(stack, 0);
                Some(Event::Map { address, length, prot, file_backed, offset, flags, stack: 1 })
            }
            Event::Break { old, new, .. } => Some(Event::Break { old, new, stack: 1 }),
            Event::Unmap { .. } | Event::Ununmap { .. } => Some(event),
            _ => None,
        })
        .collect();
    let moved = |pages| Event::Map {
        address: c,
        length: pages * page,
        prot: 0,
        file_backed: false,
        stack: 1,
        offset: 0,
        flags: 0x20,
    };
    assert_eq!(
        seen,
        [
            Event::Map {
                address: a,
                length: 123 * page,
                prot: 3,
                file_backed: false,
                stack: 1,
                offset: 0,
                flags: 0x22
            },
            Event::Map { address: b, length: page, prot: 1, file_backed: true, stack: 1, offset: page, flags: 2 },
            Event::Unmap { address: a, length: 123 * page, tentative: true },
            moved(456),
            Event::Unmap { address: c, length: 456 * page, tentative: true },
            moved(400),
            Event::Unmap { address: c + 1, length: page, tentative: true },
            Event::Ununmap { address: c + 1, length: page },
            Event::Unmap { address: a + 1, length: page, tentative: true },
            Event::Ununmap { address: a + 1, length: page },
            Event::Unmap { address: b, length: page, tentative: true },
            Event::Unmap { address: c, length: 400 * page, tentative: true },
            Event::Break { old, new: old + 8192, stack: 1 },
            Event::Break { old: old + 8192, new: old, stack: 1 },
        ]
    );
}

#[test]
fn without_a_segment_the_program_just_runs() {
    let bench = Bench::new();
    let program = bench.compile(
        "program",
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(1)); puts(\"fine\"); return 7; }\n",
        &["-O1"],
    );
    let notes = bench.path("notes");
    std::fs::write(&notes, vec![0u8; 1 << 20]).expect("write a file");
    let closed = Segment::create(Options { ring_count: 2, ..Options::default() }).expect("a segment");
    closed.close();
    let stranger = Segment::create(Options { ring_count: 2, ..Options::default() }).expect("a segment");
    stranger.header().version.store(99, std::sync::atomic::Ordering::SeqCst);
    let values = [
        None,
        Some(String::new()),
        Some("/proc/1/fd/999".into()),
        Some(notes.display().to_string()),
        Some("/proc/self/fd/0".into()),
        Some("/proc/99999999999999999999/fd/1".into()),
        Some(closed.path()),
        Some(stranger.path()),
    ];
    for value in values {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", bench.library()).env_remove("NUMAMMA_SEGMENT");
        if let Some(value) = &value {
            command.env("NUMAMMA_SEGMENT", value);
        }
        let output = command.output().expect("run the program");
        assert_eq!((output.status.code(), common::text(&output).as_str()), (Some(7), "fine\n"), "{value:?}");
    }
    assert_eq!(stranger.rings().count(), 0);
    assert_eq!(closed.rings().count(), 0);
}
