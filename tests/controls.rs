//! Which part of a run is sampled: by time, by function, by object and address, and by number.

use std::path::{Path, PathBuf};
use std::time::Duration;

use numamma_tests::run::{self, OWN_FAILURE};
use numamma_tests::{Place, Run, skip};
use serde_json::Value;

/// Two phases, each in a function and with an object of its own. In the second one another thread is busy with a third. Each lasts
/// for its time, and for as long as it takes to be sampled on a machine that has other things to do.
const PHASES: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    enum { N = 1 << 16 };
    static long table[N];
    static volatile int done;
    static double at(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
    static double now(void) { return at(CLOCK_MONOTONIC); }
    static double cpu(void) { return at(CLOCK_THREAD_CPUTIME_ID); }
    __attribute__((noinline)) static void use(volatile long *of) { for (long i = 0; i < N; i++) of[i] += i; }
    __attribute__((noinline)) static void last(volatile long *of, double s) {
        double end = now() + s, least = cpu() + 0.15;
        while (now() < end || cpu() < least) use(of);
    }
    __attribute__((noinline)) int one(volatile long *a, double s) { last(a, s); return 1; }
    __attribute__((noinline)) int two(volatile long *b, double s, int depth) {
        if (depth) return two(b, s, depth - 1) + 1;
        last(b, s);
        return 0;
    }
    static void *beside(void *x) { while (!done || cpu() < 0.15) use(table); return x; }
    __attribute__((noinline)) static long *make(void) { return calloc(N, sizeof(long)); }
    int main(int argc, char **argv) {
        double s1 = atof(argv[1]), s2 = atof(argv[2]);
        long *first = make();
        long *second = calloc(N, sizeof(long));
        one(first, s1);
        pthread_t t; pthread_create(&t, 0, beside, 0);
        int depth = two(second, s2, 5);
        done = 1; pthread_join(t, 0);
        printf("%d\n", depth);
        return argc != 3;
    }"#;

/// The report of a recording with options, as JSON.
#[track_caller]
fn record(place: &Place, program: &Path, options: &[&str], arguments: &[&str]) -> Value {
    let options: Vec<String> = options.iter().chain(&["--force"]).map(|option| (*option).to_owned()).collect();
    Run::record_with(&place.dataset(), &options).args([program]).args(arguments).run().success();
    json(place, &[])
}

fn json(place: &Place, options: &[&str]) -> Value {
    let run = Run::report(&place.dataset()).args(["--format", "json"]).args(options).run().success();
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run}"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count: {value}"))
}

/// Samples of the object of that name, or of what the function of that name allocated.
fn samples_of(report: &Value, name: &str) -> u64 {
    let objects = report["objects"].as_array().expect("a list");
    let is_it = |object: &&Value| object["name"] == name || object["site"]["function"] == name;
    objects.iter().filter(is_it).map(|object| count(&object["samples"])).sum()
}

fn recorded(report: &Value) -> u64 {
    count(&report["samples"]["recorded"])
}

/// Nearly all samples are at the object, and there are some.
#[track_caller]
fn is_nearly_all(report: &Value, name: &str) {
    let (of, all) = (samples_of(report, name), recorded(report));
    assert!(all >= 30 && of as f64 > 0.95 * all as f64, "{of} of {all} samples are at {name}");
}

