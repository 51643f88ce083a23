//! From a recording to a plan: what it says of programs whose use of memory is known, that `apply` takes it, and clear failures.

use std::fs;
use std::path::{Path, PathBuf};

use numamma_tests::run::OWN_FAILURE;
use numamma_tests::{Place, Run};
use serde_json::Value;

/// Four nodes of one CPU: so each of four threads has a node.
const MACHINE: &str = "name = \"four\"\nsource = \"made up\"\npage_bytes = 4096\n\
    nodes = [{ cpus = 1 }, { cpus = 1 }, { cpus = 1 }, { cpus = 1 }]\n\
    latency_ns = [[100, 300, 300, 300], [300, 100, 300, 300], [300, 300, 100, 300], [300, 300, 300, 100]]\n";

/// The main thread sets up an array, of which each of four threads uses a quarter.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { N = 1 << 21 };
static double *blocks;
static void *work(void *arg) {
    long t = (long)arg;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = t * (N / 4); i < (t + 1) * (N / 4); i += 8) blocks[i] += 1;
    return 0;
}
int main(void) {
    blocks = malloc(N * sizeof *blocks);
    for (int i = 0; i < N; i++) blocks[i] = i;
    pthread_t threads[4];
    for (long t = 0; t < 4; t++) pthread_create(&threads[t], 0, work, (void *)t);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], 0);
    return 0;
}"#;

/// Compiles and records the program; its executable.
fn record(place: &Place, rounds: u32, options: &[&str]) -> PathBuf {
    let flags = ["-O1", "-g", "-pthread", &format!("-DROUNDS={rounds}")];
    let program = place.compile("gcc", "program", PROGRAM, &flags);
    let run = Run::numamma().arg("record").arg("-o").arg(place.dataset()).args(options).arg("--").arg(&program);
    run.limit(300).run().success();
    program
}

fn machine(place: &Place) -> PathBuf {
    let file = place.path("four.toml");
    fs::write(&file, MACHINE).unwrap();
    file
}

