//! `numamma compare` on recordings of real programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use numamma_tests::comparison::{Change, Comparison};
use numamma_tests::interval::{self, Setting};
use numamma_tests::run::OWN_FAILURE;
use numamma_tests::{Place, Run, build, recording, turns};
use numamma_trace::{Dataset, ObjectRow};

/// Two recordings of the triad.
fn recorded() -> &'static [PathBuf; 2] {
    static RECORDINGS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    RECORDINGS.get_or_init(|| {
        let _turn = turns::alone();
        [recording::of_triad("compare_a", "1.0"), recording::of_triad("compare_b", "1.0")]
    })
}

/// A copy of the first with another `meta.json`.
fn with_meta(place: &Place, name: &str, change: impl Fn(&mut serde_json::Value)) -> PathBuf {
    let dataset = place.path(name);
    fs::create_dir(&dataset).unwrap();
    for entry in fs::read_dir(&recorded()[0]).unwrap().flatten() {
        fs::copy(entry.path(), dataset.join(entry.file_name())).unwrap();
    }
    let meta = dataset.join("meta.json");
    let mut json = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    change(&mut json);
    fs::write(&meta, json.to_string()).unwrap();
    dataset
}

#[test]
fn a_recording_with_itself() {
    let [a, _] = recorded();
    let comparison = Comparison::of(a, a, &[]);
    assert!(comparison.objects.len() >= 3 && comparison.only_a.is_empty() && comparison.only_b.is_empty());
    let changes = comparison.objects.iter().flat_map(|of| [of.cost.seconds, of.cost.share, of.accesses.share]);
    let same = |change: Change| change.difference == Some(0.0) && change.significant != Some(true);
    assert!(changes.chain([comparison.total.cost]).all(same), "{comparison:?}");
    let pages = comparison.pages().thread;
    assert!(pages.reference > 1000 && pages.beyond == 0, "{pages:?}");
    assert_eq!((pages.coverage, pages.accuracy), (Some(1.0), Some(1.0)));
    assert_eq!((pages.coverage_by_accesses, pages.accuracy_by_accesses), (Some(1.0), Some(1.0)));
    assert!(comparison.notes.is_empty(), "{:?}", comparison.notes);
}

/// The kernel puts the second run elsewhere in memory: the arrays are found all the same, with the same owners.
#[test]
fn two_runs_of_one_program() {
    let [a, b] = recorded();
    if fs::read_to_string("/proc/sys/kernel/randomize_va_space").is_ok_and(|text| text.trim() != "0") {
        let arrays = |dataset: &Path| -> Vec<i64> {
            let rows: Vec<ObjectRow> = Dataset::open(dataset).unwrap().read().unwrap();
            rows.iter().filter(|row| row.kind == "heap" && row.bytes == 16 << 20).map(|row| row.addr).collect()
        };
        let (of_a, of_b) = (arrays(a), arrays(b));
        assert!(of_a.len() == 3 && of_b.len() == 3, "{of_a:x?} {of_b:x?}");
        assert!(of_a.iter().all(|addr| !of_b.contains(addr)), "{of_a:x?} {of_b:x?}");
    }
    let comparison = Comparison::of(a, b, &[]);
    for name in ["a", "b", "c"] {
        let object = comparison.object(name);
        assert_eq!((object.matched.by.as_str(), object.kind.as_str()), ("address", "heap"));
        let difference = object.accesses.share.difference.expect("one sampler");
        assert!(difference.abs() < 0.05, "{name} has a third of the accesses in both: {object:?}");
        let pages = object.ownership.expect("pages");
        // Some 2000 samples of 2 threads on 4096 pages each.
        assert!(pages.coverage > Some(0.2) && pages.accuracy > Some(0.95), "{name}: {pages:?}");
    }
    assert!(comparison.a.matched_cost > 0.98 && comparison.b.matched_cost > 0.98, "{comparison:?}");
    assert_eq!(comparison.comparable.cost, comparison.total.cost.difference.is_some());
}

/// An array more, and lines that moved: what has a name is found, the new one is the second recording's alone.
#[test]
fn an_edited_program() {
    let place = Place::alone();
    let sweep = "#include <stdlib.h>\n__attribute__((noinline)) static void sweep(double *p) {\n\
                 for (int k = 0; k < 300; k++)\n for (long i = 0; i < 1 << 20; i++) p[i] = p[i] * 0.5 + k;\n}\n";
    let grid = "  double *grid = malloc(1 << 23);\n  sweep(grid);\n";
    let more = "  double *more = malloc(1 << 23);\n  sweep(more);\n";
    let source = |above: &str, body: &str| format!("{sweep}{above}int main(void) {{\n{body}  return 0;\n}}\n");
    let record = |name: &str, source: &str| {
        let program = place.compile("gcc", "program", source, &[]);
        let dataset = place.path(name);
        Run::record(&dataset).arg(program).run().success();
        dataset
    };
    let (before, after) = (
        record("before.numamma", &source("", grid)),
        record("after.numamma", &source("\n\n", &format!("{grid}{more}"))),
    );
    let comparison = Comparison::of(&before, &after, &[]);
    let grid = comparison.object("grid");
    assert_eq!(grid.matched.by, "name");
    assert!(grid.cost.share.difference.unwrap() < -0.2, "half of the time is in the other array now: {grid:?}");
    assert!(grid.cost.share.significant.is_none() && grid.cost.share.error < Some(0.2), "one run of each: {grid:?}");
    let new = comparison.only_b.iter().find(|object| object.name == "more").expect("the new array");
    assert!(new.cost.share > 0.2, "{new:?}");
    assert!(comparison.notes().contains(&"rebuilt"), "{:?}", comparison.notes);
}