#[test]
fn a_stretch_of_time() {
    let place = Place::alone();
    let program = place.compile("gcc", "phases", PHASES, &[]);
    // However late the program starts, its second phase has begun by then, and lasts.
    let report = record(&place, &program, &["--after", "1.8s", "--for", "1200ms"], &["0.3", "4"]);
    assert_eq!(samples_of(&report, "make"), 0);
    let (second, table) = (samples_of(&report, "second"), samples_of(&report, "table"));
    assert!(second + table > 95 * recorded(&report) / 100 && second > 30, "{second} and {table} of {report:#}");
    assert!(report["run"]["wall_s"].as_f64() > Some(4.0), "the program goes on to its end");
    assert_eq!(report["sampler"]["controls"]["after_s"], 1.8);
    assert_eq!(report["sampler"]["controls"]["for_s"], 1.2);
    // No thread can use more than the time that there was.
    let spent = second as f64 / report["sampler"]["rate_hz"].as_f64().expect("a rate");
    assert!(spent < 1.22, "{spent} s in 1.2 s");
    let object = &json(&place, &["--object", "second"])["objects"][0];
    let times: Vec<f64> =
        object["timeline"].as_array().expect("points").iter().filter_map(|point| point["t"].as_f64()).collect();
    assert!(times.len() > 30 && times.iter().all(|time| (1.799..3.001).contains(time)), "{times:?}");
    // What was allocated and touched before is known.
    assert!(count(&object["pages"]) >= 128 && object["first_touch"][0]["pages"].as_u64() >= Some(128), "{object:#}");

    let report = record(&place, &program, &["--for", "0.5"], &["4", "0.1"]);
    is_nearly_all(&report, "make");
    let text = Run::report(&place.dataset()).run().success().out();
    assert!(text.contains("for 500 ms of the run"), "{text}");
    assert_eq!(report["losses"].as_array().map(Vec::len), Some(0), "a thread outside is no loss: {report:#}");
}

/// True if functions can be watched here.
fn may_watch(test: &str) -> bool {
    if !skip::is_root() {
        skip::skipped(test, "only root watches functions");
    } else if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        skip::skipped(test, "this kernel has no uprobes");
    } else {
        return true;
    }
    false
}

#[test]
fn inside_a_function() {
    if !may_watch("inside_a_function") {
        return;
    }
    let place = Place::alone();
    let program = place.compile("gcc", "phases", PHASES, &[]);
    let report = record(&place, &program, &["--in", "two"], &["0.5", "0.7"]);
    is_nearly_all(&report, "second");
    assert_eq!(samples_of(&report, "make"), 0);
    assert_eq!(samples_of(&report, "table"), 0, "another thread is not inside");
    assert_eq!(report["sampler"]["controls"]["in"][0], "two");
    assert_eq!(report["losses"].as_array().map(Vec::len), Some(0), "{report:#}");
    // Both, one of them with its file.
    let one = format!("{}:one", program.display());
    let report = record(&place, &program, &["--in", &one, "--in", "two"], &["0.5", "0.5"]);
    let (first, second) = (samples_of(&report, "make"), samples_of(&report, "second"));
    assert!(first >= 30 && second >= 30 && first + second > 95 * recorded(&report) / 100, "{first} {second}");
}

/// A function of a library: of one that is linked, by its name alone; of one that is opened later, with its file.
#[test]
fn inside_a_function_of_a_library() {
    if !may_watch("inside_a_function_of_a_library") {
        return;
    }
    let place = Place::alone();
    let library = "void spin(volatile long *of, long n) { for (long r = 0; r < 4000; r++) for (long i = 0; i < n; i++) of[i] += i; }";
    let library = place.compile("gcc", "libspin.so", library, &["-shared", "-fPIC"]);
    let source = r"
        #include <dlfcn.h>
        static long within[1 << 15], without[1 << 15];
        extern void spin(volatile long *, long);
        int main(int argc, char **argv) {
            void (*f)(volatile long *, long) = argc > 1 ? dlsym(dlopen(argv[1], RTLD_NOW), argv[2]) : SPIN;
            for (volatile long *of = without, r = 0; r < 4000; r++) for (long i = 0; i < 1 << 15; i++) of[i] += i;
            f(within, 1 << 15);
            return 0;
        }";
    let rpath = format!("-Wl,-rpath,{}", place.dir().display());
    let linked = place.compile("gcc", "linked", source, &["-DSPIN=spin", library.to_str().unwrap(), &rpath]);
    let report = record(&place, &linked, &["--in", "spin"], &[]);
    is_nearly_all(&report, "within");
    let opening = place.compile("gcc", "opening", source, &["-DSPIN=0", "-ldl"]);
    let named = format!("{}:spin", library.display());
    let report = record(&place, &opening, &["--in", &named], &[library.to_str().unwrap(), "spin"]);
    is_nearly_all(&report, "within");
}

