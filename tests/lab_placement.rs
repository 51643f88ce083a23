//! Placement among several nodes, against the lab's exact matrix of accesses by CPU and node. Only what the threads do with memory that
//! is set up counts, not the setting up. So often that what else runs in the guest, as `numamma apply` which reads pages back, is little of
//! what is counted.

use std::fs;
use std::path::{Path, PathBuf};

use numamma_tests::comparison::Comparison;
use numamma_tests::guest::{FOUR, applies, lab, matrix};
use numamma_tests::{Outcome, Place, Run, build};
use serde_json::Value;

/// The main thread on CPU 0, the others one on each node. The program's threads are the others.
const PIN: [&str; 2] = ["--pin", "0,0,1,2,3"];

/// One run under `numamma apply` in a guest.
struct Applied {
    outcome: Outcome,
    matrix: Value,
    placed: Value,
}

/// Runs `tests/helpers/placed.c` in a guest: options of the lab, of `apply` (a plan's text instead of a policy begins with `version`),
/// of the program.
fn apply(place: &Place, guest: &[&str], options: &[&str], program: &[&str]) -> Applied {
    run(place, guest, options, &build::helper("placed"), program)
}

fn run(place: &Place, guest: &[&str], options: &[&str], program: &Path, arguments: &[&str]) -> Applied {
    let (counted, placed, plan) = (place.path("matrix.json"), place.path("placed.json"), place.path("plan.toml"));
    let _ = fs::remove_file(&placed);
    let mut command = lab().args(guest).arg("--share").arg(place.dir()).arg("--matrix").arg(&counted);
    command = command.arg("--").arg(build::numamma()).arg("apply").arg("--report").arg(&placed);
    for option in options {
        if option.starts_with("version") {
            fs::write(&plan, option).expect("write the plan");
            command = command.arg(&plan);
        } else {
            command = command.arg(option);
        }
    }
    let outcome = command.arg("--").arg(program).args(arguments).run().success();
    let placed = serde_json::from_slice(&fs::read(&placed).expect("what became of the plan")).expect("JSON");
    Applied { outcome, matrix: matrix(&counted), placed }
}

impl Applied {
    fn remote(&self) -> f64 {
        self.matrix["remote_share"].as_f64().expect("a share")
    }

    fn imbalance(&self) -> f64 {
        self.matrix["imbalance"].as_f64().expect("a number")
    }

    fn milliseconds(&self) -> f64 {
        self.outcome
            .out()
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{}", self.outcome))
    }

    /// All rules matched something, and at least 999 of 1000 pages are where they are wanted.
    #[track_caller]
    fn is_as_asked(&self) {
        for rule in self.placed["rules"].as_array().expect("a list") {
            let count = |name: &str| rule["pages"][name].as_u64().expect("a count");
            assert!(rule["objects"].as_u64() > Some(0) && count("right") > 0, "{rule:#}");
            assert!(count("right") as f64 >= 0.999 * (count("right") + count("elsewhere")) as f64, "{rule:#}");
            assert_eq!((count("unread"), &rule["refused"]), (0, &0.into()), "{rule:#}");
        }
    }

    fn by_node(&self, rule: usize) -> Vec<(u64, u64)> {
        let nodes = self.placed["rules"][rule]["by_node"].as_array().expect("a list");
        nodes.iter().map(|pair| (pair[0].as_u64().expect("a node"), pair[1].as_u64().expect("pages"))).collect()
    }
}

#[test]
fn an_array_that_one_thread_set_up_and_all_use() {
    if !applies("an_array_that_one_thread_set_up_and_all_use") {
        return;
    }
    let place = Place::together();
    let [first, interleave, block] = ["first-touch", "interleave", "block"].map(|policy| {
        let options = [&["--policy", policy][..], &PIN].concat();
        apply(&place, &FOUR, &options, &["serial", "120"])
    });
    [&interleave, &block].into_iter().for_each(Applied::is_as_asked);
    assert!((0.74..0.76).contains(&first.remote()), "{}", first.remote());
    assert!((0.73..0.77).contains(&interleave.remote()), "{}", interleave.remote());
    assert!(block.remote() < 0.02, "{}", block.remote());
    assert!(
        first.imbalance() > 190.0 && interleave.imbalance() < 5.0,
        "{} {}",
        first.imbalance(),
        interleave.imbalance()
    );
}

