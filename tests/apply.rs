//! `numamma apply` on a machine of one node: plans find their objects, the program is none the worse, and what is wrong is said. Where
//! pages go among several nodes is tested in the lab.

use std::fs;
use std::path::{Path, PathBuf};

use numamma_tests::run::OWN_FAILURE;
use numamma_tests::{Outcome, Place, Run, build};
use serde_json::Value;

/// A static array, a heap block and a mapping of 8 MiB each, used by two threads.
const OBJECTS: &str = include_str!("helpers/objects.c");

struct Applied {
    outcome: Outcome,
    report: Value,
}

/// Runs a program under a plan, or with other options of `apply`.
fn apply(place: &Place, plan: Option<&str>, options: &[&str], command: &[&Path]) -> Applied {
    let (file, report) = (place.path("plan.toml"), place.path("placed.json"));
    let _ = fs::remove_file(&report);
    let mut run = Run::numamma().arg("apply");
    if let Some(plan) = plan {
        fs::write(&file, plan).expect("write the plan");
        run = run.arg(&file);
    }
    let outcome = run.args(options).arg("--report").arg(&report).arg("--").args(command).run();
    let report = fs::read(&report).map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"));
    Applied { outcome, report }
}

impl Applied {
    /// What became of the object of that name, or of that number.
    #[track_caller]
    fn rule(&self, name: &str) -> &Value {
        let rules = self.report["rules"].as_array().unwrap_or_else(|| panic!("{}", self.outcome));
        rules.iter().find(|rule| rule["object"] == name).unwrap_or_else(|| panic!("{name} is not in {:#}", self.report))
    }

    /// So many objects of that name, and all of their pages are where they should be.
    #[track_caller]
    fn is_placed(&self, name: &str, objects: u64) {
        let rule = self.rule(name);
        assert_eq!(rule["objects"], objects, "{rule:#}");
        assert_eq!(rule["refused"], 0, "{rule:#}");
        assert_eq!(rule["pages"]["elsewhere"], 0, "{rule:#}");
        assert_eq!(rule["pages"]["unread"], 0, "{rule:#}");
    }

    #[track_caller]
    fn pages(&self, name: &str) -> u64 {
        let rule = self.rule(name);
        rule["pages"]["right"].as_u64().unwrap_or_else(|| panic!("{rule:#}"))
    }
}

fn objects(place: &Place, flags: &[&str]) -> PathBuf {
    place.compile("gcc", "objects", OBJECTS, flags)
}

/// One object of each kind, by its name.
const BY_NAME: &str = r#"
    version = 1
    mode = "strict"
    [[object]]
    static = "grid"
    policy = "block"
    [[object]]
    name = "block"
    heap = "make objects.c:13"
    policy = "interleave"
    [[object]]
    map = "main"
    policy = "bind"
    nodes = [0]
"#;

/// The list of what is placed has room for more than most programs need: 3.5 MiB.
#[test]
fn a_process_reads_no_more_of_the_list_than_is_used() {
    let place = Place::together();
    let script = place.script("grep RssShmem /proc/self/status; :");
    let applied = apply(&place, None, &["--policy", "interleave"], &["/bin/sh".as_ref(), &script]);
    let out = applied.outcome.success().out();
    let shared = out.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    assert!(shared.is_some_and(|kilobytes| kilobytes < 1024), "{out}");
}

#[test]
fn objects_are_found_by_name() {
    let place = Place::together();
    for flags in [&["-O2"][..], &["-O2", "-no-pie"], &["-O0"], &["-O2", "-Wl,-z,now"]] {
        let program = objects(&place, flags);
        let native = Run::new(&program).run();
        let applied = apply(&place, Some(BY_NAME), &[], &[&program]);
        assert_eq!((applied.outcome.shell_status(), applied.outcome.out()), (3, native.out()), "{}", applied.outcome);
        for name in ["grid", "block", "main"] {
            applied.is_placed(name, 1);
            // Both ends of the array may share their pages with others'.
            assert!((2047..=2049).contains(&applied.pages(name)), "{flags:?} {name}: {:#}", applied.report);
        }
        assert!(applied.outcome.err().contains("100 %"), "{}", applied.outcome);
    }
}