/// One name stands for all instances of a template.
#[test]
fn all_instances_of_a_template_are_watched() {
    if !may_watch("all_instances_of_a_template_are_watched") {
        return;
    }
    let place = Place::alone();
    let source = r"
        static const long n = 1 << 16;
        static volatile double within[n]; static volatile int beyond[n]; static volatile long without[n];
        template <class T> [[gnu::noinline]] void sweep(volatile T *of) {
            for (int r = 0; r < 4000; r++) for (long i = 0; i < n; i++) of[i] = of[i] + 1;
        }
        [[gnu::noinline]] void other() { for (int r = 0; r < 4000; r++) for (long i = 0; i < n; i++) without[i] += i; }
        int main() { sweep(within); other(); sweep(beyond); return 0; }";
    let program = place.compile("g++", "program", source, &["-O1"]);
    let report = record(&place, &program, &["--in", "sweep"], &[]);
    let cost = |name: &str| -> f64 {
        let objects = report["objects"].as_array().unwrap().iter();
        objects.filter(|object| object["name"] == name).map(|object| object["cost"]["share"].as_f64().unwrap()).sum()
    };
    assert!(cost("within") > 0.1 && cost("beyond") > 0.1, "both instances: {report}");
    assert!(cost("within") + cost("beyond") > 0.97, "{report}");
}

/// The reason that applies, and not all that there may be.
#[test]
fn why_a_function_cannot_be_watched_is_said() {
    if !may_watch("why_a_function_cannot_be_watched_is_said") {
        return;
    }
    let place = Place::alone();
    let source = r"
        static inline __attribute__((always_inline)) int small(volatile int *x) { return ++*x; }
        __attribute__((noinline)) int caller(volatile int *x) { int s = 0; for (int i = 0; i < 9; i++) s += small(x); return s; }
        __attribute__((noipa)) void nothing(void) {}
        int main(int argc, char **argv) { volatile int x = argc; nothing(); return caller(&x) > 1000; }";
    let debug = place.compile("gcc", "debug", source, &["-O1", "-g", "-fcf-protection=none"]);
    let bare = place.compile("gcc", "bare", source, &["-O1", "-g0"]);
    let stripped = place.compile("gcc", "stripped", source, &["-O1", "-s"]);
    let refused = |program: &Path, function: &str, words: &[&str]| {
        let options = ["--force", "--in", function].map(str::to_owned);
        let run = Run::record_with(&place.dataset(), &options).arg(program).run();
        run.exits(OWN_FAILURE).fails_clearly(words);
    };
    refused(&debug, "small", &["inlined, in caller"]);
    refused(&debug, "nothing", &["only returns"]);
    refused(&debug, "absent", &["nor is one inlined", "opens later"]);
    refused(&bare, "small", &["without debug information"]);
    refused(&stripped, "small", &["stripped"]);
}