const CYCLIC: &str = r#"version = 1
    [[object]]
    heap = "make_array"
    policy = "block-cyclic"
    block = "64 KiB"
    [[object]]
    heap = "make_second"
    policy = "block-cyclic"
    block = "16 KiB"
    "#;

#[test]
fn arrays_that_are_dealt_out_in_blocks() {
    if !applies("arrays_that_are_dealt_out_in_blocks") {
        return;
    }
    let place = Place::together();
    let with = |options: &[&str]| apply(&place, &FOUR, &[options, &PIN].concat(), &["cyclic", "120"]);
    let plan = with(&[CYCLIC]);
    plan.is_as_asked();
    assert!(plan.remote() < 0.03, "{}", plan.remote());
    for policy in ["interleave", "block"] {
        let other = with(&["--policy", policy]);
        other.is_as_asked();
        assert!(other.remote() > 0.6, "{policy}: {}", other.remote());
    }
}

#[test]
fn a_table_that_all_use_at_random() {
    if !applies("a_table_that_all_use_at_random") {
        return;
    }
    let place = Place::together();
    let [first, interleave] = ["first-touch", "interleave"].map(|policy| {
        let options = [&["--policy", policy][..], &PIN].concat();
        apply(&place, &FOUR, &options, &["table", "40"])
    });
    interleave.is_as_asked();
    assert!(first.imbalance() > 100.0, "{}", first.imbalance());
    assert!(interleave.imbalance() < 10.0, "{}", interleave.imbalance());
}

const LISTS: [&str; 2] = ["lists", "1000"];

#[test]
fn small_objects_of_one_place() {
    if !applies("small_objects_of_one_place") {
        return;
    }
    let place = Place::together();
    let plan = "version = 1\n[[object]]\nheap = \"make_node\"\npolicy = \"block\"\ngather = { instances = 20000 }\n";
    let gathered = apply(&place, &FOUR, &[&[plan][..], &PIN].concat(), &LISTS);
    gathered.is_as_asked();
    let ungathered = apply(&place, &FOUR, &[&["--policy", "first-touch"][..], &PIN].concat(), &LISTS);
    assert!(ungathered.remote() > 0.7 && gathered.remote() < 0.02, "{} {}", ungathered.remote(), gathered.remote());
}

/// A static array, a heap block and a mapping, with a policy.
fn kinds(policy: &str) -> String {
    let object = |target: &str| format!("[[object]]\n{target}\n{policy}\n");
    let targets = ["static = \"grid\"", "heap = \"make_array\"", "map = \"map_memory\""];
    format!("version = 1\n{}", targets.map(object).concat())
}

const POLICIES: [&str; 8] = [
    "policy = \"bind\"\nnodes = [2]",
    "policy = \"bind\"\nnodes = [1, 3]",
    "policy = \"preferred\"\nnodes = [3]",
    "policy = \"interleave\"",
    "policy = \"weighted-interleave\"\nnodes = [0, 1]",
    "policy = \"block\"\nnodes = [3, 1, 2]",
    "policy = \"block-cyclic\"\nblock = \"128 KiB\"",
    "policy = \"map\"\npages = [[1, 100], [0, 300], [2, 7]]\nrepeat = true",
];