#[test]
fn a_member_of_a_structure_is_placed_by_its_name() {
    let place = Place::together();
    let source = "static struct { int n; double left[1 << 18], right[1 << 18]; } grid;
        int main(void) {
            for (int i = 0; i < 1 << 18; i++) { grid.left[i] = i; grid.right[i] = i; }
            return grid.n;
        }";
    let program = place.compile("gcc", "structure", source, &["-O0", "-g"]);
    let plan = "version = 1\nmode = \"strict\"\n[[object]]\nstatic = \"grid.right\"\npolicy = \"interleave\"\n";
    let applied = apply(&place, Some(plan), &[], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
    applied.is_placed("grid.right", 1);
    assert!((511..=513).contains(&applied.pages("grid.right")), "{:#}", applied.report);
}

#[test]
fn one_policy_for_everything() {
    let place = Place::together();
    let program = objects(&place, &[]);
    for policy in ["interleave", "block", "bind=0", "preferred=0", "block-cyclic=64 KiB"] {
        let applied = apply(&place, None, &["--policy", policy], &[&program]);
        assert_eq!(applied.outcome.shell_status(), 3, "{}", applied.outcome);
        applied.is_placed("all objects", 3);
        assert!((6142..=6147).contains(&applied.pages("all objects")), "{policy}: {:#}", applied.report);
    }
    let applied = apply(&place, None, &["--policy", "first-touch"], &[&program]);
    assert_eq!(applied.rule("all objects")["pages"]["right"], 0, "nothing is asked for");
}

#[test]
fn a_call_site_is_the_first_function_that_the_user_wrote() {
    let place = Place::together();
    let source = r#"
        #include <cstdio>
        #include <cstdlib>
        #include <cstring>
        #include <vector>
        static void *my_alloc(size_t n) { return malloc(n); }
        __attribute__((noinline)) static std::vector<double> *grow() {
            return new std::vector<double>(1 << 18);
        }
        __attribute__((noinline)) static char *pool() {
            return (char *)my_alloc(1 << 21);
        }
        int main() {
            std::vector<double> *v = grow();
            char *p = pool();
            memset(p, 1, 1 << 21);
            printf("%g\n", (*v)[77] + p[5]);
            delete v;
            free(p);
        }"#;
    let program = place.compile("g++", "sites", source, &["-O1"]);
    let plan = r#"
        version = 1
        wrappers = ["my_alloc"]
        [[object]]
        heap = "grow"
        policy = "block"
        [[object]]
        heap = "pool"
        policy = "block"
        [[object]]
        heap = "main" # and not what printf allocates for it
        min-size = "64 KiB"
        policy = "block"
        "#;
    let applied = apply(&place, Some(plan), &[], &[&program]);
    applied.is_placed("grow", 2); // the vector, too small for a page, and its contents
    assert_eq!(applied.rule("grow")["too_small"], 1);
    applied.is_placed("pool", 1);
    applied.is_placed("main", 0);
    // The allocator's word before the block, and what fills the last page.
    assert_eq!((applied.pages("grow"), applied.pages("pool")), (513, 513));
}

#[test]
fn instances_and_sizes_choose() {
    let place = Place::together();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        __attribute__((noinline)) static char *make(size_t n) { return memset(malloc(n), 1, n); }
        int main(void) {
            for (int i = 0; i < 10; i++) make(1 << 20);
            for (int i = 0; i < 4; i++) make(2 << 20);
            return 0;
        }"#;
    let program = place.compile("gcc", "instances", source, &[]);
    let plan = r#"
        version = 1
        [[object]]
        name = "large"
        heap = "make"
        min-size = "2 MiB"
        policy = "block"
        [[object]]
        name = "third to fifth"
        heap = "make"
        max-size = "1 MiB"
        instances = "2-4"
        policy = "interleave"
        "#;
    let applied = apply(&place, Some(plan), &[], &[&program]);
    applied.is_placed("large", 4);
    applied.is_placed("third to fifth", 3);
    assert!((4 * 512..=4 * 513).contains(&applied.pages("large")), "{:#}", applied.report);
}

/// Each rule counts what it matches, whoever takes it: so rules that differ in their instances alone divide the objects of a place.
#[test]
fn rules_that_differ_in_instances_divide_the_objects() {
    let place = Place::together();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        static void set(char *p, size_t n) { memset(p, 1, n); __asm__ volatile("" ::: "memory"); }
        __attribute__((noinline)) static char *make(size_t n) { char *p = malloc(n); set(p, n); return p; }
        static int one(int n) { static char table[1 << 20]; set(table, sizeof table); return table[n]; }
        static int two(int n) { static char table[1 << 20]; set(table, sizeof table); return table[n]; }
        int main(void) {
            for (int i = 0; i < 10; i++) make(1 << 20);
            return one(5) + two(7);
        }"#;
    let program = place.compile("gcc", "divided", source, &["-O1"]);
    let object = |name: &str, what: &str, instances: &str| {
        format!("[[object]]\nname = \"{name}\"\n{what}\ninstances = {instances}\npolicy = \"interleave\"\n")
    };
    let plan = format!(
        "version = 1\nmode = \"strict\"\n{}{}{}{}{}{}",
        object("first", "heap = \"make\"", "\"0-2\""),
        object("second", "heap = \"make\"", "\"3-6\""),
        object("rest", "heap = \"make\"", "\"8-\""),
        object("eighth of all", "heap = \"*\"\nmin-size = \"1 MiB\"", "7"),
        object("one table", "static = \"table\"", "0"),
        object("other table", "static = \"table\"", "1"),
    );
    let applied = apply(&place, Some(&plan), &[], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 2, "{}", applied.outcome);
    for (name, objects) in
        [("first", 3), ("second", 4), ("rest", 2), ("eighth of all", 1), ("one table", 1), ("other table", 1)]
    {
        applied.is_placed(name, objects);
        assert!(applied.pages(name) >= objects * 255, "{name}: {:#}", applied.report);
    }
}

/// Names of places as reports print them, cut or not, mean in a plan what they mean there.
#[test]
fn what_a_report_shows_can_be_pasted() {
    let place = Place::together();
    let source = r#"
        #include <cstdlib>
        #include <cstring>
        #define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
        #define INLINE __attribute__((always_inline)) inline
        template <typename T> struct Graph {
            T *cells;
            INLINE void fill(long n) { cells = new T[n]; use(cells, n); }
            __attribute__((noinline)) static void use(T *p, long n) { for (long i = 0; i < n; i += 64) p[i] = T(i); KEEP(p); }
            static INLINE T **GenIndex(long n) { T **index = new T *[n]; memset((void *)index, 1, n * sizeof(T *)); KEEP(index); return index; }
        };
        namespace app {
        template <typename T> __attribute__((noinline)) T *make(long n) { T *p = (T *)malloc(n * sizeof(T)); memset((void *)p, 1, n); KEEP(p); return p; }
        struct Domain { double *x; void allocate(int n); };
        static INLINE char *init_table(long n) { char *p = (char *)calloc(n, 1); memset(p, 2, n); KEEP(p); return p; }
        __attribute__((noinline)) void Domain::allocate(int n) { x = (double *)malloc(n * 8); memset(x, 1, n * 8); KEEP(x); }
        }
        int main() {
            Graph<int> g; Graph<double> h; app::Domain d;
            for (int turn = 0; turn < 30; turn++) {
                g.fill(90000); if (turn % 2) h.fill(90000);
                int **a = Graph<int>::GenIndex(90000);
                int *i = app::make<int>(90000);
                double *f = turn % 3 ? app::make<double>(90000) : 0;
                char *t = app::init_table(900000);
                d.allocate(90000);
                delete[] g.cells; if (turn % 2) delete[] h.cells;
                delete[] a; free(i); free(f); free(t); free(d.x);
            }
            return 0;
        }"#;
    let program = place.compile("g++", "names", source, &["-O2"]);
    let through = |heap: &str, wrapper: &str| {
        let wrappers = if wrapper.is_empty() { String::new() } else { format!("wrappers = [\"{wrapper}\"]\n") };
        let plan = format!(
            "version = 1\nmode = \"strict\"\n{wrappers}[[object]]\nname = \"it\"\nheap = \"{heap}\"\npolicy = \"interleave\"\n"
        );
        let applied = apply(&place, Some(&plan), &[], &[&program]);
        assert_eq!(applied.outcome.shell_status(), 0, "{heap}: {}", applied.outcome);
        applied.rule("it")["objects"].as_u64().expect("a count")
    };
    let found = |heap: &str| through(heap, "");
    for (heap, objects) in [
        ("init_table", 30),
        ("Domain::allocate", 30),
        ("Graph<int>::GenIndex", 30),
        ("GenIndex", 30),
        ("Graph<int>::fill", 30),
        ("Graph<double>::fill", 15),
        ("Graph<…>::fill", 45),
        ("app::make<…>", 50),
        ("app::make<double>", 20),
        ("make", 50),
    ] {
        assert_eq!(found(heap), objects, "{heap}");
    }
    // And as this very program's report prints them: each with as many objects as were allocated there.
    let dataset = place.dataset();
    Run::record(&dataset).arg(&program).run().success();
    let sites = Run::report(&dataset).args(["--by", "site", "--format", "json", "--top", "1000"]).run().success();
    let sites: Value = serde_json::from_str(&sites.out()).expect("JSON");
    let rows = sites["sites"].as_array().expect("rows");
    let mut pasted = 0;
    for row in rows.iter().filter(|row| row["count"].as_u64() >= Some(15)) {
        let site = &row["site"];
        let file = site["file"].as_str().and_then(|file| file.rsplit('/').next()).expect("a file");
        let name = format!("{} {file}:{}", site["function"].as_str().expect("a function"), site["line"]);
        // A wrapper that the recorder has found by itself is the report's `via`, and the plan's `wrappers`.
        let wrapper = site["via"].as_str().unwrap_or_default();
        assert_eq!(Some(through(&name, wrapper)), row["count"].as_u64(), "{name}: {row:#}");
        pasted += 1;
    }
    assert!(pasted >= 5, "{sites:#}");
}

#[test]
fn threads_run_where_the_plan_says() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let cpus =
        |applied: &Applied| applied.outcome.out().trim().rsplit(' ').next().map(|n| n.parse::<u64>().unwrap() % 100);
    let free = apply(&place, None, &["--policy", "block"], &[&program]);
    let pinned = apply(&place, None, &["--policy", "block", "--pin", "compact"], &[&program]);
    assert_eq!(cpus(&pinned), Some(1), "{}", pinned.outcome);
    assert_eq!(pinned.report["pinned"], 2, "{:#}", pinned.report);
    assert_eq!(free.report["pinned"], 0, "{:#}", free.report);
    let native = Run::new(&program).run();
    assert_eq!(free.outcome.out(), native.out());
}