/// The same source in another folder, where one variable has another name: every array is found.
#[test]
fn another_checkout() {
    let place = Place::alone();
    let source = |name: &str| {
        format!(
            "#include <stdlib.h>\n__attribute__((noinline)) static void sweep(volatile double *p) {{\n\
             for (int k = 0; k < 300; k++)\n for (long i = 0; i < 1 << 19; i++) p[i] = p[i] * 0.5 + k;\n}}\n\
             int main(void) {{\n double *grid = malloc(1 << 22);\n sweep(grid);\n\
             double *{name} = malloc(1 << 22);\n sweep({name});\n return 0;\n}}\n"
        )
    };
    let record = |folder: &str, name: &str| {
        let folder = place.path(folder);
        fs::create_dir_all(folder.join("src")).unwrap();
        let (file, program) = (folder.join("src/solver.c"), folder.join("solver"));
        fs::write(&file, source(name)).unwrap();
        let built = std::process::Command::new("gcc").args(["-g", "-O1"]).arg(&file).arg("-o").arg(&program).status();
        assert!(built.unwrap().success());
        let dataset = folder.join("solver.numamma");
        Run::record(&dataset).arg(program).run().success();
        dataset
    };
    let (here, there) = (record("here", "more"), record("another/place", "mesh"));
    let comparison = Comparison::of(&here, &there, &[]);
    assert_eq!(comparison.object("grid").matched.by, "address");
    assert_eq!(comparison.object("more").matched.by, "site");
    assert!(comparison.a.matched_cost > 0.98 && comparison.b.matched_cost > 0.98, "{comparison:?}");
}

/// A shell that starts one process more: all threads behind it have other numbers, and own the same pages.
#[test]
fn a_process_more() {
    let place = Place::alone();
    let triad = build::workload("triad").expect("the triad");
    let record = |name: &str, before: &str| {
        let dataset = place.path(name);
        let script = format!("{before}'{}' 0.5; true", triad.display());
        let run = Run::record(&dataset).args(["sh", "-c", &script]);
        run.env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive").run().success();
        dataset
    };
    let (a, b) = (record("a.numamma", ""), record("b.numamma", "ls / >&2; ls / >&2; "));
    let comparison = Comparison::of(&a, &b, &[]);
    assert!(comparison.b.threads > comparison.a.threads, "{comparison:?}");
    let pages = comparison.pages().thread;
    assert!(pages.answered > 100 && pages.accuracy > Some(0.95), "{pages:?}");
}

/// What Marathe and Mueller report: with a longer interval fewer pages have an owner, but those that have one have the same.
/// 2048 pages; about 16000 samples at the shortest interval, 800 at 20 times it, 80 at 200 times.
#[test]
fn accuracy_stays_while_coverage_falls() {
    let place = Place::alone();
    let setting = Setting { seconds: 1.0, threads: 4, period: 250_000 };
    let steps = interval::measure("blockcyclic", &setting, &[1, 20, 200], place.dir());
    let field = steps.iter().map(|step| step.object("field").ownership.expect("pages"));
    let coverage: Vec<f64> = field.clone().map(|pages| pages.coverage.expect("a reference")).collect();
    assert!(coverage[0] > 0.9, "two of a kind know nearly all pages: {coverage:?}");
    // Expected 1 - exp(-800 / 2048) = 0.32 and 0.04; how many samples there are is up to the machine.
    assert!(coverage[1] < 0.7 * coverage[0] && coverage[2] < 0.5 * coverage[1] && coverage[2] > 0.0, "{coverage:?}");
    for (pages, least) in field.zip([0.97, 0.95, 0.8]) {
        assert!(pages.accuracy.expect("some pages") >= least, "{pages:?}");
    }
}

