//! What programs say by themselves (`numamma.h`): names of memory, phases, the part of the run that is wanted.

use std::fs;

use numamma_tests::report::{Object, Report};
use numamma_tests::run::OWN_FAILURE;
use numamma_tests::{Place, Run, build, skip};
use numamma_trace::{Dataset, MarkerRow};
use serde_json::Value;

#[track_caller]
fn named<'a>(report: &'a Report, name: &str) -> &'a Object {
    let names = || report.objects.iter().map(|object| object.name.clone()).collect::<Vec<_>>();
    report.objects.iter().find(|object| object.name == name).unwrap_or_else(|| panic!("no {name}: {:?}", names()))
}

/// Neither names nor marks are anything where nobody listens, however the program was linked.
#[test]
fn without_a_recording_nothing_happens() {
    let place = Place::together();
    let source = fs::read_to_string(build::root().join("tests/helpers/annotated.c")).expect("the helper");
    let source = source.replace("../../", &format!("{}/", build::root().display()));
    for flags in [
        &["-pthread"][..],
        &["-pthread", "-static"],
        &["-pthread", "-fno-pie", "-no-pie"],
        &["-pthread", "-O2", "-flto", "-fno-pie", "-no-pie"],
        &["-pthread", "-DNUMAMMA_OFF"],
    ] {
        let program = place.compile("gcc", "program", &source, flags);
        Run::new(&program).arg("quiet").run().success();
        let tracked = !flags.contains(&"-static") && !flags.contains(&"-DNUMAMMA_OFF");
        let dataset = place.path("quiet.numamma");
        Run::record(&dataset).arg(&program).arg("quiet").run().success();
        let marked = Dataset::open(&dataset).expect("a recording").read::<MarkerRow>().expect("its marks");
        assert_eq!(marked.len(), usize::from(tracked), "{flags:?}");
        fs::remove_dir_all(&dataset).expect("remove the recording");
    }
}

#[test]
fn parts_of_a_pool_have_their_names() {
    let place = Place::alone();
    Run::record_with(&place.dataset(), &["--marked".into()])
        .arg(build::helper("annotated"))
        .args(["names", "2000"])
        .run()
        .success();
    let report = Report::of(&place.dataset());
    let (input, output) = (named(&report, "input"), named(&report, "output"));
    assert_eq!((input.kind.as_str(), output.kind.as_str()), ("annotated", "annotated"));
    assert_eq!((input.bytes, output.bytes), (2 << 20, 2 << 20));
    // What was used before and after the marks was not sampled.
    let share = |object: &Object| object.samples as f64 / report.samples.recorded as f64;
    assert!((0.68..0.82).contains(&share(input)), "{}", share(input));
    assert!((0.18..0.32).contains(&share(output)), "{}", share(output));
    let others: u64 = report.objects.iter().filter(|o| o.kind == "heap").map(|o| o.samples).sum();
    assert_eq!(others, 0);
}