/// Exceptions and longjmp pass, threads and processes start: the program must not notice. And what comes after a function that
/// was left by an exception is not inside.
#[test]
fn the_program_does_not_notice_that_a_function_is_watched() {
    if !may_watch("the_program_does_not_notice_that_a_function_is_watched") {
        return;
    }
    let place = Place::alone();
    let source = r#"
        #include <csetjmp>
        #include <cstdio>
        #include <stdexcept>
        #include <sys/wait.h>
        #include <thread>
        #include <unistd.h>
        static const long n = 1 << 15;
        static volatile long within[n], without[n], child[n];
        static jmp_buf out;
        [[gnu::noinline]] static void use(volatile long *of, int rounds) {
            for (int r = 0; r < rounds; r++) for (long i = 0; i < n; i++) of[i] += i;
        }
        namespace job {
            [[gnu::noinline]] int throws(int x) { use(within, 40); if (x & 1) throw std::runtime_error("x"); return x; }
            [[gnu::noinline]] int jumps(int x) { use(within, 40); if (x & 1) longjmp(out, 1); return x; }
            [[gnu::noinline]] int forks(int x) {
                int p = fork();
                if (!p) { use(child, 4000); _exit(3); }
                int status = 0;
                waitpid(p, &status, 0);
                return WEXITSTATUS(status) + x;
            }
        }
        int main() {
            int s = 0;
            for (int i = 0; i < 150; i++) {
                try { s += job::throws(i); } catch (std::exception &) { s++; }
                use(without, 40);
                if (!setjmp(out)) s += job::jumps(i);
                use(without, 40);
            }
            std::thread t([] { use(without, 4000); });
            s += job::forks(1);
            t.join();
            std::printf("%d\n", s);
        }"#;
    let program = place.compile("g++", "job", source, &["-O2"]);
    let native = Run::new(&program).run().success().out();
    let options: Vec<String> =
        ["--in", "job::throws", "--in", "job::jumps", "--in", "forks"].iter().map(|o| (*o).to_owned()).collect();
    let recorded = Run::record_with(&place.dataset(), &options).arg(&program).run().success();
    assert_eq!(recorded.out(), native, "{recorded}");
    let report = json(&place, &[]);
    let [within, without, child] = ["within", "without", "child"].map(|name| samples_of(&report, name));
    assert!(within > 30 && child > 30, "{within} within, {child} in the child of it");
    assert!(without * 20 < within + child, "{without} without, {within} within, {child} in the child");
    // Half of the calls: 75 exceptions and 75 jumps.
    let left = report["losses"].as_array().expect("a list").iter().find(|loss| loss["kind"] == "left_unseen");
    let left = left.map_or(0, |loss| count(&loss["count"]));
    assert!((100..=150).contains(&left), "{left} of 150 were left in ways that are not seen: {report:#}");
}

#[test]
fn accesses_to_one_object() {
    let place = Place::alone();
    let program = place.compile("gcc", "phases", PHASES, &["-no-pie"]);
    // By variable, and by the function that allocates; the static one is judged in another way.
    for (asked, name) in [("second", "second"), ("make", "make"), ("table", "table")] {
        let report = record(&place, &program, &["--object", asked], &["0.5", "0.5"]);
        assert!(samples_of(&report, name) >= 30, "{asked}: {report:#}");
        assert_eq!(samples_of(&report, name), recorded(&report), "{asked}: {report:#}");
        let left_out = count(&report["sampler"]["controls"]["left_out"]);
        let taken: u64 = report["threads"].as_array().expect("a list").iter().map(|t| count(&t["samples"])).sum();
        assert_eq!(recorded(&report) + left_out, taken, "{asked}: every sample is kept or left out");
    }
    let text = Run::report(&place.dataset()).run().success().out();
    assert!(text.contains("accesses to table (") && text.contains(" samples left out)"), "{text}");

    // The same variable by its addresses.
    let symbols = Run::new("nm").arg("-S").arg(&program).run().success().out();
    let line = symbols.lines().find(|line| line.ends_with(" table")).expect("nm lists it");
    let number = |n: usize| line.split_whitespace().nth(n).and_then(|word| u64::from_str_radix(word, 16).ok());
    let (start, size) = (number(0).expect("its address"), number(1).expect("its size"));
    let range = format!("{start:#x}-{:x}", start + size - 1);
    let report = record(&place, &program, &["--range", &range], &["0.1", "0.6"]);
    assert!(samples_of(&report, "table") >= 30, "{report:#}");
    assert_eq!(samples_of(&report, "table"), recorded(&report), "{report:#}");

    let dataset = place.dataset();
    let run = Run::record_with(&dataset, &["--force".into(), "--object".into(), "no_such_thing".into()]);
    let run = run.arg(&program).args(["0.1", "0.1"]).run().success();
    assert!(run.err().contains("--object no_such_thing"), "{run}");
}

