//! Bad input and bad luck: one clear line, the right exit status, and whatever was recorded until then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use numamma_tests::report::Report;
use numamma_tests::run::{OWN_FAILURE, Running, alive, children, signal, until};
use numamma_tests::{Place, Run, build, recording, skip, turns};

/// A recording that all tests may copy.
fn recording() -> &'static Path {
    static RECORDING: OnceLock<PathBuf> = OnceLock::new();
    RECORDING.get_or_init(|| recording::of_triad("bad_input", "0.5"))
}

/// A copy of the recording to spoil, instead of the one before.
fn copy(place: &Place) -> PathBuf {
    let dataset = place.path("spoilt.numamma");
    let _ = fs::remove_dir_all(&dataset);
    fs::create_dir(&dataset).unwrap();
    for entry in fs::read_dir(recording()).unwrap().flatten() {
        fs::copy(entry.path(), dataset.join(entry.file_name())).unwrap();
    }
    dataset
}

#[test]
fn no_command() {
    let _turn = turns::together();
    let outcome = Run::numamma().arg("record").run().exits(OWN_FAILURE);
    assert!(outcome.err().contains("record") && outcome.stdout.is_empty(), "{outcome}");
    let outcome = Run::numamma().run().exits(OWN_FAILURE);
    outcome.fails_clearly(&["--help"]);
}

#[test]
fn unknown_command() {
    let _turn = turns::together();
    let outcome = Run::numamma().arg("recrod").run().exits(OWN_FAILURE);
    assert!(outcome.err().contains("recrod"), "{outcome}");
    let outcome = Run::numamma().args(["report", "--no-such-option", "x"]).run().exits(OWN_FAILURE);
    assert!(outcome.err().contains("--no-such-option"), "{outcome}");
}

#[test]
fn bad_values_of_options() {
    let place = Place::together();
    let dataset = place.path("x.numamma");
    for bad in [
        ["--rate", "0"],
        ["--rate", "fast"],
        ["--sampler", "magic"],
        ["--overhead", "-1"],
        ["--wrapper", ""],
        ["--no-such", "1"],
    ] {
        let outcome =
            Run::numamma().args(["record", "-o"]).arg(&dataset).args(bad).args(["--", "true"]).run().exits(OWN_FAILURE);
        assert!(outcome.err().contains(bad[0]), "{bad:?}: {outcome}");
        assert!(!dataset.exists(), "{bad:?}");
    }
    for bad in [["--by", "colour"], ["--sort", "name"], ["--format", "xml"], ["--top", "many"], ["--access", "exec"]] {
        let outcome = Run::report(recording()).args(bad).run().exits(OWN_FAILURE);
        assert!(outcome.err().contains(bad[0]) && outcome.stdout.is_empty(), "{bad:?}: {outcome}");
    }
    let outcome = Run::report(recording()).args(["--object", "no-such-object"]).run().exits(OWN_FAILURE);
    outcome.fails_clearly(&["no-such-object"]);
}

/// A wrapper that no allocation came from is most likely a mistyped one; the recording is good all the same.
#[test]
fn a_wrapper_that_is_not_there() {
    let place = Place::together();
    let dataset = place.path("x.numamma");
    let record = Run::numamma().args(["record", "--wrapper", "no_such_function", "-o"]).arg(&dataset);
    let outcome = record.args(["--", "true"]).run().success();
    assert!(outcome.err().contains("--wrapper no_such_function"), "{outcome}");
}

/// A sampler that this machine does not have.
#[test]
fn a_sampler_that_is_not_there() {
    if Path::new("/sys/bus/event_source/devices/arm_spe_0").exists() {
        return skip::skipped("a_sampler_that_is_not_there", "this machine has Arm SPE");
    }
    let place = Place::together();
    let dataset = place.path("x.numamma");
    let outcome =
        Run::numamma().args(["record", "--sampler", "spe", "-o"]).arg(dataset).args(["--", "echo", "ran"]).run();
    assert!(outcome.shell_status() == OWN_FAILURE && outcome.stdout.is_empty(), "{outcome}");
    outcome.fails_clearly(&["spe"]);
}