/// A name ends with the memory that has it, though nobody takes it back.
#[test]
fn the_next_block_is_not_called_so() {
    let place = Place::alone();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #include <time.h>
        #include "numamma.h"
        static void sweep(volatile char *p, int milliseconds) {
            for (clock_t end = clock() + milliseconds * (CLOCKS_PER_SEC / 1000); clock() < end;)
                for (int i = 0; i < 1 << 20; i += 64) p[i]++;
        }
        int main(void) {
            char *first = malloc(1 << 20), *small = malloc(100);
            numamma_label(first, 1 << 20, "grid");
            numamma_label(small, 100, "small");
            sweep(first, 300);
            free(first);
            free(small);
            char *next = malloc(1 << 20), *again = malloc(100);
            sweep(next, 900);
            for (int i = 0; i < 1 << 28; i++) ((volatile char *)again)[i % 100]++;
            return 0;
        }"#;
    let include = format!("-I{}", build::root().join("inject/annotate").display());
    let program = place.compile("gcc", "next", source, &["-O1", &include]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let heap: u64 = report.objects.iter().filter(|object| object.kind == "heap").map(|object| object.samples).sum();
    let grid = named(&report, "grid").samples;
    assert!(grid * 2 < heap && heap > 500, "{grid} {heap}");
    let small = report.objects.iter().find(|object| object.name == "small").map_or(0, |object| object.samples);
    assert!(small < 20, "{small}");
}

#[test]
fn names_are_counted_too() {
    if !skip::installed("qemu-x86_64") {
        return skip::missing("names_are_counted_too", "qemu-x86_64");
    }
    let place = Place::together();
    let source = r#"
        #include <stdlib.h>
        #include "numamma.h"
        int main(void) {
            volatile char *pool = malloc(1 << 20);
            for (int i = 0; i < 5000; i++) pool[300000 + i % 100] = 1;
            numamma_label((char *)pool + 300000, 1000, "part");
            for (int i = 0; i < 7000; i++) pool[300000 + i % 1000] = 1;
            for (int i = 0; i < 900; i++) pool[i] = 1;
            numamma_unlabel((char *)pool + 300000);
            for (int i = 0; i < 60; i++) pool[300000] = 1;
            return 0;
        }"#;
    let include = format!("-I{}", build::root().join("inject/annotate").display());
    let program = place.compile("gcc", "program", source, &[&include]);
    let run = Run::numamma().args(["record", "--sampler", "exact", "-o"]).arg(place.dataset()).arg("--").arg(&program);
    run.limit(120).run().success();
    let report = Report::of(&place.dataset());
    assert_eq!(named(&report, "part").accesses.writes, 7000.0);
    let pool = report.objects.iter().find(|o| o.kind == "heap").expect("the pool");
    assert_eq!(pool.accesses.writes, 5960.0);
}

#[test]
fn phases_are_in_the_recording() {
    let place = Place::together();
    place.record().arg(build::helper("annotated")).args(["phases", "20"]).run().success();
    let marks = Dataset::open(&place.dataset()).expect("a recording").read::<MarkerRow>().expect("its marks");
    let names: Vec<&str> = marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(names, ["halves", "mixed", ""]);
    assert!(marks.windows(2).all(|pair| pair[0].time < pair[1].time), "{marks:?}");
}

#[test]
fn a_program_that_never_begins() {
    let place = Place::together();
    let run = Run::record_with(&place.dataset(), &["--marked".into()]).arg("true").run().success();
    assert!(run.err().contains("never said numamma_begin()"), "{run}");
}

/// A plan finds memory by the name that the program gives it; on one node all of it is right.
#[test]
fn a_plan_finds_names_and_phases() {
    let place = Place::together();
    let (plan, report) = (place.path("plan.toml"), place.path("placed.json"));
    fs::write(
        &plan,
        "version = 1\n[[phase]]\nname = \"halves\"\n[[phase]]\nname = \"never\"\n[[object]]\nlabel = \"output\"\npolicy = \"block\"\n\
         [[object]]\nlabel = \"nothing\"\npolicy = \"interleave\"\n[[object]]\nheap = \"make_array\"\npolicy = \"first-touch\"\n\
         [object.phase.halves]\npolicy = \"interleave\"\n",
    )
    .expect("write the plan");
    let apply = |arguments: [&str; 2]| {
        let run = Run::numamma().arg("apply").arg(&plan).arg("--report").arg(&report).arg("--");
        let run = run.arg(build::helper("annotated")).args(arguments).run().success();
        let placed: Value = serde_json::from_slice(&fs::read(&report).expect("a report")).expect("JSON");
        (run, placed)
    };
    let rule = |placed: &Value, name: &str| {
        let rules = placed["rules"].as_array().expect("a list");
        rules.iter().find(|rule| rule["object"] == name).unwrap_or_else(|| panic!("{name}: {placed:#}")).clone()
    };
    let (run, placed) = apply(["names", "50"]);
    let output = rule(&placed, "output");
    assert_eq!((&output["objects"], &output["pages"]["elsewhere"]), (&1.into(), &0.into()), "{output:#}");
    // All but the page that another part of the pool shares.
    assert!([511, 512].map(Value::from).contains(&output["pages"]["right"]), "{output:#}");
    assert_eq!(rule(&placed, "nothing")["objects"], 0);
    assert!(run.err().contains("phase \"never\" never began"), "{run}");

    let (run, placed) = apply(["phases", "5"]);
    let (always, halves) = (rule(&placed, "make_array"), rule(&placed, "make_array in halves"));
    assert_eq!((&always["objects"], &halves["objects"]), (&1.into(), &1.into()), "{run}");
    assert!(halves["pages"]["right"].as_u64() >= Some(2047) && halves["pages"]["elsewhere"] == 0, "{halves:#}");
}

#[test]
fn phases_that_cannot_be_meant() {
    let place = Place::together();
    let plan = place.path("plan.toml");
    let fails = |text: &str, words: &[&str]| {
        fs::write(&plan, text).expect("write the plan");
        let run = Run::numamma().arg("apply").arg(&plan).arg("--").arg(build::helper("annotated")).arg("quiet").run();
        run.exits(OWN_FAILURE).fails_clearly(words);
    };
    let object = "[[object]]\nlabel = \"a\"\npolicy = \"block\"\n";
    fails(
        &format!("version = 1\n{object}[object.phase.x]\npolicy = \"block\"\n"),
        &["plan.toml:5", "no [[phase]] is called \"x\""],
    );
    fails(
        &format!("version = 1\n[[phase]]\nname = \"x\"\n[[phase]]\nname = \"x\"\n{object}"),
        &["plan.toml:5", "is that of line 2"],
    );
    fails(
        &format!("version = 1\nmode = \"strict\"\n[[phase]]\nname = \"x\"\nfunction = \"no_such\"\n{object}"),
        &["plan.toml:3", "no such function"],
    );
    fails(
        "version = 1\n[[phase]]\nname = \"x\"\n[[object]]\nheap = \"make_array\"\npolicy = \"block\"\ngather = \"by-thread\"\n\
         [object.phase.x]\npolicy = \"block\"\n",
        &["plan.toml:7", "in all phases"],
    );
}

/// The same from Fortran, and from Rust.
#[test]
fn other_languages() {
    let place = Place::together();
    let annotate = build::root().join("inject/annotate");
    if skip::installed("gfortran") {
        let source = "program p\n use numamma\n real(8), allocatable :: grid(:,:)\n allocate(grid(512, 512))\n \
                      call numamma_label(grid(:, 1:256), 'left')\n call numamma_phase('solve ')\n do i = 1, 3000\n \
                      grid(:, 1:256) = grid(:, 1:256) + 1\n end do\n call numamma_unlabel(grid)\n call numamma_phase('')\n \
                      call numamma_begin()\n call numamma_end()\n print *, sum(grid(:, 1:256)) > 0\nend program\n";
        fs::write(place.path("p.f90"), source).expect("write the program");
        let compile = Run::new("gfortran").dir(place.dir()).args(["-O1", "-g", "-o", "p"]);
        let compile = compile.arg(annotate.join("numamma.f90")).arg(place.path("p.f90"));
        compile.arg(annotate.join("numamma_fortran.c")).run().success();
        place.record().arg(place.path("p")).run().success();
        let marks = Dataset::open(&place.dataset()).expect("a recording").read::<MarkerRow>().expect("its marks");
        assert_eq!(marks.iter().map(|mark| mark.name.as_str()).collect::<Vec<_>>(), ["solve", ""]);
        let left = named(&Report::of(&place.dataset()), "left").bytes;
        assert_eq!(left, 512 * 256 * 8);
        fs::remove_dir_all(place.dataset()).expect("remove the recording");
    } else {
        skip::missing("other_languages", "gfortran");
    }
    let source = r#"
        fn main() {
            let mut grid = vec![0_u64; 1 << 18];
            numamma_annotate::label(&grid[..1 << 17], "left");
            numamma_annotate::phase(Some("solve"));
            for _ in 0..2000 {
                grid.iter_mut().for_each(|x| *x = std::hint::black_box(*x + 1));
            }
            numamma_annotate::unlabel(&grid);
            numamma_annotate::phase(None);
            numamma_annotate::begin();
            numamma_annotate::end();
        }"#;
    fs::write(place.path("p.rs"), source).expect("write the program");
    let library =
        Run::new("rustc").dir(place.dir()).args(["--edition", "2024", "--crate-type", "rlib", "--crate-name"]);
    library.args(["numamma_annotate", "-O"]).arg(annotate.join("src/lib.rs")).run().success();
    let compile = Run::new("rustc").dir(place.dir()).args(["--edition", "2024", "-O", "-g", "-L", ".", "--extern"]);
    compile.args(["numamma_annotate=libnumamma_annotate.rlib", "p.rs"]).run().success();
    Run::new(place.path("p")).run().success();
    place.record().arg(place.path("p")).run().success();
    let marks = Dataset::open(&place.dataset()).expect("a recording").read::<MarkerRow>().expect("its marks");
    assert_eq!(marks.iter().map(|mark| mark.name.as_str()).collect::<Vec<_>>(), ["solve", ""]);
    assert_eq!(named(&Report::of(&place.dataset()), "left").bytes, 1 << 20);
}

/// What happens to memory that has a name in a plan, and how many mappings have a policy afterwards.
const ENDS: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include "numamma.h"
    static int policies(void) {
        static char text[1 << 20];
        FILE *maps = fopen("/proc/self/numa_maps", "r");
        size_t length = fread(text, 1, sizeof text - 1, maps);
        int found = 0;
        fclose(maps);
        text[length] = 0;
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            found += strstr(line, "interleave") || strstr(line, "prefer") || strstr(line, "bind");
        return found;
    }
    static volatile int stop;
    static void *allocate(void *x) {
        while (!stop) { char *p = malloc(1 << 20); p[0] = 1; free(p); }
        return x;
    }
    int main(int argc, char **argv) {
        const size_t n = 8 << 20;
        const int what = argc > 1 ? argv[1][0] : 0;
        char *small = malloc(100), *block = malloc(n);
        char *map = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(block, 1, n);
        memset(map, 1, n);
        setvbuf(stdout, NULL, _IONBF, 0);
        switch (what) {
        case 's': numamma_label(block, n, "grid"); free(small); break;
        case 'f': numamma_label(block, n, "grid"); free(block); block = malloc(n); break;
        case 'r': numamma_label(block, n, "grid"); block = realloc(block, 4 * n); break;
        case 'u': numamma_label(map + n / 4, n / 4, "grid"); munmap(map, n); break;
        case 'p': numamma_label(map + n / 4, n / 2, "grid"); munmap(map + n / 2, n / 2); break;
        case 'x': numamma_label(map + n / 4, n / 4, "grid");
            mmap(map, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
        case 'm': numamma_label(map + n / 4, n / 4, "grid");
            if (mremap(map, n, 2 * n, MREMAP_MAYMOVE) == MAP_FAILED) return 1;
            break;
        case 'n': numamma_label(block, n, "grid"); numamma_label(block, n, "other"); break;
        case 'h': numamma_label(block, (size_t)-1 / 2, "grid"); numamma_label((char *)4096, n, "grid"); break;
        case 'c': {
            pthread_t thread;
            pthread_create(&thread, NULL, allocate, NULL);
            for (int i = 0; i < 3000; i++) numamma_phase(i & 1 ? "later" : NULL);
            stop = 1;
            pthread_join(thread, NULL);
            break;
        }
        }
        if (what != 's')
            numamma_phase("later");
        printf("%d\n", policies());
        return 0;
    }"#;

#[test]
fn names_end_with_their_memory() {
    let place = Place::together();
    let include = format!("-I{}", build::root().join("inject/annotate").display());
    let program = place.compile("gcc", "ends", ENDS, &["-O1", "-pthread", &include]);
    let plan = place.path("plan.toml");
    let label = "[[object]]\nlabel = \"grid\"\npolicy = \"interleave\"\n[object.phase.later]\npolicy = \"preferred\"\nnodes = [0]\n";
    // A strict plan ends a program whose memory cannot be placed: what is gone is nothing that cannot.
    fs::write(&plan, format!("version = 1\nmode = \"strict\"\n[[phase]]\nname = \"later\"\n{label}"))
        .expect("write the plan");
    let policies = |what: &str| {
        let run = Run::numamma().args(["apply", "-q"]).arg(&plan).arg("--").arg(&program).arg(what).run().success();
        run.out().trim().parse::<u32>().expect("a number")
    };
    assert_eq!(policies("small block"), 1, "the end of another block ended it");
    for what in ["freed", "realloc", "unmapped", "part of it unmapped", "x: mapped anew", "moved", "named anew", "huge"]
    {
        assert_eq!(policies(what), 0, "{what}");
    }
    // Blocks come and go while phases do.
    let both = "version = 1\nmode = \"strict\"\n[[phase]]\nname = \"later\"\n[[object]]\nheap = \"*\"\nmin-size = \"64 KiB\"\n\
                policy = \"interleave\"\n[object.phase.later]\npolicy = \"bind\"\nnodes = [0]\n";
    fs::write(&plan, both).expect("write the plan");
    for _ in 0..3 {
        policies("concurrent");
    }
}

/// Names in memory that has a place of its own: neither takes the other's.
#[test]
fn a_name_within_a_placed_block() {
    let place = Place::together();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #include "numamma.h"
        int main(int argc, char **argv) {
            char *block = aligned_alloc(4096, 8 << 20);
            numamma_unlabel(block);
            if (argc > 1) numamma_label(block, 1 << 20, argv[1]);
            if (argc > 2) numamma_unlabel(block);
            memset(block, 1, 8 << 20);
            numamma_phase("later");
            return 0;
        }"#;
    let include = format!("-I{}", build::root().join("inject/annotate").display());
    let program = place.compile("gcc", "within", source, &["-O1", &include]);
    let (plan, report) = (place.path("plan.toml"), place.path("placed.json"));
    let text = "version = 1\n[[phase]]\nname = \"later\"\n[[object]]\nheap = \"*\"\nmin-size = \"4 MiB\"\npolicy = \"interleave\"\n\
                [object.phase.later]\npolicy = \"block\"\n[[object]]\nlabel = \"grid\"\npolicy = \"preferred\"\nnodes = [0]\n";
    fs::write(&plan, text).expect("write the plan");
    for (arguments, block, grid) in
        [(&[][..], 2048, 0), (&["other"], 2048, 0), (&["grid"], 1792, 256), (&["grid", "end"], 2048, 0)]
    {
        let run = Run::numamma().args(["apply", "-q"]).arg(&plan).arg("--report").arg(&report).arg("--").arg(&program);
        run.args(arguments).run().success();
        let placed: Value = serde_json::from_slice(&fs::read(&report).expect("a report")).expect("JSON");
        let right = |name: &str| {
            let rules = placed["rules"].as_array().expect("a list");
            let rule = rules.iter().find(|rule| rule["object"] == name).expect("a rule");
            assert_eq!(rule["pages"]["elsewhere"], 0, "{rule:#}");
            rule["pages"]["right"].as_u64().expect("a count")
        };
        // The allocator's word behind the block may share its last page.
        for name in ["heap blocks", "heap blocks in later"] {
            assert!((block - 1..=block + 1).contains(&right(name)), "{arguments:?}, {name}: {placed:#}");
        }
        assert_eq!(right("grid"), grid, "{arguments:?}: {placed:#}");
    }
}
