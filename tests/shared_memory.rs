//! Memory that several processes map is one instance of one object, wherever each of them has it; what a fork copies is not.

use std::collections::BTreeSet;
use std::fs;

use numamma_tests::report::{Object, Report, text};
use numamma_tests::{Place, Run};
use serde_json::Value;

/// Words of an array, all of which a process reads at random, and their pages.
const COMMON: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
enum { N = 1 << 21, BYTES = N * 8 };
static void fill(long *words) { for (long i = 0; i < N; i++) words[i] = i * 2654435761u % N; }
static int look_up(const long *words, long x) {
    long sum = 0;
    for (long r = 0; r < ROUNDS; r++) { x = words[(x ^ r) & (N - 1)]; sum += x; }
    return sum == 1;
}
static void wait_for_all(void) { while (wait(0) > 0); }
"#;
const PAGES: u64 = (1 << 21) * 8 / 4096;

/// The parent fills a table, of which each of four children reads all.
const FORKED: &str = r"
int main(void) {
    long *table = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(table);
    for (long child = 0; child < 4; child++) if (fork() == 0) _exit(look_up(table, child));
    wait_for_all();
    return 0;
}";

/// Records a program; its place.
fn record(source: &str, rounds: u32, options: &[&str]) -> Place {
    let place = Place::alone();
    let source = format!("{COMMON}{source}");
    let program = place.compile("gcc", "program", &source, &["-O1", "-g", &format!("-DROUNDS={rounds}")]);
    let run = Run::numamma().arg("record").arg("-o").arg(place.dataset()).args(options).arg("--").arg(&program);
    run.limit(300).run().success();
    place
}

/// That an object is one instance, whose pages this thread touched first and four processes use.
fn is_one_table(object: &Object, first: usize) {
    assert_eq!((object.instances, object.bytes, object.pages), (1, PAGES * 4096, PAGES), "{object:?}");
    let touched: u64 = object.first_touch.iter().filter(|of| of.thread == first).map(|of| of.pages).sum();
    assert_eq!(touched, PAGES, "{:?}", object.first_touch);
    assert_eq!(object.first_touch.iter().map(|of| of.pages).sum::<u64>(), PAGES, "{:?}", object.first_touch);
}

/// Threads with more than a tenth of an object's cost.
fn users(object: &Object) -> usize {
    object.threads.iter().filter(|of| of.cost_share > 0.1).count()
}

#[test]
fn a_table_that_forked_processes_share_is_one() {
    let place = record(FORKED, 4_000_000, &["--rate", "1000"]);
    let table = Report::object_of(&place.dataset(), "table");
    is_one_table(&table, 0);
    assert_eq!((table.pattern.kind.as_str(), users(&table)), ("shared", 4), "{table:?}");
    assert!(table.instance_table.is_empty(), "{table:?}");
    let pages = table.page_table.as_ref().expect("pages");
    let numbers: BTreeSet<u64> = pages.iter().map(|page| page.page).collect();
    assert_eq!((pages.len() as u64, numbers.first(), numbers.last()), (PAGES, Some(&0), Some(&(PAGES - 1))));
    assert!(pages.iter().all(|page| page.first_touch_thread == Some(0)));
    let advice = table.advice.as_ref().expect("advice");
    assert_eq!((advice.kind.as_str(), advice.thread), ("interleave", 0));
    let shown = text(&place.dataset());
    assert!(shown.contains("T0 100 %") && !shown.contains("5 instances"), "{shown}");

    let plan = |options: &[&str]| {
        let machine = place.path("four.toml");
        fs::write(&machine, MACHINE).expect("a file");
        let run = Run::numamma().arg("plan").arg(place.dataset()).arg("--machine").arg(machine);
        run.args(["--format", "json"]).args(options).run()
    };
    let found = |options: &[&str]| -> Value { serde_json::from_slice(&plan(options).success().stdout).expect("JSON") };
    for options in [&[][..], &["--pin", "scatter"]] {
        let plan = found(options);
        assert_eq!(plan["objects"][0]["policy"], "interleave", "{plan:#}");
        assert!(plan["now"]["remote_share"].as_f64() > Some(0.3), "{plan:#}");
        assert!(plan["toml"].as_str().is_some_and(|toml| !toml.contains("scatter")), "{plan:#}");
        assert_eq!(plan["notes"], Value::Array(Vec::new()), "{plan:#}");
    }
    // All have room on the first node: what is said of it offers what is not given, and is not refused.
    let notes = found(&["--pin", "compact"])["notes"].to_string();
    assert!(notes.contains("All 4 threads have room on node 0"), "{notes}");
    assert!(notes.contains("--pin scatter") && !notes.contains("--threads"), "{notes}");
    plan(&["--threads", "48"]).exits(125).fails_clearly(&["several processes"]);
}

/// Two nodes of eight CPUs.
const MACHINE: &str = "name = \"two\"\nsource = \"made up\"\npage_bytes = 4096\n\
    nodes = [{ cpus = 8 }, { cpus = 8 }]\nlatency_ns = [[100, 300], [300, 100]]\n";