/// `numamma plan` or `predict` of the recording for the machine of four nodes, as JSON.
fn ask(place: &Place, command: &str, args: &[&str]) -> Value {
    let run = Run::numamma().arg(command).arg(place.dataset()).arg("--machine").arg(machine(place));
    let outcome = run.args(["--format", "json"]).args(args).run().success();
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

fn time(predictions: &Value, name: &str) -> f64 {
    let candidates = predictions["candidates"].as_array().expect("candidates");
    let of = candidates.iter().find(|of| of["name"] == name).unwrap_or_else(|| panic!("no {name} in {predictions:#}"));
    of["time_s"].as_f64().expect("a time")
}

/// A block for each node.
fn says_how_it_is_used(place: &Place) -> Value {
    let plan = ask(place, "plan", &[]);
    let objects = plan["objects"].as_array().expect("objects");
    let is_it = |object: &&Value| object["name"].as_str().is_some_and(|name| name.starts_with("blocks"));
    let blocks = objects.iter().find(is_it).unwrap_or_else(|| panic!("{plan:#}"));
    assert!(blocks["policy"].as_str().is_some_and(|policy| policy.starts_with("block")), "{blocks:#}");
    assert_eq!(blocks["line"]["function"], "main");
    assert!(blocks["local_now"].as_f64() < blocks["local_by_owner"].as_f64(), "{blocks:#}");
    plan
}

#[test]
fn a_recording_tells_where_an_array_goes() {
    let place = Place::alone();
    let program = record(&place, 400, &[]);
    let plan = says_how_it_is_used(&place);
    assert!(plan["planned"]["time_s"].as_f64() < plan["now"]["time_s"].as_f64(), "{plan:#}");

    let file = place.path("plan.toml");
    let write =
        || Run::numamma().arg("plan").arg(place.dataset()).arg("--machine").arg(machine(&place)).arg("-o").arg(&file);
    let text = write().run().success().out();
    assert!(text.contains("is set up by T0 in main()"), "{text}");
    // Its own file is replaced, another one is not.
    write().run().success();
    let applied = Run::numamma().arg("apply").arg(&file).arg("--").arg(&program).run();
    // A machine with fewer nodes cannot have the plan, and says which line is in the way.
    assert!(applied.shell_status() == 0 || applied.err().contains("node"), "{applied}");
    if !Path::new("/sys/devices/system/node/node1").exists() {
        assert!(applied.err().contains("the plan is for four; this machine has one node"), "{applied}");
    }
    fs::write(place.path("program.c"), PROGRAM).unwrap();
    let no_plan = || Run::numamma().arg("apply").arg(place.path("program.c")).arg("--").arg(&program).run();
    no_plan().exits(OWN_FAILURE).fails_clearly(&["program.c", "no plan", "version = 1"]);
    fs::write(&file, "precious").unwrap();
    write().run().exits(OWN_FAILURE).fails_clearly(&["plan.toml", "--force"]);
    write().arg("--force").run().success();

    let predictions = ask(&place, "predict", &["--plan", file.to_str().unwrap()]);
    let (first, plan) = (time(&predictions, "first touch"), time(&predictions, "plan"));
    assert!(plan < first && plan < time(&predictions, "interleave"), "{predictions:#}");
    let more = ask(&place, "predict", &["--threads", "8"]);
    assert_eq!(more["threads"], 8, "{more:#}");
    assert!(more["assumptions"][0].as_str().is_some_and(|text| text.contains("recorded with 5")), "{more:#}");
}

#[test]
fn counted_misses_tell_the_same() {
    let place = Place::together();
    record(&place, 40, &["--sampler", "exact", "--caches", "l1=32K:8,l2=256K:8,llc=1M:16"]);
    let plan = says_how_it_is_used(&place);
    assert_eq!(plan["memory_only"], true, "an emulated program has no time of its own");
}

/// Nodes of a tree are smaller than a page. They have a share of the accesses, and a plan gathers them.
#[test]
fn trees_are_gathered() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        struct node { struct node *left, *right; unsigned long key; long value[4]; };
        static struct node *root;
        static unsigned long next(unsigned long *x) { return (*x = *x * 6364136223846793005ul + 1442695040888963407ul) >> 33; }
        static void insert(unsigned long key) {
            struct node **at = &root;
            while (*at) at = key < (*at)->key ? &(*at)->left : &(*at)->right;
            *at = calloc(1, sizeof **at);
            (*at)->key = key;
        }
        static void *search(void *arg) {
            unsigned long x = (unsigned long)arg, sum = 0;
            for (int n = 0; n < 400000; n++) {
                unsigned long key = next(&x);
                for (struct node *at = root; at; at = key < at->key ? at->left : at->right) sum += at->value[0];
            }
            return (void *)sum;
        }
        int main(void) {
            unsigned long x = 1;
            for (int n = 0; n < 300000; n++) insert(next(&x));
            pthread_t threads[4];
            for (long t = 0; t < 4; t++) pthread_create(&threads[t], 0, search, (void *)(t + 2));
            for (int t = 0; t < 4; t++) pthread_join(threads[t], 0);
            return 0;
        }"#;
    let place = Place::alone();
    let program = place.compile("gcc", "tree", source, &["-O1", "-g", "-pthread"]);
    Run::numamma().arg("record").arg("-o").arg(place.dataset()).arg("--").arg(&program).limit(300).run().success();
    let toml = place.path("plan.toml");
    let plan = Run::numamma().arg("plan").arg(place.dataset()).args(["--machine", "amd-8x6", "--threads", "48", "-o"]);
    let outcome = plan.arg(&toml).args(["--format", "json"]).run().success();
    let advice: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let tree = &advice["objects"][0];
    assert!(tree["policy"].as_str().is_some_and(|policy| policy.starts_with("gather")), "{advice:#}");
    assert!(tree["memory_share"].as_f64() > Some(0.9), "{tree:#}");
    let plan = fs::read_to_string(&toml).expect("a plan");
    assert!(plan.contains("gather = { instances = 300000 }"), "{plan}");
    let applied = Run::numamma()
        .args(["apply", "--report"])
        .arg(place.path("applied.json"))
        .arg(&toml)
        .arg("--")
        .arg(&program)
        .run();
    assert_eq!(applied.shell_status(), 0, "{applied}");
    let report: Value = serde_json::from_slice(&fs::read(place.path("applied.json")).expect("a report")).expect("JSON");
    assert_eq!(report["rules"][0]["objects"], 300_000, "{report:#}");
}

