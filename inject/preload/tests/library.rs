//! The library as a file: what it needs, what it gives, and its sources under the compilers' checkers.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Bench, text};
use numamma_wire::Event;

fn objdump(flag: &str, library: &Path) -> String {
    let output = Command::new("objdump").arg(flag).arg(library).output().expect("run objdump");
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn loads_on_any_glibc_since_2_17() {
    let bench = Bench::new();
    let private = objdump("-p", &bench.library());
    let needed: Vec<&str> =
        private.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim).collect();
    assert_eq!(needed, ["libc.so.6"]);
    for line in private.lines() {
        let Some(version) = line.trim().rsplit(' ').next().and_then(|word| word.strip_prefix("GLIBC_")) else {
            continue;
        };
        let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
        let version = (parts.next(), parts.next());
        assert!(version <= (Some(2), Some(17)), "{line}");
    }
}

#[test]
fn exports_its_hooks_only() {
    let (hooks, operators) = (include_str!("../hooks/hooks.def"), include_str!("../hooks/operators.def"));
    let name = |line: &'static str| line.strip_prefix("HOOK(").or(line.strip_prefix("OPERATOR("))?.split(", ").nth(1);
    let mut wanted: Vec<&str> = hooks.lines().chain(operators.lines()).filter_map(name).collect();
    // In assembler, see confine.c and process.c.
    wanted.extend(["syscall", "dlopen"]);
    // What programs call by themselves, see annotate.c.
    wanted.extend(["numamma_v1_label", "numamma_v1_unlabel", "numamma_v1_phase", "numamma_v1_wanted"]);
    // What the library of hooks calls, see numamma_note.h.
    wanted.push("numamma_counts_wanted");
    wanted.sort();
    assert!(wanted.len() > 15);
    let table = objdump("-T", &Bench::new().library());
    let symbols =
        table.lines().filter(|line| line.contains(".text") || line.contains(".data") || line.contains(".bss"));
    let mut exported: Vec<&str> = symbols.filter_map(|line| line.rsplit(' ').next()).collect();
    exported.sort();
    assert_eq!(exported, wanted);
    assert!(!table.contains("__tls_get_addr") && !table.contains("dlsym"), "{table}");
}

#[test]
fn takes_less_than_4_mib() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    for (int i = 0; i < 100000; i++) free(malloc(i));
    char line[256];
    long bytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f)) if (sscanf(line, "RssAnon: %ld", &bytes) == 1) break;
    printf("anonymous %ld\n", bytes);
    return 0;
}
"#;
    let bench = Bench::new();
    let native = Command::new(bench.compile("program", source, &["-O1"])).output().expect("run the program");
    let native: u64 = text(&native).trim().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    let recorded = bench.run(source, &["-O1"]).check().printed("anonymous");
    assert!(recorded < native + 4096, "{recorded} kB, native {native} kB");
}

/// All C sources, relative to the crate.
fn sources() -> Vec<String> {
    let mut files = Vec::new();
    for folder in ["base", "emit", "hooks", "place", "unwind"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder of sources")
        {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "c") {
                files.push(path.display().to_string());
            }
        }
    }
    files
}

/// Builds the library anew, with these flags in addition.
fn build(bench: &Bench, flags: &[&str]) {
    let output = Command::new("gcc")
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-fPIC",
            "-shared",
            "-pthread",
            "-fno-omit-frame-pointer",
            "-fvisibility=hidden",
        ])
        .args(["-ftls-model=initial-exec", "-fno-builtin", "-fexceptions", "-fno-stack-protector", "-Wl,-z,now"])
        .args(flags)
        .arg("-o")
        .arg(bench.library())
        .args(sources())
        .output()
        .expect("run gcc");
    assert!(output.status.success(), "{}", text(&output));
}

/// Before glibc 2.35, only the loader knows where code is, under a lock: here, one that a thread holds while it waits for another,
/// which allocates, in the program and in a library that came later.
#[test]
fn takes_no_lock_of_an_old_loader() {
    let source = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int stage;
static __attribute__((noinline)) void one(void) { free(malloc(15001)); __asm__ volatile(""); }
static __attribute__((noinline)) void two(void) { free(malloc(15003)); __asm__ volatile(""); }
static int callback(struct dl_phdr_info *info, size_t size, void *data) { (void)info, (void)size, (void)data; stage = 1; while (stage == 1) ; return 1; }
static void *holds(void *arg) { dl_iterate_phdr(callback, 0); return arg; }
int main(int argc, char **argv)
{
    pthread_t t;
    int status;
    alarm(60);
    void *library = dlopen(argv[argc - 1], RTLD_NOW);
    if (library == 0) return 2;
    void (*three)(void) = (void (*)(void))dlsym(library, "three"), (*four)(void) = (void (*)(void))dlsym(library, "four");
    pthread_create(&t, 0, holds, 0);
    while (stage == 0) ;
    one();
    three();
    if (fork() == 0) { alarm(60); two(); four(); _exit(0); }
    wait(&status);
    stage = 2;
    pthread_join(t, 0);
    return status != 0;
}
"#;
    let bench = Bench::new();
    build(&bench, &["-DNMM_OLD_LOADER"]);
    let library = "#include <stdlib.h>\n\
        void three(void) { free(malloc(15005)); __asm__ volatile(\"\"); }\n\
        void four(void) { free(malloc(15007)); __asm__ volatile(\"\"); }\n";
    let library = bench.compile("library.so", library, &["-O1", "-shared", "-fPIC"]);
    let program = bench.compile("program", source, &["-O1", "-pthread", "-ldl"]);
    let recording = bench.record(Command::new(program).arg(library)).check();
    for size in [15001, 15003, 15005, 15007] {
        let Event::Alloc { stack, .. } = recording.allocs(size)[0] else { panic!() };
        let (frames, cut) = recording.stack(stack).expect("its stack");
        assert!(frames.len() >= 3 && !cut, "{size}: {frames:x?}");
    }
}

#[test]
fn runs_with_undefined_behaviour_trapped() {
    let bench = Bench::new();
    build(&bench, &["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]);
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *arg) { for (int i = 0; i < 300; i++) free(realloc(calloc(i, 3), i * 7)); return arg; }
int main(void)
{
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, work, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    int status;
    if (fork() == 0) { work(0); exit(0); }
    wait(&status);
    return status != 0;
}
"#;
    let recording = bench.run(source, &["-O1"]).check();
    assert!(recording.events().len() > 300 * 9 * 3);
    let mut python = Command::new("sh");
    python.args(["-c", "python3 -c 'print(1)' || echo 1"]);
    assert_eq!(bench.record(&mut python).check().output, "1\n");
}

#[test]
fn passes_clangs_analyzer() {
    if !Command::new("clang").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no clang");
        return;
    }
    for source in sources() {
        let output = Command::new("clang")
            .args([
                "--analyze",
                "--analyzer-output",
                "text",
                "-std=gnu11",
                "-fno-builtin",
                "-Wall",
                "-Wextra",
                "-Werror",
            ])
            .args(["-Xclang", "-analyzer-werror"])
            .arg(&source)
            .output()
            .expect("run clang");
        assert!(output.status.success(), "{source}: {}", text(&output));
    }
}