/// Ten objects, used one after the other; says how much of the thread's time each took.
const TEN: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    enum { N = 1 << 15 };
    static long o0[N], o1[N], o2[N], o3[N], o4[N], o5[N], o6[N], o7[N], o8[N], o9[N];
    static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
    int main(int argc, char **argv) {
        volatile long *all[] = { o0, o1, o2, o3, o4, o5, o6, o7, o8, o9 };
        double s = atof(argv[1]);
        for (int k = 0; k < 10; k++) {
            double begin = cpu();
            while (cpu() < begin + s) for (long i = 0; i < N; i++) all[k][i] += i;
        }
        return argc != 2;
    }"#;

#[test]
fn a_recording_stays_within_its_number_of_samples() {
    let place = Place::alone();
    let program = place.compile("gcc", "ten", TEN, &[]);
    let dataset = place.dataset();
    let options = ["record", "-o", dataset.to_str().unwrap(), "--rate", "8000", "--max-samples", "2000", "--"];
    Run::numamma().args(options).arg(&program).arg("0.25").run().success();
    let report = json(&place, &[]);
    let (kept, thinned) = (recorded(&report), count(&report["sampler"]["controls"]["thinned"]));
    let taken: u64 = report["threads"].as_array().expect("a list").iter().map(|t| count(&t["samples"])).sum();
    assert!(kept <= 2000, "{kept} samples");
    assert!(thinned >= 4 && thinned.is_power_of_two() && taken > 4000, "{taken} samples, thinned {thinned} times");
    // What is there stands for what was taken: to within one sample, which is less than two in a hundred.
    assert!((kept * thinned).abs_diff(taken) <= thinned, "{kept} x {thinned} for {taken}");
    let seconds = |of: &Value| of["cost"]["seconds"].as_f64().expect("seconds");
    let costs: Vec<f64> = report["objects"].as_array().expect("a list").iter().map(seconds).collect();
    let period = report["sampler"]["period"].as_f64().expect("nanoseconds") / 1e9;
    let (attributed, without) = (costs.iter().sum::<f64>(), kept - count(&report["samples"]["attributed"]));
    let expected = taken as f64 * period;
    let total = attributed + without as f64 * thinned as f64 * period;
    assert!((total / expected - 1.0).abs() < 0.02, "{total} s of {expected} s");
    // The thread had 2.5 s. Ticks are lost to whoever else uses the machine.
    assert!((0.6 * 2.5..1.05 * 2.5).contains(&total), "{total} s");
    // Each tenth of the time has its tenth of the samples: begin and end alike.
    let tenth = kept as f64 / 10.0;
    for k in 0..10 {
        let of = samples_of(&report, &format!("o{k}")) as f64;
        assert!((0.6..1.4).contains(&(of / tenth)), "{of} samples of o{k}, not about {tenth}: {report:#}");
    }
    let text = Run::report(&dataset).run().success().out();
    assert!(text.contains(&format!("thinned {thinned}x")), "{text}");
}

/// A recorder that is killed leaves samples of different weights, whose sum is right.
#[test]
fn a_thinned_recording_that_was_cut_short() {
    let place = Place::alone();
    let program = place.compile("gcc", "ten", TEN, &[]);
    let dataset = place.dataset();
    let options = ["record", "-o", dataset.to_str().unwrap(), "--rate", "4000", "--max-samples", "1000", "--"];
    let running = Run::numamma().args(options).arg(&program).arg("1").start();
    // Two flushes, the second of a recording that has been halved already.
    run::until("a second part", Duration::from_secs(50), || dataset.join("samples.part-0001.parquet").exists());
    std::thread::sleep(Duration::from_millis(300));
    let children = run::children(running.pid());
    run::signal(running.pid(), libc::SIGKILL);
    running.wait();
    children.iter().for_each(|&child| run::signal(child, libc::SIGKILL));
    let report = json(&place, &[]);
    let taken: u64 = report["threads"].as_array().expect("a list").iter().map(|t| count(&t["samples"])).sum();
    let period = report["sampler"]["period"].as_f64().expect("nanoseconds") / 1e9;
    let seconds = |of: &Value| of["cost"]["seconds"].as_f64().expect("seconds");
    // By lines: objects that came after names were last written are not known.
    let total: f64 = report["lines"].as_array().expect("a list").iter().map(seconds).sum();
    let (kept, expected) = (recorded(&report), taken as f64 * period);
    assert!(kept < taken && count(&report["sampler"]["controls"]["thinned"]) > 1, "{kept} of {taken}");
    assert!((total / expected - 1.0).abs() < 0.03, "{total} s of {expected} s, {kept} samples of {taken}");
}