#[test]
fn unreadable_folders() {
    let place = Place::together();
    let report = |path: &Path| Run::report(path).run().exits(OWN_FAILURE);
    let nowhere = place.path("nowhere.numamma");
    report(&nowhere).fails_clearly(&["nowhere.numamma"]);
    let empty = place.path("empty.numamma");
    fs::create_dir(&empty).unwrap();
    report(&empty).fails_clearly(&["empty.numamma"]);
    let file = place.path("file.numamma");
    fs::write(&file, "text").unwrap();
    report(&file).fails_clearly(&["file.numamma"]);
    report(Path::new("/proc/self")).fails_clearly(&["/proc/self"]);

    if skip::is_root() {
        return; // no folder is unreadable to root; `unprivileged` has the rest
    }
    let closed = place.path("closed.numamma");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    report(&closed).fails_clearly(&["closed.numamma"]);
}

#[test]
fn an_output_folder_that_cannot_be_made() {
    let _turn = turns::together();
    for path in ["/proc/self/x.numamma", "/etc/passwd/x.numamma"] {
        let outcome = Run::record(Path::new(path)).args(["echo", "ran"]).run().exits(OWN_FAILURE);
        outcome.fails_clearly(&[path]);
        assert!(outcome.stdout.is_empty(), "the program must not run for nothing: {outcome}");
    }
}

/// The disk fills up while recording: the program goes on, the recorder says so at the end, and so does the report of what there is.
#[test]
fn a_full_disk() {
    let place = Place::alone();
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    // A file system of 64 KiB in a mount namespace of its own, which vanishes with its last process.
    let script = "mount -t tmpfs -o size=64k none \"$1\" || exit 99
        disk=$1; out=$2; shift 2; \"$@\"; status=$?; cp -r \"$disk/run.numamma\" \"$out\"; exit $status";
    let dataset = place.dataset();
    let unshare = |command: &[&str]| {
        let options: &[&str] = if skip::is_root() { &["-m"] } else { &["-Urm"] };
        Run::new("unshare").args(options).args(["sh", "-c", script, "sh"]).arg(&disk).arg(&dataset).args(command)
    };
    if !skip::installed("unshare") || unshare(&["true"]).run().shell_status() == 99 {
        return skip::skipped("a_full_disk", "no file system may be mounted here");
    }
    let triad = build::workload("triad").expect("the triad");
    let there = disk.join("run.numamma");
    let numamma = build::numamma().to_str().unwrap();
    // 20 kHz: enough samples to fill it for sure.
    let command = [numamma, "record", "-o", there.to_str().unwrap(), "--rate", "20000", "--"];
    let outcome = unshare(&command).arg(triad).arg("1").env("OMP_NUM_THREADS", "2").run();
    assert_eq!(outcome.out(), "triad ok\n", "the program goes on: {outcome}");
    assert!(outcome.shell_status() == OWN_FAILURE, "{outcome}");
    outcome.fails_clearly(&["disk full", "run.numamma", "free space"]);
    is_called_full(&dataset);
}

/// A limit on the size of files, which ends a program that does not expect it.
#[test]
fn a_limit_on_the_size_of_files() {
    let place = Place::alone();
    let triad = build::workload("triad").expect("the triad");
    let script = place.script("ulimit -f $1\nshift\nexec \"$@\"\n");
    let record = |blocks: &str, heap: &[&str]| {
        let record = Run::new("sh")
            .arg(&script)
            .arg(blocks)
            .arg(build::numamma())
            .args(["record", "--rate", "20000"])
            .args(heap);
        record.arg("-o").arg(place.dataset())
    };
    record("1024", &[]).args(["--", "true"]).run().fails_clearly(&["ulimit -f", "--no-heap"]);
    let outcome = record("32", &["--no-heap"]).arg("--").arg(triad).arg("1").env("OMP_NUM_THREADS", "2").run();
    assert_eq!((outcome.out().as_str(), outcome.shell_status()), ("triad ok\n", OWN_FAILURE), "{outcome}");
    outcome.fails_clearly(&["disk full", "File too large"]);
    is_called_full(&place.dataset());
}

#[track_caller]
fn is_called_full(dataset: &Path) {
    let report = Report::of(dataset);
    assert_eq!((report.lost("disk_full") > 0, report.lost("recording_cut")), (true, 0), "{:?}", report.losses);
}