/// Threads allocate and free small blocks of one place across each other, in all ways, and check what is in them.
const SMALL: &str = r#"
    #include <malloc.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    enum { SLOTS = 512, ROUNDS = 60000, THREADS = 4 };
    static unsigned char *slots[SLOTS];
    static unsigned sizes[SLOTS];
    static pthread_mutex_t locks[SLOTS];
    static int wrong;
    __attribute__((noinline)) static void *node(size_t n, int zeroed) {
        void *p = zeroed ? calloc(1, n) : malloc(n);
        if ((uintptr_t)p % 16) wrong = 1;
        return p;
    }
    static void check(int s) {
        for (unsigned i = 0; i < sizes[s]; i++) if (slots[s][i] != (unsigned char)(s + i)) wrong = 2;
        if (malloc_usable_size(slots[s]) < sizes[s]) wrong = 3;
    }
    static void fill(int s, unsigned n) {
        sizes[s] = n;
        for (unsigned i = 0; i < n; i++) slots[s][i] = (unsigned char)(s + i);
    }
    static void *work(void *x) {
        uint64_t r = 88172645463325252u ^ (uint64_t)(uintptr_t)x * 7919;
        for (int round = 0; round < ROUNDS; round++) {
            r ^= r << 13; r ^= r >> 7; r ^= r << 17;
            int s = r % SLOTS;
            unsigned n = 1 + (r >> 20) % 700;
            pthread_mutex_lock(&locks[s]);
            if (!slots[s]) {
                int zeroed = r >> 50 & 1;
                slots[s] = node(n, zeroed);
                if (zeroed) for (unsigned i = 0; i < n; i++) if (slots[s][i]) wrong = 4;
                fill(s, n);
            } else if (r >> 51 & 1) {
                check(s);
                free(slots[s]);
                slots[s] = 0;
            } else {
                check(s);
                unsigned kept = n < sizes[s] ? n : sizes[s];
                slots[s] = realloc(slots[s], n);
                for (unsigned i = 0; i < kept; i++) if (slots[s][i] != (unsigned char)(s + i)) wrong = 5;
                fill(s, n);
            }
            pthread_mutex_unlock(&locks[s]);
        }
        return 0;
    }
    int main(void) {
        pthread_t t[THREADS];
        for (int i = 0; i < SLOTS; i++) pthread_mutex_init(&locks[i], 0);
        for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
        printf("%d\n", wrong);
        return wrong;
    }"#;