/// With parts on the disk when the thinning begins, threads, and an object that is chosen by name.
#[test]
fn thinning_and_choosing_together() {
    let place = Place::alone();
    let program = place.compile("gcc", "phases", PHASES, &[]);
    let report = record(&place, &program, &["--max-samples", "300", "--object", "second"], &["0.2", "4.5"]);
    let controls = &report["sampler"]["controls"];
    let (kept, thinned, left_out) = (recorded(&report), count(&controls["thinned"]), count(&controls["left_out"]));
    let taken: u64 = report["threads"].as_array().expect("a list").iter().map(|t| count(&t["samples"])).sum();
    assert!(kept <= 300 && thinned > 1 && samples_of(&report, "second") == kept, "{report:#}");
    // Two threads, each with a block that is not complete, and those left out early by a smaller factor.
    assert!((kept * thinned + left_out).abs_diff(taken) <= 4 * thinned, "{kept} x {thinned} + {left_out} of {taken}");
}

#[test]
fn bad_values_are_refused_in_one_line() {
    let place = Place::together();
    let dataset: PathBuf = place.path("x.numamma");
    for (option, value) in [
        ("--after", "soon"),
        ("--after", "-1"),
        ("--for", "0"),
        ("--for", "2 hours"),
        ("--object", ""),
        ("--range", "1000"),
        ("--range", "0x2000-0x1000"),
        ("--range", "low-high"),
        ("--max-samples", "0"),
        ("--max-samples", "many"),
        ("--min-latency", "30"),
        ("--in", ""),
        ("--in", "no_such_function"),
        ("--in", "/no/such/file.so:f"),
    ] {
        let run = Run::numamma().args(["record", "-o"]).arg(&dataset).args([option, value]);
        let run = run.args(["--", "echo", "ran"]).run().exits(OWN_FAILURE);
        run.fails_clearly(&[option]);
        assert!(run.stdout.is_empty() && !dataset.exists(), "the program must not run for nothing: {run}");
    }
}

/// Who may not watch functions is told so, before anything runs.
#[test]
fn functions_are_watched_by_root_alone() {
    if !may_watch("functions_are_watched_by_root_alone") || !skip::installed("setpriv") {
        return;
    }
    let place = Place::together();
    let dir = tempfile::Builder::new().prefix("numamma-nobody-").tempdir_in("/tmp").expect("a folder in /tmp");
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("root may give it away");
    let numamma = dir.path().join("numamma");
    std::fs::copy(numamma_tests::build::numamma(), &numamma).expect("a copy");
    let program = place.compile("gcc", "phases", PHASES, &[]);
    let copy = dir.path().join("phases");
    std::fs::copy(program, &copy).expect("a copy");
    let run = Run::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(&numamma)
        .args(["record", "-o"])
        .arg(dir.path().join("x.numamma"))
        .args(["--in", "two", "--"])
        .arg(&copy)
        .args(["0.1", "0.1"])
        .dir(dir.path())
        .run()
        .exits(OWN_FAILURE);
    run.fails_clearly(&["--in", "CAP_PERFMON"]);
    assert!(run.stdout.is_empty(), "the program must not run for nothing: {run}");
}
