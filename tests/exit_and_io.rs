//! A recorded program reads, writes and ends as it does by itself; the recorder's own failures have their own statuses.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use numamma_tests::run::{OWN_FAILURE, signal};
use numamma_tests::{Place, Run, build};

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

#[test]
fn bytes_pass_through() {
    let place = Place::together();
    // All byte values, newlines or none at the end: nothing may be translated or buffered away.
    let input: Vec<u8> = (0..1_000_003u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
    let script = "cat; printf 'to stderr \\001\\377 without newline' >&2; exit 5";
    let native = Run::new("sh").args(["-c", script]).stdin(input.clone()).run().exits(5);
    let recorded = place.record().args(["sh", "-c", script]).stdin(input).run().exits(5);
    assert!(recorded.stdout == native.stdout, "standard output differs: {} bytes", recorded.stdout.len());
    assert!(contains(&recorded.stderr, &native.stderr), "standard error of the program is not passed on: {recorded}");
}

#[test]
fn nothing_but_the_programs_own_goes_to_standard_output() {
    let place = Place::together();
    let recorded = place.record().arg("true").run().success();
    assert!(recorded.stdout.is_empty(), "{recorded}");
}

/// A batch job learns where its recording is and what is missing, and whoever wants nothing said gets that.
#[test]
fn one_line_at_the_end() {
    let place = Place::together();
    let dataset = place.path("my run.numamma");
    let record = |more: &[&str]| {
        let record = Run::numamma().args(["record", "--force"]).args(more).arg("-o").arg(&dataset);
        record.args(["--", "sh", "-c", "echo own >&2"]).run().success()
    };
    let said = record(&[]);
    let (own, last) = said.err().split_once('\n').map(|(own, rest)| (own.to_owned(), rest.to_owned())).unwrap();
    assert_eq!(own, "own", "{said}");
    assert!(last.lines().count() == 1 && last.starts_with("numamma: ") && last.contains(" samples in "), "{said}");
    assert!(last.contains("lost"), "what is missing is not said: {said}");
    // As a shell takes it.
    assert!(last.contains(&format!("`numamma report '{}'`", dataset.display())), "{said}");
    assert_eq!(record(&["--quiet"]).err(), "own\n");
}

/// Arguments are passed as they are, also those that look like the recorder's own.
#[test]
fn arguments_pass_through() {
    let place = Place::together();
    let args = ["--rate", "", "a b", "*", "--", "-o", "ü\u{1f600}"];
    let recorded = place.record().args(["printf", "<%s>"]).args(args).run().success();
    assert_eq!(recorded.out(), "<--rate><><a b><*><--><-o><ü\u{1f600}>");
    // Without `--`: the first word that is no option begins the command.
    let dataset = place.path("other.numamma");
    let recorded = Run::numamma().args(["record", "-o"]).arg(dataset).args(["printf", "%s", "-n"]).run().success();
    assert_eq!(recorded.out(), "-n");
}

/// Exit statuses, among them those that the recorder uses itself.
#[test]
fn exit_statuses_are_passed_on() {
    let place = Place::together();
    for status in [0, 1, 2, 3, 42, 77, 99, 124, 125, 126, 127, 128, 129, 137, 200, 254, 255] {
        let dataset = place.path(&format!("{status}.numamma"));
        Run::record(&dataset).args(["sh", "-c", &format!("exit {status}")]).run().exits(status);
    }
}

#[test]
fn deaths_by_signal_are_passed_on() {
    let place = Place::together();
    for number in [1, 2, 3, 6, 9, 10, 11, 13, 15] {
        let dataset = place.path(&format!("{number}.numamma"));
        Run::record(&dataset).args(["sh", "-c", &format!("kill -{number} $$")]).run().exits(128 + number);
    }
}

/// A reader that goes away ends a program; the recorder must not have told it to ignore that.
#[test]
fn a_closed_pipe_ends_the_program() {
    let place = Place::together();
    let line = format!(
        "'{}' record -o '{}' -- yes | head -n 1; echo ${{PIPESTATUS[0]}}",
        build::numamma().display(),
        place.dataset().display()
    );
    let run = Run::new("bash").args(["-c", &line]).limit(20).run().success();
    assert_eq!(run.out(), "y\n141\n", "{run}");
}

/// Signal mask, ignored signals, open files, working folder, umask, limits: the program's surroundings.
#[test]
fn surroundings_are_the_same() {
    let place = Place::together();
    let script = "grep -E '^(Sig(Blk|Ign|Cgt)|Umask|NoNewPrivs|Seccomp|Cpus_allowed_list)' /proc/self/status; pwd; umask; ulimit -a; \
                  for fd in /proc/self/fd/*; do echo ${fd##*/}; done; nice; ps -o stat= -p $$ | cut -c1";
    let native = Run::new("bash").args(["-c", script]).dir(place.dir()).run().success();
    let recorded = place.record().args(["bash", "-c", script]).dir(place.dir()).run().success();
    assert_eq!(recorded.out(), native.out());
}

/// The environment differs only in what loads the library, and what lets a sanitizer put up with it.
#[test]
fn environment_is_the_same_but_for_the_library() {
    let place = Place::together();
    let environment = |run: Run| run.arg("-0").env("SOME", "thing").run().success().stdout;
    let split = |bytes: Vec<u8>| bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
    let native = split(environment(Run::new("env")));
    let recorded = split(environment(place.record().arg("env")));
    // Names only in messages: values are nobody's business.
    let names = |these: Vec<&Vec<u8>>| {
        let name = |entry: &Vec<u8>| {
            String::from_utf8_lossy(entry.split(|b| *b == b'=').next().unwrap_or_default()).into_owned()
        };
        these.into_iter().map(name).collect::<Vec<_>>()
    };
    let lost = names(native.difference(&recorded).collect());
    assert!(lost.is_empty(), "lost or changed: {lost:?}");
    let added = names(recorded.difference(&native).collect());
    let ours = |name: &String| ["LD_PRELOAD", "ASAN_OPTIONS"].contains(&name.as_str()) || name.starts_with("NUMAMMA_");
    let strange: Vec<_> = added.iter().filter(|name| !ours(name)).collect();
    assert!(strange.is_empty(), "added: {strange:?}");
}

/// A preload of the user's own stays in force.
#[test]
fn the_users_own_preload_stays() {
    let place = Place::together();
    let libc = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = libc.lines().filter_map(|l| l.split_whitespace().nth(5)).find(|p| p.contains("libm.so"));
    let Some(library) = libc else { return };
    let recorded = place.record().args(["sh", "-c", "echo $LD_PRELOAD"]).env("LD_PRELOAD", library).run().success();
    assert!(recorded.out().contains(library), "{recorded}");
}

#[test]
fn a_program_that_handles_sigint_goes_on() {
    let place = Place::together();
    let script =
        "trap 'echo caught; exit 3' INT; echo ready; i=0; while [ $i -lt 400 ]; do sleep 0.05; i=$((i+1)); done";
    let running = place.record().args(["sh", "-c", script]).limit(30).start();
    running.wait_for_output("ready");
    signal(-running.pid(), libc::SIGINT);
    let outcome = running.wait().exits(3);
    assert_eq!(outcome.out(), "ready\ncaught\n", "{outcome}");
    Run::report(&place.dataset()).run().success();
}

#[test]
fn a_command_that_is_not_found() {
    let place = Place::together();
    for command in ["no-such-command-here", "./no-such-command-here", "/no/such/folder/command"] {
        let outcome = place.record().arg(command).run().exits(127);
        outcome.fails_clearly(&[command]);
    }
    assert!(!place.dataset().exists(), "a dataset of a program that never ran");
}

#[test]
fn a_command_that_cannot_be_run() {
    let place = Place::together();
    let file = place.path("data");
    fs::write(&file, "no program\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for command in [file.as_path(), place.dir()] {
        let outcome = place.record().arg(command).run().exits(126);
        outcome.fails_clearly(&[command.to_str().unwrap()]);
    }
}

/// Without `-o`: `./NAME.numamma`, numbered when taken.
#[test]
fn a_dataset_is_named_after_the_program() {
    let place = Place::together();
    let dir = place.dir();
    let datasets = || {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for runs in 1..=3 {
        Run::numamma().args(["record", "/bin/true"]).dir(dir).run().success();
        assert_eq!(datasets().len(), runs, "{:?}", datasets());
    }
    assert!(datasets().contains(&"true.numamma".to_owned()), "{:?}", datasets());
    for name in datasets() {
        assert!(name.starts_with("true") && name.contains("numamma"), "{name}");
        Run::report(&dir.join(name)).run().success();
    }
}

#[test]
fn a_dataset_is_never_overwritten_without_force() {
    let place = Place::together();
    place.record().args(["sh", "-c", "exit 3"]).run().exits(3);
    let before = fs::read(place.dataset().join("meta.json")).unwrap();
    let outcome = place.record().args(["echo", "ran"]).run().exits(OWN_FAILURE);
    outcome.fails_clearly(&["--force"]);
    assert!(outcome.stdout.is_empty(), "the program must not run for nothing: {outcome}");
    assert_eq!(fs::read(place.dataset().join("meta.json")).unwrap(), before);

    let forced =
        Run::numamma().args(["record", "--force", "-o"]).arg(place.dataset()).args(["--", "true"]).run().success();
    assert_ne!(fs::read(place.dataset().join("meta.json")).unwrap(), before, "{forced}");
    let report = Run::report(&place.dataset()).args(["--format", "json"]).run().success().out();
    assert!(report.contains("\"true\""), "the new recording is there: {report}");
}

/// `--force` replaces a dataset, not whatever else a mistyped path names.
#[test]
fn force_does_not_remove_what_is_no_dataset() {
    let place = Place::together();
    let precious = place.path("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("thesis.tex"), "years of work").unwrap();
    let record =
        |target: &Path| Run::numamma().args(["record", "--force", "-o"]).arg(target).args(["--", "true"]).run();
    record(&precious);
    assert_eq!(fs::read_to_string(precious.join("thesis.tex")).unwrap(), "years of work");
    let file = precious.join("thesis.tex");
    record(&file).exits(OWN_FAILURE);
    assert_eq!(fs::read_to_string(file).unwrap(), "years of work");
}