#[test]
fn small_objects_are_gathered() {
    let place = Place::together();
    let program = place.compile("gcc", "small", SMALL, &["-O1"]);
    for gather in ["\"by-thread\"", "{ instances = 1000 }"] {
        let plan = format!("version = 1\n[[object]]\nheap = \"node\"\npolicy = \"block\"\ngather = {gather}\n");
        let applied = apply(&place, Some(&plan), &[], &[&program]);
        assert_eq!((applied.outcome.shell_status(), applied.outcome.out().trim()), (0, "0"), "{}", applied.outcome);
        let rule = applied.rule("node");
        assert!(rule["objects"].as_u64() > Some(1000) && applied.pages("node") > 10, "{rule:#}");
        assert_eq!((&rule["refused"], &rule["pages"]["elsewhere"]), (&0.into(), &0.into()), "{rule:#}");
    }
    // And while it is recorded.
    let plan = "version = 1\n[[object]]\nheap = \"node\"\npolicy = \"block\"\ngather = \"by-thread\"\n";
    let dataset = place.dataset();
    let options = ["--record", dataset.to_str().expect("a path of letters")];
    let applied = apply(&place, Some(plan), &options, &[&program]);
    assert_eq!((applied.outcome.shell_status(), applied.outcome.out().trim()), (0, "0"), "{}", applied.outcome);
    assert!(applied.rule("node")["objects"].as_u64() > Some(1000), "{:#}", applied.report);
    let report = numamma_tests::report::Report::of(&dataset);
    // Its threads may be too short for a sample.
    let lost = report.losses.iter().filter(|loss| loss.kind != "thread_without_sample").count();
    assert_eq!(lost, 0, "{:?}", report.losses);
}