#[test]
fn counts_of_a_shared_table_are_of_one_instance() {
    let place = record(FORKED, 50_000, &["--sampler", "exact"]);
    let table = Report::object_of(&place.dataset(), "table");
    is_one_table(&table, 0);
    assert_eq!((table.accesses.reads, table.accesses.writes), (200_000.0, f64::from(1 << 21)));
    assert_eq!(table.threads.len(), 5, "{table:?}");
}

/// Each of four executed programs opens the memory by its name, two of them only half of it; the one that is told to fill it is the
/// first child. Each has it at another address.
const OPENED: &str = r#"
int main(int argc, char **argv) {
    if (argc > 1) {
        int fd = shm_open(argv[1], O_RDWR, 0600), number = atoi(argv[2]);
        char *at = mmap(0, 4096 * (number + 3), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        long *table = mmap(0, number % 2 ? BYTES : BYTES / 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (number == 1) return fill(table), 0;
        long *end = number % 2 ? table + N / 2 : mmap(0, BYTES / 2, PROT_READ, MAP_SHARED, fd, BYTES / 2);
        long x = number + (at != 0), sum = 0;
        for (long r = 0; r < ROUNDS; r++) {
            x = x & (N / 2) ? end[(x ^ r) & (N / 2 - 1)] : table[(x ^ r) & (N / 2 - 1)];
            sum += x;
        }
        return sum == 1;
    }
    char name[64], number[2] = "1";
    strcpy(name, "/numamma-test-XXXXXX");
    for (char *c = name + 14; *c; c++) *c = 'a' + getpid() / (c - name) % 26;
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, BYTES)) return 9;
    if (fork() == 0) execl(argv[0], argv[0], name, number, NULL);
    wait_for_all();
    for (number[0] = '2'; number[0] <= '5'; number[0]++) if (fork() == 0) execl(argv[0], argv[0], name, number, NULL);
    wait_for_all();
    shm_unlink(name);
    return 0;
}"#;

#[test]
fn memory_that_programs_open_by_name_is_one() {
    let place = record(OPENED, 4_000_000, &["--rate", "1000"]);
    let report = Report::of(&place.dataset());
    let table = report.object("table");
    // One process maps it as two halves, which other processes join.
    is_one_table(table, 1);
    assert_eq!((table.pattern.kind.as_str(), users(table)), ("shared", 4), "{table:?}");
}

/// Memory of System V, a file that is in memory alone, and a mapping that moves.
const OTHERS: &str = r#"
int main(void) {
    int id = shmget(IPC_PRIVATE, BYTES, 0600 | IPC_CREAT);
    long *segment = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    fill(segment);
    int fd = memfd_create("table", 0);
    if (ftruncate(fd, BYTES)) return 9;
    long *moved = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(moved);
    moved = mremap(moved, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (long child = 0; child < 4; child++) if (fork() == 0) {
        long *table = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (child == 0) fill(table);
        _exit(look_up(table, child) + look_up(segment, child) + look_up(moved, child));
    }
    wait_for_all();
    return 0;
}"#;

#[test]
fn other_shared_memory_is_one_too() {
    let place = record(OTHERS, 50_000, &["--sampler", "exact"]);
    let report = Report::of(&place.dataset());
    let table = report.object("table");
    assert_eq!((table.instances, table.pages, table.accesses.reads), (1, PAGES, 200_000.0), "{table:?}");
    let segment = report.object("[System V memory]");
    is_one_table(segment, 0);
    assert_eq!((segment.accesses.reads, segment.accesses.writes), (200_000.0, f64::from(1 << 21)));
    let moved = report.object("moved");
    is_one_table(moved, 0);
    assert_eq!((moved.accesses.reads, moved.accesses.writes), (200_000.0, f64::from(1 << 21)));
}

/// A private array is copied when a child writes to it: each process has its own.
const COPIED: &str = r"
int main(void) {
    volatile long *array = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < N; i++) array[i] = i;
    for (long child = 0; child < 4; child++) if (fork() == 0) {
        for (int round = 0; round < ROUNDS; round++) for (long i = 0; i < N; i++) array[i] += child;
        _exit(0);
    }
    wait_for_all();
    return 0;
}";

#[test]
fn what_a_fork_copies_is_each_processs_own() {
    let place = record(COPIED, 40, &["--rate", "1000"]);
    let array = Report::object_of(&place.dataset(), "array");
    assert_eq!((array.instances, array.pages), (5, 5 * PAGES), "{array:?}");
    assert_eq!(array.pattern.kind, "private", "{array:?}");
    assert_eq!(array.instance_table.len(), 5);
    for instance in &array.instance_table {
        let user = instance.threads.first().map(|of| of.thread);
        let [touch] = &instance.first_touch[..] else { panic!("{instance:?}") };
        assert_eq!((Some(touch.thread), touch.pages), (user, PAGES), "{instance:?}");
    }
    assert!(array.advice.is_none(), "{array:?}");
}
