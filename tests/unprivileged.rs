//! Nothing needs root: the same recording as somebody else, at the kernel's default of perf_event_paranoid = 2.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use numamma_tests::report::{self, Report};
use numamma_tests::truth::Truth;
use numamma_tests::verdict::Verdict;
use numamma_tests::{Run, build, skip, turns};

const NOBODY: u32 = 65534;

/// A folder that belongs to nobody, with copies of what nobody shall run: the project's own folder may be closed to others.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::Builder::new().prefix("numamma-nobody-").tempdir_in("/tmp").expect("a folder in /tmp");
        std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may give it away");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Place { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn copy(&self, file: &Path) -> PathBuf {
        let to = self.path().join(file.file_name().expect("a file"));
        fs::copy(file, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    }
}

fn as_nobody() -> Run {
    Run::new("setpriv").args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ])
}

/// True if this test can tell anything here.
fn applies(test: &str) -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid: i32 = paranoid.trim().parse().unwrap_or(2);
    if !skip::is_root() {
        skip::skipped(test, "not root: every other test runs unprivileged already");
    } else if !skip::installed("setpriv") {
        skip::missing(test, "setpriv");
    } else if paranoid > 2 {
        skip::skipped(test, &format!("kernel.perf_event_paranoid is {paranoid}"));
    } else {
        return true;
    }
    false
}

#[test]
fn triad_as_nobody() {
    if !applies("triad_as_nobody") {
        return;
    }
    let place = Place::new();
    let numamma = place.copy(build::numamma());
    let triad = place.copy(&build::workload("triad").expect("the triad"));
    let dataset = place.path().join("triad.numamma");
    let truth = Truth::of("triad");

    let turn = turns::alone();
    let outcome = as_nobody()
        .arg(&numamma)
        .args(["record", "-o"])
        .arg(&dataset)
        .args(["--rate", "1000", "--"])
        .arg(triad)
        .arg(truth.seconds.to_string())
        .env("OMP_NUM_THREADS", "2")
        .env("OMP_WAIT_POLICY", "passive")
        .env("HOME", place.path())
        .env("TMPDIR", place.path())
        .dir(place.path())
        .run()
        .success();
    drop(turn);
    assert_eq!(outcome.out(), truth.stdout, "{outcome}");
    // What nobody wrote, nobody can read.
    as_nobody().arg(&numamma).arg("report").arg(&dataset).run().success();
    let verdict = Verdict::of(&truth, &Report::of(&dataset), &dataset, &outcome.err());
    assert!(
        verdict.failures().is_empty(),
        "as nobody\n  - {}\n{}",
        verdict.failures().join("\n  - "),
        report::text(&dataset)
    );
}

#[test]
fn a_folder_that_is_closed_to_us() {
    if !applies("a_folder_that_is_closed_to_us") {
        return;
    }
    let _turn = turns::together();
    let place = Place::new();
    let numamma = place.copy(build::numamma());
    let closed = place.path().join("closed.numamma");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let outcome = as_nobody().arg(&numamma).arg("report").arg(&closed).run().exits(125);
    assert!(outcome.err().contains("closed.numamma") && outcome.err().trim().lines().count() == 1, "{outcome}");
    let inside = closed.join("x.numamma");
    let outcome =
        as_nobody().arg(&numamma).args(["record", "-o"]).arg(inside).args(["--", "echo", "ran"]).run().exits(125);
    assert!(outcome.stdout.is_empty(), "the program must not run for nothing: {outcome}");
}

#[test]
fn doctor_as_nobody() {
    if !applies("doctor_as_nobody") {
        return;
    }
    let _turn = turns::together();
    let place = Place::new();
    let numamma = place.copy(build::numamma());
    let outcome = as_nobody().arg(&numamma).arg("doctor").run().success();
    assert!(outcome.out().contains("clock"), "the sampler that would be used is not named: {outcome}");
}