#[test]
fn text() {
    let [a, b] = recorded();
    let outcome = Run::compare(a, b).run().success();
    let text = outcome.out();
    for word in ["compare_a.numamma", "Objects of both", "triad.c:", "B - A", "Coverage", "Accuracy", "Losses", "95 %"]
    {
        assert!(text.contains(word), "no {word:?} in {outcome}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line == line.trim_end()), "{outcome}");
    assert!(outcome.stderr.is_empty(), "{outcome}");
    let one = Run::compare(a, b).args(["--top", "1"]).run().success();
    assert!(one.out().contains("objects more"), "{one}");
    let ascii = Run::compare(a, b).env("LC_ALL", "C").run().success();
    assert!(ascii.out().is_ascii(), "{ascii}");
}

#[test]
fn what_cannot_be_compared_fails_clearly() {
    let [a, _] = recorded();
    let place = Place::together();
    let nowhere = place.path("nowhere.numamma");
    Run::compare(a, &nowhere).run().exits(OWN_FAILURE).fails_clearly(&["nowhere.numamma", "not there"]);
    Run::compare(&nowhere, a).run().exits(OWN_FAILURE).fails_clearly(&["nowhere.numamma"]);
    Run::numamma().arg("compare").arg(a).run().exits(OWN_FAILURE).fails_clearly(&["<B>"]);
    for bad in [["--reference", "c"], ["--format", "csv"], ["--top", "few"]] {
        Run::compare(a, a).args(bad).run().exits(OWN_FAILURE).fails_clearly(&[bad[0]]);
    }
    let newer = with_meta(&place, "newer.numamma", |meta| meta["format"] = 99.into());
    Run::compare(a, &newer).run().exits(OWN_FAILURE).fails_clearly(&["newer.numamma", "update"]);
    let broken = with_meta(&place, "broken.numamma", |_| {});
    fs::write(broken.join("samples.parquet"), "garbage").unwrap();
    // The rest is compared, and what is missing is named.
    let damaged = Run::compare(&broken, a).run().success();
    let said = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert!(
        said.contains("broken.numamma/samples.parquet: damaged") && damaged.out().contains("A lost 1"),
        "{damaged}"
    );
}

/// What makes differences doubtful is said, and is no failure.
#[test]
fn what_should_not_be_compared_is_said() {
    let [a, _] = recorded();
    let place = Place::together();
    let cut = with_meta(&place, "cut.numamma", |meta| meta["complete"] = false.into());
    assert_eq!(Comparison::of(a, &cut, &[]).notes(), ["incomplete"]);
    let other = with_meta(&place, "other.numamma", |meta| meta["command"][0] = "/bin/other".into());
    let comparison = Comparison::of(a, &other, &[]);
    assert_eq!(comparison.notes(), ["different_programs"]);
    let text = Run::compare(a, &other).run().success();
    let note = &comparison.notes[0].text;
    assert_eq!(note, "A is a recording of triad, B of other: what is in one alone may tell nothing");
    // Lines end where the width does.
    let words = text.out().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(note), "{text}");
    let exact = with_meta(&place, "exact.numamma", |meta| meta["sampler"]["kind"] = "exact".into());
    let text = Run::compare(a, &exact).run().success().out();
    assert!(text.contains("times are not compared") && !text.contains("Time A") && text.contains("Access A"), "{text}");
}

/// `docs/COMPARE.md` names every field and every note.
#[test]
fn every_field_is_described() {
    let document = fs::read_to_string(build::root().join("docs/COMPARE.md")).unwrap();
    let spans = document.split('`').skip(1).step_by(2);
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    let mut described: BTreeSet<&str> = spans.flat_map(|span| span.split(word)).collect();
    // Those are the report's.
    described.extend(["function", "file", "line", "via", "stack", "rate_hz", "period", "overhead_estimate", "only"]);
    described.extend(["count", "remedy", "seconds", "share", "error", "reads", "writes", "id", "basis"]);
    described.extend(["hooks", "trace_windows", "taken", "instructions", "stopped_s", "assumed"]);
    described.extend(["trace", "most", "accesses", "used_up"]);
    described.extend(["overhead", "ticks_s", "held_s", "hooks_s", "recorder_s", "thread_s"]);
    described.extend(["controls", "after_s", "for_s", "marked", "in", "objects", "ranges", "left_out", "thinned"]);
    let [a, b] = recorded();
    let outcome = Run::compare(a, b).args(["--format", "json"]).run().success();
    let mut names = BTreeSet::new();
    fields(&serde_json::from_slice(&outcome.stdout).unwrap(), &mut names);
    assert!(names.len() > 50, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !described.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let notes = fs::read_to_string(build::root().join(Path::new("crates/compare/src/notes.rs"))).unwrap();
    let kinds: Vec<&str> = notes.split("add(").skip(1).filter_map(|call| call.split('"').nth(1)).collect();
    assert!(kinds.len() > 10, "{kinds:?}");
    let missing: Vec<&&str> = kinds.iter().filter(|kind| !described.contains(**kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Names of all fields; maps whose keys are data have none.
fn fields(value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                into.insert(key.clone());
                if key != "unattributed" {
                    fields(value, into);
                }
            }
        }
        _ => {}
    }
}