/// A page that cannot be written leaves the old one, and no piece of a new one.
#[test]
fn a_page_is_written_whole_or_not() {
    let place = Place::together();
    let page = place.path("page.html");
    let html = |limit: &str| {
        let script = place.script("ulimit -f $1\nshift\nexec \"$@\"\n");
        Run::new("sh")
            .arg(script)
            .arg(limit)
            .arg(build::numamma())
            .arg("html")
            .arg(recording())
            .arg("-o")
            .arg(&page)
            .run()
    };
    let first = html("unlimited");
    if first.err().contains("without the web view") {
        return skip::skipped("a_page_is_written_whole_or_not", "the web view was not built");
    }
    first.success();
    let before = fs::read(&page).unwrap();
    html("16").fails_clearly(&["disk full", "page.html"]);
    assert!(fs::read(&page).unwrap() == before, "the old page is gone");
    let left = fs::read_dir(place.dir())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp"));
    assert_eq!(left.count(), 0);
    let piped = Run::numamma().arg("html").arg(recording()).args(["-o", "-"]).run().success();
    assert!(piped.stdout == before && !place.path("-").exists());
}

/// Every file of a dataset, cut at several places: a report of the rest or a clear line, never a panic, never a hang.
#[test]
fn a_dataset_cut_short() {
    let place = Place::together();
    for entry in fs::read_dir(recording()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let length = entry.metadata().unwrap().len();
        for keep in [0, 1, length / 2, length.saturating_sub(9), length.saturating_sub(1)] {
            let dataset = copy(&place);
            fs::File::options().write(true).open(dataset.join(&name)).unwrap().set_len(keep).unwrap();
            check_spoilt(&dataset, &format!("{name} cut to {keep} of {length} bytes"));
        }
        let dataset = copy(&place);
        fs::remove_file(dataset.join(&name)).unwrap();
        check_spoilt(&dataset, &format!("{name} removed"));
    }
}

/// The same with bytes overwritten in the middle: what a bad disk or a careless copy does.
#[test]
fn a_dataset_with_garbage_in_it() {
    let place = Place::together();
    for entry in fs::read_dir(recording()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        for at in [1, 2, 3] {
            let dataset = copy(&place);
            let mut bytes = fs::read(dataset.join(&name)).unwrap();
            let middle = bytes.len() * at / 4;
            let end = (middle + 64).min(bytes.len());
            bytes[middle..end].iter_mut().for_each(|b| *b = !*b);
            fs::write(dataset.join(&name), bytes).unwrap();
            check_spoilt(&dataset, &format!("{name} with garbage at {at}/4"));
        }
    }
}

fn check_spoilt(dataset: &Path, what: &str) {
    let outcome = Run::report(dataset).args(["--format", "json"]).limit(30).run();
    assert!(!outcome.err().contains("panicked"), "{what}: {outcome}");
    if outcome.shell_status() == 0 {
        // What is gone is null, whatever it was.
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&outcome.stdout);
        let lines = outcome.err().lines().filter(|line| line.contains(".parquet: ")).count();
        let unread = |report: &serde_json::Value| {
            let losses = report["losses"].as_array().into_iter().flatten();
            losses.filter(|loss| loss["kind"] == "file_unread").filter_map(|loss| loss["count"].as_u64()).sum::<u64>()
        };
        let named = parsed.as_ref().map(|report| unread(report) == lines as u64);
        assert!(named.is_ok_and(|named| named), "{what}: a report that is none, or that does not say so: {outcome}");
        // What is gone has no part in the rest, whatever it was.
        let needed = !what.starts_with("markers") && !what.starts_with("trace");
        assert!(lines > 0 || !needed || !what.ends_with("removed"), "{what}: {outcome}");
        let html = Run::numamma().arg("html").arg(dataset).args(["-o", "/dev/null"]).limit(30).run();
        assert!(html.shell_status() == 0 || html.err().contains("without the web view"), "{what}: {html}");
    } else {
        // All but this file can be done without.
        assert!(what.starts_with("meta.json"), "{what}: {outcome}");
        assert!(outcome.shell_status() == OWN_FAILURE, "{what}: {outcome}");
        outcome.fails_clearly(&["spoilt.numamma"]);
    }
    let compared = Run::compare(recording(), dataset).limit(30).run();
    assert!(compared.shell_status() == outcome.shell_status(), "{what}: {compared}");
    if compared.shell_status() != 0 {
        compared.fails_clearly(&["spoilt.numamma"]);
    }
}