#[test]
fn libraries_that_come_later_are_placed_too() {
    let place = Place::together();
    let library = "char table[1 << 20] = {1}; char *use(void) { for (int i = 0; i < 1 << 20; i += 4096) table[i]++; return table; }";
    let library = place.compile("gcc", "liblate.so", library, &["-shared", "-fPIC"]);
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            void *h = dlopen(argv[1], RTLD_NOW);
            if (!h) { puts(dlerror()); return 1; }
            char *(*use)(void) = (char *(*)(void))dlsym(h, "use");
            free(malloc(10));
            return use()[0] != 2;
        }"#;
    let program = place.compile("gcc", "late", source, &["-ldl"]);
    let plan = format!(
        "version = 1\n[[object]]\nstatic = \"table\"\nmodule = \"{}\"\npolicy = \"block\"\n",
        library.display()
    );
    let applied = apply(&place, Some(&plan), &[], &[&program, &library]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
    applied.is_placed("table", 1);
    assert!(applied.pages("table") >= 255, "{:#}", applied.report);
}

/// A library that was closed has its static objects' pages counted as they lay.
#[test]
fn what_was_closed_is_read_before() {
    let place = Place::together();
    let library = "static char table[1 << 20] = {1}; char use(void) { for (int i = 0; i < 1 << 20; i += 4096) table[i]++; return table[0]; }";
    let library = place.compile("gcc", "closed.so", library, &["-shared", "-fPIC"]);
    let source = r#"
        #include <dlfcn.h>
        int main(int argc, char **argv) {
            void *kept = dlopen("libm.so.6", RTLD_NOW);
            for (int i = 0; i < 3; i++) {
                void *h = dlopen(argv[argc - 1], RTLD_NOW);
                char (*use)(void) = h ? (char (*)(void))dlsym(h, "use") : 0;
                if (!use || use() != 2 || dlclose(h)) return 1;
            }
            return dlclose(kept);
        }"#;
    let program = place.compile("gcc", "closes", source, &["-ldl"]);
    let plan = format!(
        "version = 1\n[[object]]\nstatic = \"table\"\nmodule = \"{}\"\npolicy = \"interleave\"\n",
        library.display()
    );
    let applied = apply(&place, Some(&plan), &[], &[&program, &library]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
    applied.is_placed("table", 3);
    assert!(applied.pages("table") >= 3 * 255, "{:#}", applied.report);
}

#[test]
fn children_and_what_they_execute_are_placed() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let script = format!("{0} > /dev/null; {0} > /dev/null & wait; (exec {0}) > /dev/null; exit 5", program.display());
    let plan = format!("program = \"{}\"\n{}", program.display(), BY_NAME.trim().replace("mode = \"strict\"", ""));
    let applied = apply(&place, Some(&plan), &[], &[Path::new("sh"), Path::new("-c"), Path::new(&script)]);
    assert_eq!(applied.outcome.shell_status(), 5, "{}", applied.outcome);
    applied.is_placed("grid", 3);
    applied.is_placed("block", 3);
}

#[test]
fn a_program_that_is_killed_was_read_before() {
    let place = Place::together();
    let source = r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        static char grid[4 << 20];
        int main(void) { memset(grid, 1, sizeof grid); sleep(1); raise(SIGKILL); }"#;
    let program = place.compile("gcc", "killed", source, &[]);
    let applied = apply(&place, None, &["--policy", "block"], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 137, "{}", applied.outcome);
    assert!(applied.pages("all objects") >= 1023, "{:#}", applied.report);
}