#[test]
fn each_policy_for_each_kind_of_object() {
    if !applies("each_policy_for_each_kind_of_object") {
        return;
    }
    let place = Place::together();
    for policy in POLICIES {
        apply(&place, &FOUR, &[&kinds(policy)], &["kinds", "1"]).is_as_asked();
    }
    let followed = kinds("policy = \"follow-thread\"\nthread = 3");
    let followed = apply(&place, &FOUR, &[&[followed.as_str()][..], &PIN].concat(), &["kinds", "1"]);
    followed.is_as_asked();
    assert!(followed.by_node(0).iter().all(|(node, _)| *node == 2), "thread 3 runs on CPU 2: {:#}", followed.placed);
    // A strict plan binds.
    let strict = kinds(POLICIES[5]).replace("version = 1", "version = 1\nmode = \"strict\"");
    apply(&place, &FOUR, &[&strict], &["kinds", "1"]).is_as_asked();
    // Linked to a fixed address.
    let source = build::root().join("tests/helpers/placed.c");
    let fixed = place.path("fixed");
    Run::new("cc").args(["-O2", "-g", "-pthread", "-no-pie", "-o"]).arg(&fixed).arg(source).run().success();
    run(&place, &FOUR, &[&kinds("policy = \"block\"")], &fixed, &["kinds", "1"]).is_as_asked();
}

#[test]
fn pages_of_two_mebibytes() {
    if !applies("pages_of_two_mebibytes") {
        return;
    }
    let place = Place::together();
    let large = |policy: &str| kinds(&format!("{policy}\npage-size = \"2 MiB\""));
    let cyclic = large("policy = \"block-cyclic\"\nblock = \"2 MiB\"");
    apply(&place, &FOUR, &[&cyclic], &["kinds", "1"]).is_as_asked();
    // Long enough to be looked at.
    let block = apply(&place, &FOUR, &[&large("policy = \"block\"")], &["kinds", "600"]);
    block.is_as_asked();
    for rule in block.placed["rules"].as_array().expect("a list") {
        let count = |name: &str| rule["page_sizes"][name].as_u64().unwrap_or_else(|| panic!("not looked at: {rule:#}"));
        // The first and the last may not be a whole one.
        assert!(count("used") >= 2047 && count("huge") >= 1024, "{rule:#}");
    }
}

#[test]
fn eight_nodes_and_nodes_without_cpus() {
    if !applies("eight_nodes_and_nodes_without_cpus") {
        return;
    }
    let place = Place::together();
    let eight = ["--nodes", "8", "--dist", "asym"];
    let block = apply(&place, &eight, &["--policy", "block", "--pin", "0,0,1,2,3,4,5,6,7"], &["serial", "80", "8"]);
    block.is_as_asked();
    assert!(block.remote() < 0.02, "{}", block.remote());
    assert_eq!(block.by_node(0).len(), 8);

    let memory = ["--nodes", "2", "--cpus", "4", "--mem-nodes", "1", "--dist", "line"];
    let plan = kinds("policy = \"bind\"\nnodes = \"memory-only\"");
    let there = apply(&place, &memory, &[&plan], &["kinds", "1"]);
    there.is_as_asked();
    assert!(there.by_node(1).iter().all(|(node, _)| *node == 2), "{:#}", there.placed);
}

#[test]
fn an_older_kernel_gets_the_next_best() {
    if !applies("an_older_kernel_gets_the_next_best") {
        return;
    }
    let place = Place::together();
    let old = [&FOUR[..], &["--kernel", "6.1"]].concat();
    let plan = kinds("policy = \"weighted-interleave\"");
    let fallen = apply(&place, &old, &[&plan], &["kinds", "1"]);
    fallen.is_as_asked();
    assert!(
        fallen.placed["rules"].as_array().expect("a list").iter().all(|rule| rule["fell_back"] == 1),
        "{:#}",
        fallen.placed
    );
    assert!(fallen.outcome.err().contains("next best policy"), "{}", fallen.outcome);
    for policy in ["policy = \"block\"", "policy = \"bind\"\nnodes = [1, 2]"] {
        apply(&place, &old, &[&kinds(policy)], &["kinds", "1"]).is_as_asked();
    }
    // A strict plan does not settle for less.
    let strict = plan.replace("version = 1", "version = 1\nmode = \"strict\"");
    let file = place.path("strict.toml");
    fs::write(&file, strict).expect("write the plan");
    let program: PathBuf = build::helper("placed");
    let outcome = lab()
        .args(&old)
        .arg("--")
        .arg(build::numamma())
        .arg("apply")
        .arg(&file)
        .arg("--")
        .arg(program)
        .args(["kinds", "100000"]);
    let outcome = outcome.run().exits(125);
    assert!(outcome.err().contains("the plan is strict"), "{outcome}");
}