/// A report of the recording without a table, in this form.
fn without(place: &Place, table: &str, options: &[&str]) -> String {
    let dataset = copy(place);
    fs::remove_file(dataset.join(table).with_extension("parquet")).unwrap();
    Run::report(&dataset).args(options).env("COLUMNS", "200").run().success().out()
}

/// Fields of a CSV report that have these names, of all rows.
fn fields<'a>(csv: &'a str, names: &[&str]) -> Vec<&'a str> {
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let index =
        |name: &&str| header.iter().position(|of| of == name).unwrap_or_else(|| panic!("no {name}: {header:?}"));
    let columns: Vec<usize> = names.iter().map(index).collect();
    rows.flat_map(|row| columns.iter().map(|&column| row[column]).collect::<Vec<_>>()).collect()
}

#[test]
fn a_missing_table_is_null_in_json() {
    let place = Place::together();
    let json = |table: &str, by: &str| -> serde_json::Value {
        serde_json::from_str(&without(&place, table, &["--format", "json", "--by", by])).expect("JSON")
    };
    let report = json("samples", "object");
    assert!(report["version"].is_number() && report["samples"].is_null(), "{report}");
    for field in ["cost", "accesses", "samples", "remote"] {
        assert_eq!(report["objects"][0].get(field), Some(&serde_json::Value::Null), "{field}: {report}");
    }
    assert!(report["run"]["threads"].is_number() && report["threads"][0]["cost_s"].is_null(), "{report}");
    assert!(report.get("pages").is_none() && report.get("nodes").is_none(), "{report}");
    let pages = json("samples", "page");
    assert!(pages["pages"][0]["page"].is_number() && pages["pages"][0]["samples"].is_null(), "{pages}");
    let nodes = json("samples", "node");
    assert!(nodes["nodes"][0]["pages"].is_number() && nodes["nodes"][0]["samples"].is_null(), "{nodes}");
    let report = json("threads", "object");
    assert!(report["version"].is_number(), "{report}");
    assert_eq!(report["run"].get("threads"), Some(&serde_json::Value::Null), "{report}");
}

#[test]
fn a_missing_table_leaves_fields_of_csv_empty() {
    let place = Place::together();
    let cost = ["samples", "cost_seconds", "cost_share"];
    let more = ["cost_error", "reads", "writes", "access_share", "access_error", "access_basis", "remote_reads"];
    let more = [&more[..], &["remote_writes", "remote_share", "threads", "block_bytes", "period_bytes", "confidence"]];
    let of_objects = [&cost[..], &more.concat()].concat();
    for (by, names) in [
        ("object", &of_objects[..]),
        ("site", &cost),
        ("thread", &["cost_seconds", "cost_share", "cost_error"]),
        ("page", &["samples", "threads", "owner", "owner_share"]),
        ("node", &["samples", "threads"]),
    ] {
        let csv = without(&place, "samples", &["--format", "csv", "--by", by, "--top", "5"]);
        let unknown = fields(&csv, names);
        assert!(!unknown.is_empty() && unknown.iter().all(|field| field.is_empty()), "{by}: {unknown:?}\n{csv}");
        assert!(csv.split([',', '\n']).all(|field| !["-0", "-0.0"].contains(&field)), "{by}: {csv}");
    }
    for by in ["object", "thread", "page", "node"] {
        let csv = without(&place, "threads", &["--format", "csv", "--by", by]);
        assert_eq!(csv.lines().count(), 1, "nothing can be attributed: {by}: {csv}");
    }
    let sites = without(&place, "threads", &["--format", "csv", "--by", "site"]);
    let unknown = fields(&sites, &cost);
    assert!(!unknown.is_empty() && unknown.iter().all(|field| field.is_empty()), "{sites}");
}

#[test]
fn a_missing_table_is_no_number_in_text() {
    let place = Place::together();
    for by in ["object", "site", "thread", "page", "node"] {
        let text = without(&place, "samples", &["--by", by]);
        assert!(text.contains("  samples   not known\n"), "{by}: {text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for title in ["Cost", "Time", "Samples", "Access", "Reads", "Writes"] {
            assert!(!words.contains(&title), "{title} in {by}: {text}");
        }
        assert!(!words.iter().any(|word| ["-0", "0.0", "-0.0"].contains(word)), "{by}: {text}");
    }
    let text = without(&place, "threads", &[]);
    let run = text.lines().find(|line| line.starts_with("  run ")).expect("the run");
    assert!(!run.contains("thread") && text.contains("threads and their samples cannot be shown"), "{text}");
}