#[test]
fn a_plan_that_cannot_be_meant_runs_nothing() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let fails = |plan: &str, words: &[&str]| {
        let applied = apply(&place, Some(plan), &[], &[&program]);
        assert_eq!(applied.outcome.shell_status(), OWN_FAILURE, "{plan}\n{}", applied.outcome);
        assert!(applied.outcome.out().is_empty(), "the program ran: {}", applied.outcome);
        for word in words {
            assert!(applied.outcome.err().contains(word), "{word} is not in {}", applied.outcome);
        }
    };
    let object = |rest: &str| format!("version = 1\n[[object]]\n{rest}\n");
    fails(
        &object("static = \"grid\"\npolicy = \"bind\"\nnodes = [7]"),
        &["plan.toml:2: node 7: this process can use the memory of node 0"],
    );
    fails("version = 9\n", &["plan.toml:1: version 9"]);
    fails("version = 1\n[[object]]\nstatic = \"gr", &["plan.toml:3: "]);
    fails(
        &object("static = \"grid\"\npolicy = \"block\"\n[[object]]\nstatic = \"grid\"\npolicy = \"interleave\""),
        &["plan.toml:5: overlaps the object of line 2"],
    );
    fails(
        &object("static = \"grid\"\npolicy = \"follow-thread\"\nthread = 1"),
        &["plan.toml:2: follow-thread needs [threads]"],
    );
    fails("version = 1\n[threads]\npin = [\"999\"]\n", &["plan.toml:3: CPU 999: this process can use CPU"]);
    fails(
        "version = 1\nmode = \"strict\"\n[[object]]\nstatic = \"grud\"\npolicy = \"block\"\n",
        &["plan.toml:3: static \"grud\": objects has no such variable"],
    );
    // Best effort: the rest is applied.
    let missing = "version = 1\n[[object]]\nstatic = \"grud\"\npolicy = \"block\"\n[[object]]\nstatic = \"grid\"\npolicy = \"block\"\n";
    let applied = apply(&place, Some(missing), &[], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 3, "{}", applied.outcome);
    assert!(
        applied.outcome.err().contains("plan.toml:2: static \"grud\": objects has no such variable"),
        "{}",
        applied.outcome
    );
    applied.is_placed("grid", 1);
}

#[test]
fn other_ways_to_fail() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let fails = |arguments: &[&str], code: i32, words: &[&str]| {
        Run::numamma().arg("apply").args(arguments).run().exits(code).fails_clearly(words);
    };
    let program = program.to_str().expect("a path of letters");
    fails(&["--", program], OWN_FAILURE, &["plan.toml", "--policy"]);
    fails(&["/no/such/plan.toml", "--", program], OWN_FAILURE, &["/no/such/plan.toml"]);
    fails(&["--policy", "blok", "--", program], OWN_FAILURE, &["blok", "interleave"]);
    fails(&["--policy", "bind=9", "--", program], OWN_FAILURE, &["--policy: node 9"]);
    fails(&["--pin", "compact", "--", program], OWN_FAILURE, &["apply what?"]);
    fails(
        &["--policy", "block", "--report", "/no/such/folder/r.json", "--", "/bin/false"],
        OWN_FAILURE,
        &["--report /no/such"],
    );
    fails(&["--policy", "block", "--", "/no/such/program"], 127, &["/no/such/program"]);
    fails(&["--policy", "block"], OWN_FAILURE, &["no program given"]);
    let fixed = place.try_compile("gcc", "fixed", "int main(void) { return 0; }", &["-static"]);
    if fixed.status.success() {
        let fixed = place.path("fixed");
        fails(
            &["--policy", "block", "--", fixed.to_str().expect("letters")],
            OWN_FAILURE,
            &["statically linked", "numactl"],
        );
    }
}

#[test]
fn the_same_is_said_for_other_tools() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let shown = Run::numamma()
        .args(["apply", "--show", "--pin", "compact", "--policy", "interleave", "--"])
        .arg(&program)
        .run()
        .success();
    for words in ["OMP_PLACES=\"{0}", "numactl --interleave=all", "numa_interleave_memory"] {
        assert!(shown.out().contains(words), "{words}: {shown}");
    }
}

/// A plan for a machine that is not here: two nodes of two CPUs each, as a copy of its files has them.
#[test]
fn a_plan_is_shown_for_another_machine() {
    let place = Place::together();
    let program = objects(&place, &[]);
    let root = place.path("machine");
    let write = |path: String, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("its folder");
        fs::write(path, text).expect("a file");
    };
    write("sys/devices/system/cpu/online".into(), "0-3\n");
    write("sys/devices/system/node/online".into(), "0-1\n");
    for (node, cpus) in [(0, "0-1"), (1, "2-3")] {
        let folder = format!("sys/devices/system/node/node{node}");
        write(format!("{folder}/cpulist"), &format!("{cpus}\n"));
        write(format!("{folder}/meminfo"), &format!("Node {node} MemTotal: 1048576 kB\n"));
        write(format!("{folder}/distance"), if node == 0 { "10 20\n" } else { "20 10\n" });
    }
    for cpu in 0..4 {
        write(format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), &format!("{cpu}\n"));
    }
    let plan = place.path("there.toml");
    fs::write(
        &plan,
        "version = 1\n[threads]\npin = \"scatter\"\n[[object]]\nstatic = \"grid\"\npolicy = \"bind\"\nnodes = [1]\n",
    )
    .expect("a plan");
    let show = |machine: &Path| {
        let run = Run::numamma().arg("apply").arg(&plan).args(["--show", "--machine"]).arg(machine).arg("--");
        run.arg(&program).run()
    };
    let shown = show(&root).success();
    for words in ["OMP_PLACES=\"{0},{2},{1},{3}\"", "numa_parse_nodestring(\"1\")"] {
        assert!(shown.out().contains(words), "{words}: {shown}");
    }
    show(&place.path("no-machine")).exits(OWN_FAILURE).fails_clearly(&["no CPU is in it"]);
}