#[test]
fn one_node_tells_who_owns_pages_on_four() {
    if !applies("one_node_tells_who_owns_pages_on_four") {
        return;
    }
    let place = Place::alone();
    let (program, inside) = (build::helper("placed"), place.path("inside.numamma"));
    place.record().arg(&program).args(["serial", "10000"]).run().success();
    let guest = lab()
        .args(FOUR)
        .arg("--share")
        .arg(place.dir())
        .arg("--")
        .arg(build::numamma())
        .args(["apply", "--policy", "block"]);
    guest.args(PIN).arg("--record").arg(&inside).arg("--").arg(&program).args(["serial", "6000"]).run().success();
    let ownership = Comparison::of(&place.dataset(), &inside, &["--reference", "a"]).ownership.expect("pages of both");
    // A page with few samples may have them from the thread that set it up.
    assert!(ownership.thread.answered > 300 && ownership.thread.accuracy > Some(0.97), "{:?}", ownership.thread);
}

/// Each phase has its own division of the array. The program says when one begins, or begins it with a function.
#[test]
fn phases_are_placed_anew() {
    if !applies("phases_are_placed_anew") {
        return;
    }
    let place = Place::together();
    let program = build::helper("annotated");
    let rules = "[[object]]\nheap = \"make_array\"\npolicy = \"first-touch\"\n[object.phase.halves]\npolicy = \"block\"\n\
                 [object.phase.mixed]\npolicy = \"block-cyclic\"\nblock = \"64 KiB\"\n";
    for (announced, by) in [("phases", ["", ""]), ("functions", ["begin_halves", "begin_mixed"])] {
        let phase = |name: &str, function: &str| match function {
            "" => format!("[[phase]]\nname = \"{name}\"\n"),
            function => format!("[[phase]]\nname = \"{name}\"\nfunction = \"{function}\"\n"),
        };
        let plan = format!("version = 1\n{}{}{rules}", phase("halves", by[0]), phase("mixed", by[1]));
        let applied = run(&place, &FOUR, &[&[plan.as_str()][..], &PIN].concat(), &program, &[announced, "300"]);
        let names: Vec<&str> = applied.placed["rules"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|rule| rule["object"].as_str())
            .collect();
        assert_eq!(names, ["make_array", "make_array in halves", "make_array in mixed"]);
        for rule in &applied.placed["rules"].as_array().expect("a list")[1..] {
            let count = |name: &str| rule["pages"][name].as_u64().expect("a count");
            assert!(count("right") >= 2047 && count("elsewhere") == 0, "{announced}: {rule:#}");
        }
        assert!(applied.remote() < 0.02, "{announced}: {}", applied.remote());
        let none =
            run(&place, &FOUR, &[&["--policy", "first-touch"][..], &PIN].concat(), &program, &[announced, "300"]);
        assert!(none.remote() > 0.7, "{announced}: {}", none.remote());
    }
}

#[test]
fn with_a_delay_the_time_falls() {
    if !applies("with_a_delay_the_time_falls") {
        return;
    }
    let place = Place::alone();
    let guest = [&FOUR[..], &["--delay", "1000"]].concat();
    let [first, interleave, block, plan] =
        [&["--policy", "first-touch"][..], &["--policy", "interleave"], &["--policy", "block"], &[CYCLIC]]
            .map(|options| apply(&place, &guest, &[options, &PIN].concat(), &["cyclic", "4"]).milliseconds());
    // Seen with `--nocapture`.
    println!("1000 ns: first-touch {first} ms, interleave {interleave} ms, block {block} ms, plan {plan} ms");
    assert!(plan * 2.0 < first.min(interleave).min(block), "{first} {interleave} {block} {plan}");
}