#[test]
fn a_page_replaces_nothing_but_a_page() {
    let place = Place::together();
    let (page, notes) = (place.path("page.html"), place.path("notes.html"));
    fs::write(&notes, "<!doctype html>\n<title>my notes</title>\n").unwrap();
    let html = |output: &Path, more: &[&str]| {
        Run::numamma().arg("html").arg(recording()).arg("-o").arg(output).args(more).run()
    };
    let refused = html(&notes, &[]);
    refused.fails_clearly(&["notes.html", "--force"]);
    assert!(fs::read_to_string(&notes).unwrap().contains("my notes"), "it was replaced");
    let first = html(&page, &[]);
    if first.err().contains("without the web view") {
        return skip::skipped("a_page_replaces_nothing_but_a_page", "the web view was not built");
    }
    first.success();
    html(&page, &[]).success();
    html(&notes, &["--force"]).success();
    assert!(!fs::read_to_string(&notes).unwrap().contains("my notes"));
}

#[test]
fn a_dataset_of_a_newer_version() {
    let place = Place::together();
    let dataset = copy(&place);
    let meta = dataset.join("meta.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    let format = json["format"].as_u64().expect("meta.json has a number `format`");
    json["format"] = (format + 1).into();
    fs::write(&meta, json.to_string()).unwrap();
    let outcome = Run::report(&dataset).run().exits(OWN_FAILURE);
    outcome.fails_clearly(&["spoilt.numamma", &format!("format {}", format + 1), "update"]);
}

/// `numamma` below a filter that refuses performance events, as containers have it.
fn refused(error: &str) -> Run {
    Run::new(build::helper("deny_perf")).arg(error).arg(build::numamma())
}

/// Recorder and doctor try the same, and blame what refuses.
#[test]
fn performance_events_are_refused() {
    let place = Place::together();
    let dataset = place.path("x.numamma");
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let may_be_level = paranoid.trim().parse().is_ok_and(|level: i32| level > 2);
    for error in ["EPERM", "EACCES", "ENOSYS"] {
        let outcome = refused(error).args(["record", "-o"]).arg(&dataset).args(["--", "echo", "ran"]).run();
        assert!(
            outcome.shell_status() == OWN_FAILURE && outcome.stdout.is_empty(),
            "the program must not run: {outcome}"
        );
        outcome.fails_clearly(&["seccomp", "--cap-add PERFMON"]);
        assert!(may_be_level || !outcome.err().contains("sysctl"), "the level is not what refuses: {outcome}");
        assert!(!dataset.exists(), "a dataset of a program that never ran");
        let doctor = refused(error).arg("doctor").run().success();
        assert!(doctor.out().contains("seccomp") && !doctor.out().contains("[x]"), "{doctor}");
        let json = refused(error).args(["doctor", "--format", "json"]).run().success();
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
        assert_eq!((&json["probe"]["trial"]["opened"], &json["choice"]["kind"]), (&false.into(), &"none".into()));
    }
}

/// A recording that cannot begin replaces none.
#[test]
fn what_is_replaced_stays_until_the_new_one_begins() {
    let place = Place::together();
    let dataset = copy(&place);
    let before = Run::report(&dataset).run().success().out();
    let record = refused("EPERM").args(["record", "--force", "-o"]).arg(&dataset).args(["--", "echo", "ran"]);
    record.run().exits(OWN_FAILURE);
    assert_eq!(Run::report(&dataset).run().success().out(), before);
    let script = place.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Run::numamma().args(["record", "--force", "-o"]).arg(&dataset).arg("--").arg(&script).run().exits(127);
    assert_eq!(Run::report(&dataset).run().success().out(), before);
    Run::numamma().args(["record", "--force", "-o"]).arg(&dataset).args(["--", "echo", "ran"]).run().success();
    assert_eq!(Report::of(&dataset).run.command, ["echo", "ran"]);
}

#[test]
fn an_empty_folder_is_recorded_into() {
    let place = Place::together();
    let dataset = place.path("empty");
    fs::create_dir(&dataset).unwrap();
    let record = |dataset: &Path| Run::numamma().args(["record", "-o"]).arg(dataset).args(["--", "true"]).run();
    record(&dataset).success();
    record(&dataset).fails_clearly(&["already exists", "--force"]);
}

/// Nobody can be attached to, and whoever tries is told what can be done.
#[test]
fn a_process_that_runs_already() {
    let _turn = turns::together();
    for option in ["-p", "--pid"] {
        Run::numamma().args(["record", option, "1"]).run().fails_clearly(&["runs already", "record -- COMMAND"]);
    }
}

/// Help offers what can be had.
#[test]
fn help_offers_no_sampler_that_is_refused() {
    let _turn = turns::together();
    let help = Run::numamma().args(["record", "--help"]).run().success().out();
    assert!(help.contains("clock") && help.contains("exact"), "{help}");
    for name in ["pebs", "ibs", "spe", "min-latency"] {
        assert!(!help.contains(name), "{name}: {help}");
    }
}

/// `kill -9` of the recorder: the program goes on, and what was recorded until then can be read.
#[test]
fn the_recorder_is_killed() {
    let place = Place::alone();
    let (running, program) = triad_that_runs(&place, "4");
    // What was collected is written every two seconds.
    std::thread::sleep(Duration::from_millis(3000));
    let output = running.stdout_handle();
    signal(running.pid(), libc::SIGKILL);
    running.wait().exits(137);
    assert!(alive(program), "the program died with the recorder");
    until("the program to finish", Duration::from_secs(30), || !alive(program));
    assert_eq!(String::from_utf8_lossy(&output.contents()), "triad ok\n");

    let report = Report::of(&place.dataset());
    assert!(report.samples.recorded >= 100, "{} samples before the end", report.samples.recorded);
    assert!(report.run.exit.is_none(), "the end of the program was not seen: {:?}", report.run.exit);
    assert!(report.objects.iter().any(|o| o.kind == "heap" && o.samples > 0), "{:?}", report.objects);
}

/// `kill -9` of the program.
#[test]
fn the_program_is_killed() {
    is_complete_until(libc::SIGKILL, |_, program| program);
}

/// Ctrl-C: the terminal sends SIGINT to the recorder and the program alike.
#[test]
fn control_c() {
    is_complete_until(libc::SIGINT, |recorder, _| -recorder);
}

/// SIGTERM to the recorder alone, as a batch system sends it.
#[test]
fn the_recorder_is_told_to_end() {
    is_complete_until(libc::SIGTERM, |recorder, _| recorder);
}

/// Sends a signal to whom `target` chooses of the recorder and its program: both end, and the recording is complete until then.
#[track_caller]
fn is_complete_until(number: i32, target: fn(recorder: i32, program: i32) -> i32) {
    let place = Place::alone();
    let (running, program) = triad_that_runs(&place, "20");
    std::thread::sleep(Duration::from_millis(700));
    signal(target(running.pid(), program), number);
    running.wait().exits(128 + number);
    assert!(!alive(program), "the program goes on");

    let report = Report::of(&place.dataset());
    assert!(report.samples.recorded >= 100, "{} samples", report.samples.recorded);
    assert_eq!(report.run.exit, Some(128 + number));
    assert!(report.run.wall_s > 0.4 && report.run.wall_s < 10.0, "run.wall_s is {}", report.run.wall_s);
    assert!(report.attributed_share() > 0.9, "attributed share {}", report.attributed_share());
}

/// The triad while it is recorded, and its process.
fn triad_that_runs(place: &Place, seconds: &str) -> (Running, i32) {
    let triad = build::workload("triad").expect("the triad");
    let running = place.record().arg(triad).arg(seconds).env("OMP_NUM_THREADS", "2").start();
    let program = program_of(running.pid(), "triad");
    (running, program)
}

/// The process that runs `name` below the recorder.
fn program_of(recorder: i32, name: &str) -> i32 {
    let mut found = None;
    until(&format!("{name} to run"), Duration::from_secs(20), || {
        let is = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
        found = children(recorder).into_iter().find(is);
        found.is_some()
    });
    found.expect("until has seen it")
}