/// A server drops its rights, and then starts its threads.
const SERVER: &str = r#"
    #define _GNU_SOURCE
    #include <grp.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    static long sum;
    __attribute__((noinline)) static char *make(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
    static void *serve(void *x) {
        volatile char *p = make(8 << 20);
        for (int turn = 0; turn < 60; turn++) for (int i = 0; i < 8 << 20; i += 64) sum += p[i];
        return x;
    }
    int main(int argc, char **argv) {
        pthread_t t[3];
        if (argc > 1 && (setgroups(0, 0) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) return 9;
        for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, serve, 0);
        for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
        return 0;
    }"#;

#[test]
fn threads_of_a_program_that_drops_its_rights_are_recorded() {
    let test = "threads_of_a_program_that_drops_its_rights_are_recorded";
    if !skip::is_root() {
        skip::skipped(test, "not root: there are no rights to drop");
        return;
    }
    let place = numamma_tests::Place::together();
    let program = place.compile("gcc", "server", SERVER, &["-O1", "-pthread"]);
    let dataset = place.dataset();
    Run::record(&dataset).arg(&program).arg("drop").run().success();
    let report = Report::of(&dataset);
    for kind in ["heap_ring_not_mapped", "untracked_process", "other_user"] {
        assert!(report.losses.iter().all(|loss| loss.kind != kind), "{kind}: {:?}", report.losses);
    }
    let sites = Run::report(&dataset).args(["--by", "site", "--format", "json"]).run().success();
    let sites: serde_json::Value = serde_json::from_str(&sites.out()).expect("JSON");
    let rows = sites["sites"].as_array().expect("rows");
    let made = rows.iter().find(|row| row["site"]["function"] == "make").unwrap_or_else(|| panic!("{sites:#}"));
    assert_eq!(made["count"], 3, "{made:#}");
}

#[test]
fn what_another_user_executes_is_said_to_be_missing() {
    let test = "what_another_user_executes_is_said_to_be_missing";
    if !skip::is_root() || !skip::installed("setpriv") {
        skip::skipped(test, "it takes root and setpriv");
        return;
    }
    let place = Place::new();
    let together = numamma_tests::Place::together();
    let program = place.copy(&together.compile("gcc", "server", SERVER, &["-O1", "-pthread"]));
    let as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let dataset = together.dataset();
    // It works enough to be sampled, and is there long enough to be asked for its owner.
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 1";
    Run::record(&dataset).args(as_other).args(["sh", "-c", work]).run().success();
    let losses = Report::of(&dataset).losses;
    let kinds: Vec<&str> = losses.iter().map(|loss| loss.kind.as_str()).collect();
    assert!(kinds.contains(&"other_user") && !kinds.contains(&"untracked_process"), "{losses:?}");
    let applied = Run::numamma().args(["apply", "--policy", "interleave", "--"]).args(as_other).arg(&program).run();
    assert!(applied.err().contains("put numamma apply behind it"), "{applied}");
}

/// The limit on locked memory of many systems, and of containers: rings are as small as they have to be.
#[test]
fn little_locked_memory() {
    if !applies("little_locked_memory") || !skip::installed("prlimit") {
        return;
    }
    let place = Place::new();
    let numamma = place.copy(build::numamma());
    let triad = place.copy(&build::workload("triad").expect("the triad"));
    let _turn = turns::together();
    for bytes in [0, 64 << 10, 1 << 20] {
        let limit = format!("--memlock={bytes}:{bytes}");
        let dataset = place.path().join(format!("{bytes}.numamma"));
        let record = as_nobody().arg("prlimit").arg(limit).arg(&numamma).args(["record", "-o"]).arg(&dataset).arg("--");
        let record = record.arg(&triad).arg("0.5").env("OMP_NUM_THREADS", "2").env("TMPDIR", place.path());
        let outcome = record.dir(place.path()).run().success();
        let report = Report::of(&dataset);
        assert!(report.samples.recorded > 20, "{bytes}: {} samples: {outcome}", report.samples.recorded);
    }
}