#[test]
fn a_program_keeps_mappings_for_itself() {
    let place = Place::together();
    // Each placed block costs two mappings, and a process may have 65,530.
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void *nothing(void *x) { return x; }
        int main(void) {
            for (int i = 0; i < 40000; i++) { char *p = malloc(70000); if (!p) return 1; p[8192] = 1; }
            pthread_t t;
            if (pthread_create(&t, 0, nothing, 0)) return 2;
            pthread_join(t, 0);
            return malloc(1 << 20) ? 0 : 3;
        }"#;
    let program = place.compile("gcc", "mappings", source, &[]);
    let applied = apply(&place, None, &["--policy", "interleave"], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
    let rule = applied.rule("all objects");
    assert!(rule["refused"].as_u64() > Some(0) && applied.pages("all objects") > 1000, "{rule:#}");
}

#[test]
fn what_moves_or_stays_is_placed() {
    let place = Place::together();
    let source = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        static int interleaved(void) {
            char line[512]; int n = 0; FILE *f = fopen("/proc/self/numa_maps", "r");
            while (f && fgets(line, sizeof line, f)) n += strstr(line, " interleave:") != NULL;
            if (f) fclose(f);
            return n;
        }
        int main(int argc, char **argv) {
            (void)argc, (void)argv;
            char *p = malloc(300000);
            memset(p, 1, 300000);
            int before = interleaved();
            if (realloc(p, (size_t)1 << 47)) return 1;
            if (before < 1 || interleaved() < before) return 2;
            // One mapping to the program, two to the kernel: the second half has a policy of its own.
            char *r = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            mmap(r + (4 << 20), 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            memset(r, 1, 8 << 20);
            char *moved = mremap(r, 8 << 20, 24 << 20, MREMAP_MAYMOVE);
            return moved == MAP_FAILED ? 3 : moved[5 << 20] != 1;
        }"#;
    let program = place.compile("gcc", "moves", source, &[]);
    let plan = "version = 1\n[[object]]\nheap = \"*\"\nmin-size = 65536\npolicy = \"interleave\"\n\
                [[object]]\nmap = \"*\"\ninstances = 0\npolicy = \"bind\"\nnodes = [0]\n";
    let applied = apply(&place, Some(plan), &[], &[&program]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
}

#[test]
fn libraries_that_go_and_come_back() {
    let place = Place::together();
    let plug = "#include <stdlib.h>\nchar *pl(long n) { char *p = malloc(n); p[0] = 1; return p; }";
    let plug = place.compile("gcc", "plug.so", plug, &["-shared", "-fPIC"]);
    let other = "#include <stdlib.h>\nchar *qq(long n) { char *p = malloc(n); p[0] = 1; return p; }";
    let other = place.compile("gcc", "other.so", other, &["-shared", "-fPIC"]);
    let source = r#"
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdlib.h>
        static volatile int done;
        static void *noise(void *x) { while (!done) free(malloc(100)); return x; }
        int main(int argc, char **argv) {
            pthread_t t[3];
            for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, noise, 0);
            for (int i = 0; i < 40; i++) {
                // The other comes to lie where this one lay.
                for (int which = 1; which < argc; which++) {
                    void *h = dlopen(argv[which], RTLD_NOW);
                    char *(*make)(long) = (char *(*)(long))dlsym(h, which == 1 ? "pl" : "qq");
                    free(malloc(10));
                    free(make(100000));
                    dlclose(h);
                }
            }
            done = 1;
            for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
            return 0;
        }"#;
    let program = place.compile("gcc", "plugs", source, &["-ldl"]);
    let plan = format!("version = 1\n[[object]]\nheap = \"pl\"\nmodule = \"{}\"\npolicy = \"block\"\n", plug.display());
    let applied = apply(&place, Some(&plan), &[], &[&program, &plug, &other]);
    assert_eq!(applied.outcome.shell_status(), 0, "{}", applied.outcome);
    applied.is_placed("pl", 40);
}

#[test]
fn what_was_closed_stays_closed() {
    let place = Place::together();
    for command in ["/bin/echo hi >&-", "/bin/cat <&-"] {
        let status = |prefix: &str| Run::new("sh").args(["-c", &format!("{prefix} {command}")]).run().shell_status();
        let apply = format!("{} apply --policy block -q --", build::numamma().display());
        assert_eq!((status(&apply), status("")), (1, 1), "{command}");
        let record = format!("{} record --force -o {} --", build::numamma().display(), place.dataset().display());
        assert_eq!(status(&record), 1, "{command}");
    }
}

#[test]
fn policies_are_tried_in_turn() {
    let place = Place::together();
    let (dir, failed) = (place.path("tried"), place.path("failed"));
    let turns = |dir: &Path, command: &[&str]| {
        let run = Run::numamma().arg("try").arg(dir).args(["--rounds", "2", "-p", "interleave", "-p", "block", "--"]);
        run.args(command).run()
    };
    let outcome = turns(&dir, &["sh", "-c", "sleep 0.05"]).success();
    for words in ["as it is", "interleave", "block", "one node"] {
        assert!(outcome.out().contains(words), "{words}: {outcome}");
    }
    let tried: Value = serde_json::from_slice(&fs::read(dir.join("try.json")).expect("results")).expect("JSON");
    let candidates = tried["candidates"].as_array().expect("a list");
    assert_eq!(candidates.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["as it is", "interleave", "block"]);
    for one in candidates {
        assert_eq!(one["seconds"].as_array().map(Vec::len), Some(2), "{one:#}");
        assert!(one["median_s"].as_f64() > Some(0.05), "{one:#}");
        assert_eq!(one["ratio"].is_null(), one["name"] == "as it is", "{one:#}");
    }
    turns(&dir, &["true"]).exits(OWN_FAILURE).fails_clearly(&["there already"]);
    turns(&failed, &["false"]).exits(OWN_FAILURE).fails_clearly(&["did not succeed", "status 1"]);
}

/// One place, reached in several ways: who called it tells them apart, also through a library's function.
#[test]
fn callers_tell_blocks_of_one_place_apart() {
    let place = Place::together();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #define OUT __attribute__((noinline))
        OUT static char *make(size_t bytes) { char *made = malloc(bytes); made[0] = 0; return made; }
        OUT static char *left(size_t bytes) { char *made = make(bytes); made[1] = 0; return made; }
        OUT static char *right(size_t bytes) { char *made = make(bytes); made[2] = 0; return made; }
        static char *kept[64];
        static int made;
        OUT static int by_sort(const void *a, const void *b) {
            if (made < 8) kept[made++] = make(1 << 20);
            return *(const int *)a - *(const int *)b;
        }
        OUT static void twice(void) { kept[40] = left(1 << 20); kept[41] = right(1 << 20); }
        int main(void) {
            int numbers[] = {3, 1, 2};
            for (int i = 20; i < 23; i++) kept[i] = left(1 << 20);
            for (int i = 30; i < 35; i++) kept[i] = right(1 << 20);
            twice();
            qsort(numbers, 3, sizeof *numbers, by_sort);
            for (int i = 0; i < 64; i++) if (kept[i]) memset(kept[i], 1, 1 << 20);
            return 0;
        }"#;
    let program = place.compile("gcc", "callers", source, &["-O2", "-g", "-fomit-frame-pointer"]);
    let object = |callers: &str| format!("[[object]]\nheap = \"make\"\n{callers}policy = \"interleave\"\n");
    let plan = format!(
        "version = 1\n{}{}{}{}{}",
        object("callers = [\"left\", \"twice\"]\n"),
        object("callers = [\"left\"]\n"),
        object("callers = [\"by_sort\", \"main\"]\n"),
        object("callers = [\"main\", \"left\"]\n"),
        object(""),
    );
    let applied = apply(&place, Some(&plan), &[], &[&program]);
    let found = |name: &str| applied.rule(name)["objects"].as_u64();
    let names = ["make < left < twice", "make < left", "make < by_sort < main", "make < main < left", "make"];
    let sorted = found("make < by_sort < main").expect("a count");
    assert!((2..=3).contains(&sorted), "comparisons of three numbers: {sorted}");
    assert_eq!(names.map(found), [1, 3, sorted, 0, 6].map(Some), "{}", applied.outcome);

    let faulty = apply(
        &place,
        Some("version = 1\n[[object]]\nstatic = \"kept\"\ncallers = [\"main\"]\npolicy = \"block\"\n"),
        &[],
        &[&program],
    );
    faulty.outcome.exits(OWN_FAILURE).fails_clearly(&["plan.toml:4", "callers belong to a place"]);
}
