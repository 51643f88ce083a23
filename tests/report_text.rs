//! Text and CSV reports: what a user must find in them, not how they are laid out.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use numamma_tests::run::Outcome;
use numamma_tests::truth::line_of;
use numamma_tests::{Run, recording, turns};

fn recorded() -> &'static Path {
    static RECORDING: OnceLock<PathBuf> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let _turn = turns::alone();
        recording::of_triad("report_text", "1.0")
    })
}

fn report(args: &[&str]) -> Outcome {
    Run::report(recorded()).args(args).run().success()
}

/// `triad.c:LINE` of the three arrays.
fn sites() -> [String; 3] {
    ["a", "b", "c"].map(|mark| {
        let (file, line) = line_of(&format!("triad.c#{mark}"), "site");
        format!("{file}:{line}")
    })
}

#[track_caller]
fn mentions(outcome: &Outcome, words: &[&str]) {
    let text = outcome.out();
    for word in words {
        assert!(text.contains(word), "no {word:?} in {outcome}");
    }
}

#[test]
fn objects() {
    let outcome = report(&[]);
    mentions(&outcome, &sites().each_ref().map(String::as_str));
    mentions(&outcome, &["triad", "heap", "16"]);
    assert!(outcome.stderr.is_empty(), "{outcome}");
    // Nothing for a terminal only: this one was no terminal.
    assert!(!outcome.out().contains('\x1b') && !outcome.out().contains('\r'), "{outcome}");
    assert!(outcome.out().lines().all(|l| l == l.trim_end()), "trailing blanks: {outcome}");
}

/// What share was attributed, and why the rest was not, stands on the report.
#[test]
fn coverage_is_stated() {
    let text = report(&[]).out().to_lowercase();
    assert!(text.contains("attributed") && text.contains('%'), "{text}");
}

#[test]
fn every_grouping() {
    for by in ["object", "site", "thread", "page", "node", "line"] {
        let outcome = report(&["--by", by]);
        assert!(outcome.out().lines().count() >= 2, "--by {by}: {outcome}");
    }
    mentions(&report(&["--by", "site"]), &sites().each_ref().map(String::as_str));
    mentions(&report(&["--by", "line"]), &["triad.c:", "main"]);
}

#[test]
fn sorting_and_limits() {
    for sort in ["cost", "accesses", "remote"] {
        report(&["--sort", sort]);
    }
    let one = report(&["--top", "1"]);
    let named = sites().iter().filter(|site| one.out().contains(site.as_str())).count();
    assert_eq!(named, 1, "--top 1: {one}");
}

/// `a` is only written, `b` and `c` are only read (but for their initialisation).
#[test]
fn reads_and_writes_apart() {
    let first_of = |access: &str| {
        let outcome = report(&["--access", access, "--sort", "accesses", "--top", "1"]);
        let named = sites().iter().position(|site| outcome.out().contains(site.as_str()));
        named.unwrap_or_else(|| panic!("--access {access}: {outcome}"))
    };
    assert_eq!(first_of("write"), 0);
    assert_ne!(first_of("read"), 0);
    assert!(report(&["--access", "all"]).out() == report(&[]).out(), "`all` is the default");
}

#[test]
fn one_object() {
    let [a, ..] = sites();
    let outcome = report(&["--object", &format!("main {a}")]);
    // The matrix names both threads; the first touch names its line.
    let (file, line) = line_of("triad.c#a", "touch");
    mentions(&outcome, &[&a, &format!("{file}:{line}"), "0", "1"]);
    assert!(outcome.out().lines().count() > 8, "{outcome}");
}

/// Each row has as many fields as the head, and the costs are numbers.
#[test]
fn csv() {
    for by in ["object", "site", "thread", "page", "line"] {
        let outcome = report(&["--format", "csv", "--by", by]);
        let rows: Vec<_> = outcome.out().lines().map(fields).collect();
        assert!(rows.len() >= 2, "--by {by}: {outcome}");
        let head = &rows[0];
        assert!(rows.iter().all(|row| row.len() == head.len()), "--by {by}: {outcome}");
        assert!(head.iter().all(|name| !name.is_empty() && name.parse::<f64>().is_err()), "--by {by}: {head:?}");
    }
    let outcome = report(&["--format", "csv"]);
    let rows: Vec<_> = outcome.out().lines().map(fields).collect();
    let column = |name: &str| rows[0].iter().position(|head| head == name).expect("a column");
    let (name, line) = (column("name"), column("line"));
    for (variable, site) in ["a", "b", "c"].iter().zip(sites()) {
        let row =
            rows.iter().find(|row| row[name] == *variable).unwrap_or_else(|| panic!("no {variable} in {outcome}"));
        assert!(site.ends_with(&format!(":{}", row[line])), "{variable}: {row:?}");
    }
}

/// The fields of a CSV line (RFC 4180, no line breaks in fields).
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("one at least").push(c),
        }
    }
    assert!(!quoted, "an open quote in {line}");
    fields
}

/// `report | head` ends quietly.
#[test]
fn a_reader_that_goes_away() {
    let numamma = numamma_tests::build::numamma().display();
    let line = format!("'{numamma}' report '{}' --by page --top 100000 | head -n 1", recorded().display());
    let outcome = Run::new("sh").args(["-c", &line]).run().success();
    assert!(outcome.stderr.is_empty(), "{outcome}");
}

#[test]
fn help_is_there() {
    let outcome = Run::numamma().arg("--help").run().success();
    mentions(&outcome, &["record", "report", "compare", "doctor", "html"]);
    for command in ["record", "report", "compare", "html", "doctor"] {
        mentions(&Run::numamma().args([command, "--help"]).run().success(), &["Usage", command]);
    }
    mentions(&Run::numamma().arg("--version").run().success(), &["numamma", env!("CARGO_PKG_VERSION")]);
}