#[test]
fn failures_take_one_line() {
    let place = Place::together();
    record(&place, 1, &["--sampler", "exact"]);
    let plan = |machine: &Path| Run::numamma().arg("plan").arg(place.dataset()).arg("--machine").arg(machine).run();
    plan(&machine(&place)).exits(OWN_FAILURE).fails_clearly(&["--caches"]);
    plan(Path::new("nowhere")).exits(OWN_FAILURE).fails_clearly(&["nowhere"]);
    let bad = place.path("bad.toml");
    fs::write(&bad, MACHINE.replace("[300, 300, 300, 100]", "[300, 300, 100]")).unwrap();
    plan(&bad).exits(OWN_FAILURE).fails_clearly(&["bad.toml"]);
}

#[test]
fn without_samples_there_is_no_plan() {
    let place = Place::together();
    place.record().arg("true").run().success();
    let run = Run::numamma().arg("plan").arg(place.dataset()).arg("--machine").arg(machine(&place)).run();
    run.exits(OWN_FAILURE).fails_clearly(&["memory"]);
}

#[test]
fn a_plan_without_a_promise_cannot_be_held_to_it() {
    let place = Place::together();
    place.record().arg("true").run().success();
    let file = place.path("plan.toml");
    fs::write(&file, "version = 1\n[[object]]\nany = true\npolicy = \"interleave\"\n").unwrap();
    let run = Run::compare(&place.dataset(), &place.dataset()).arg("--plan").arg(&file).run();
    run.exits(OWN_FAILURE).fails_clearly(&["[predicted]"]);
}

/// The section about placement of a page that was made for the machine of four nodes.
fn placement_of_page(place: &Place, args: &[&str]) -> Value {
    let file = place.path("page.html");
    let run = Run::numamma().arg("html").arg(place.dataset()).arg("-o").arg(&file);
    // Without pages and samples of objects the data is short, so it is not compressed.
    run.args(["--objects", "0"]).args(args).run().success();
    let page = fs::read_to_string(&file).unwrap();
    let (_, data) =
        page.split_once(r#"<script type="application/json" id="data">"#).expect("data that is not compressed");
    let (data, _) = data.split_once("</script>").expect("an end of the data");
    serde_json::from_str::<Value>(data).expect("JSON")["placement"].clone()
}

#[test]
fn the_page_says_what_plan_and_predict_say() {
    let place = Place::alone();
    record(&place, 400, &[]);
    let machine = machine(&place);
    let page = placement_of_page(&place, &["--machine", machine.to_str().unwrap()]);
    assert_eq!(page["missing"], Value::Null, "{page:#}");
    let advice = &page["advice"];
    let file = place.path("plan.toml");
    let file = file.to_str().unwrap();
    assert_eq!(advice["plan"], ask(&place, "plan", &["-o", file]));
    assert_eq!(advice["predictions"], ask(&place, "predict", &["--plan", file]));
    assert_eq!(advice["machine"]["cpus"], serde_json::json!([1, 1, 1, 1]));
    let command = advice["commands"]["apply"].as_str().expect("a command");
    assert!(command.starts_with("numamma apply plan.toml") && command.ends_with("program"), "{command}");

    // Each of the plan's nodes has a quarter of the array, which lay on one.
    let pages = &advice["map"]["objects"][0];
    let nodes = |when: &str| -> Vec<u64> {
        let bins = pages[when].as_array().expect("bins").iter().flat_map(|bin| bin.as_array().expect("a bin"));
        let mut nodes: Vec<u64> = bins.map(|node| node[0].as_u64().expect("a node")).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    assert_eq!((nodes("now").len(), nodes("planned").len()), (1, 4), "{pages:#}");
}

#[test]
fn a_page_without_a_plan_says_why() {
    let place = Place::together();
    place.record().arg("true").run().success();
    let page = placement_of_page(&place, &["--machine", machine(&place).to_str().unwrap()]);
    assert_eq!(page["advice"], Value::Null);
    assert!(page["missing"].as_str().is_some_and(|reason| reason.contains("memory")), "{page:#}");
    let run = Run::numamma().arg("html").arg(place.dataset()).args(["-o", "-", "--machine", "nowhere"]).run();
    run.exits(OWN_FAILURE).fails_clearly(&["nowhere"]);
}
