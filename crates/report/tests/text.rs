//! Text reports, whole. `expected/` holds what they look like; `cargo run -p numamma-report --example sample` prints them.

mod common;

use numamma_findings::{
    Accesses, Controls, Findings, LineSharing, MissingTable, Overhead, Process, Remote, Run, Samples, Trace,
    TraceWindows,
};
use numamma_report::{Access, By, Options, Sort, render, warnings};
use unicode_width::UnicodeWidthStr;

fn text(findings: &Findings, options: &Options) -> String {
    let mut out = Vec::new();
    render(findings, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn by(by: By, width: usize) -> Options {
    Options { by, width, ..Options::default() }
}

/// Compares with a file of `expected`; where `NUMAMMA_UPDATE_EXPECTED` is set, the file becomes what there is.
#[track_caller]
fn expect(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("NUMAMMA_UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}: see it and set NUMAMMA_UPDATE_EXPECTED=1");
}

#[test]
fn objects_at_three_widths() {
    let findings = common::findings();
    expect("objects-80.txt", &text(&findings, &by(By::Object, 80)));
    expect("objects-100.txt", &text(&findings, &by(By::Object, 100)));
    expect("objects-160.txt", &text(&findings, &by(By::Object, 160)));
}

#[test]
fn nothing_is_remote_of_what_lies_nowhere() {
    let mut findings = common::findings();
    let shows = |findings: &Findings, end: &str| {
        let shown = text(findings, &by(By::Object, 100));
        let row = shown.lines().find(|line| line.contains("stack of T3")).unwrap_or_default();
        assert!(row.contains(end), "{row}");
    };
    shows(&findings, "0.0 % ±0.6");
    findings.objects[4].remote = Remote::default();
    shows(&findings, "  -  ");
    findings.objects[4].nodes = [(1, 2)].into();
    shows(&findings, "0.0 %");
}

#[test]
fn one_object() {
    let options = Options { object: Some("Grid".into()), ..by(By::Object, 100) };
    expect("object-100.txt", &text(&common::findings(), &options));
    let ascii = Options { unicode: false, width: 80, ..options };
    expect("object-80-ascii.txt", &text(&common::findings(), &ascii));
}

#[test]
fn other_tables() {
    let findings = common::findings();
    let tables = [By::Site, By::Thread, By::Line, By::Page, By::Node];
    let all: String = tables.map(|table| text(&findings, &Options { top: Some(5), ..by(table, 100) })).join("\n");
    expect("tables-100.txt", &all);
}

/// Names that nobody expects: wide, combining, with escapes, very long.
fn hostile() -> Findings {
    let mut findings = common::findings();
    let names = [
        "数据缓冲区_数据缓冲区_数据缓冲区_数据缓冲区",
        "gro\u{308}ße",
        "a\x1b[31mred\nline\u{202e}",
        &"x".repeat(300),
        "",
    ];
    for (object, name) in findings.objects.iter_mut().zip(names) {
        object.name = name.into();
    }
    findings.objects[4].threads =
        (0..2000).map(|n| numamma_findings::ThreadShare { thread: n, ..Default::default() }).collect();
    findings.run.command.push("z".repeat(400));
    findings.threads[0].name = "线程\t".into();
    findings
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for findings in [common::findings(), hostile()] {
        for table in [By::Object, By::Site, By::Thread, By::Line, By::Page, By::Node] {
            for width in [0, 60, 61, 72, 79, 80, 81, 99, 100, 101, 120, 137, 160, 200] {
                let report = text(&findings, &by(table, width));
                for line in report.lines() {
                    assert!(line.width() <= width.max(60), "--by {table} in {width} columns: {} {line}", line.width());
                    assert_eq!(line.trim_end(), line, "blanks at the end");
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
            }
        }
    }
}

#[test]
fn the_picture_fits_with_many_threads() {
    let mut findings = common::findings();
    let detail = findings.objects[0].detail.as_mut().unwrap();
    for (index, page) in detail.pages.iter_mut().enumerate() {
        page.cost_by_thread = (0..2000).filter(|n| n % 7 == index % 7).map(|n| (n, 1.0)).collect();
        page.first_touch_thread = Some(index * 3 % 2000);
        page.node = Some(index as i32 % 3);
    }
    for width in [60, 80, 100, 160] {
        let options = Options { object: Some("#0".into()), ..by(By::Object, width) };
        let report = text(&findings, &options);
        let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(" threads from the one named"), "{report}");
        assert_eq!(words.contains("a column is 63 threads"), width >= 100, "{report}");
        let wide = report.lines().find(|line| line.width() > width);
        assert_eq!(wide, None, "in {width} columns");
    }
}

#[test]
fn ascii_where_the_locale_is_not_utf8() {
    let mut findings = hostile();
    findings.losses[0].remedy = "größer".into();
    for table in [By::Object, By::Site, By::Thread, By::Line, By::Page, By::Node] {
        let report = text(&findings, &Options { unicode: false, ..by(table, 80) });
        assert!(report.is_ascii(), "{:?}", report.chars().find(|c| !c.is_ascii()));
    }
}

#[test]
fn colours_only_where_asked_and_without_width() {
    let plain = text(&common::findings(), &by(By::Object, 100));
    assert!(!plain.contains('\x1b'));
    let colored = text(&common::findings(), &Options { color: true, ..by(By::Object, 100) });
    let stripped: String =
        colored.split('\x1b').map(|part| part.split_once('m').map_or("", |(_, text)| text)).collect();
    assert_eq!(stripped, plain);
}

#[test]
fn nothing_was_sampled() {
    let report = text(&Findings::default(), &by(By::Object, 100));
    assert!(report.contains("No object was accessed in a sample."), "{report}");
    assert!(report.contains("Losses: none"));
    assert!(!report.contains("NaN") && !report.contains("inf"));
    let mut findings = Findings::default();
    findings.run.wall_s = 0.004;
    findings.run.exit = Some(0);
    findings.sampler.kind = "clock".into();
    findings.sampler.rate_hz = 1000.0;
    let report = text(&findings, &by(By::Object, 100));
    assert!(
        report.contains("no data access was sampled in 4.00 ms: raise --rate (now 1 000 Hz) or run longer"),
        "{report}"
    );
}

/// A higher rate brings nothing where the part of the run that was asked for is empty.
#[test]
fn an_empty_part_of_a_run_is_named() {
    let hint = |change: fn(&mut numamma_findings::Controls)| {
        let mut findings = Findings::default();
        findings.run.wall_s = 4.0;
        findings.sampler.rate_hz = 1000.0;
        change(&mut findings.sampler.controls);
        let report = text(&findings, &by(By::Object, 200));
        assert!(!report.contains("--rate"), "{report}");
        report
    };
    let has = |report: String, words: &[&str]| {
        let missing: Vec<_> = words.iter().filter(|word| !report.contains(**word)).collect();
        assert!(missing.is_empty(), "no {missing:?} in\n{report}");
    };
    has(hint(|controls| controls.after_s = 9.0), &["from 9.00 s on, of 4.00 s", "another --after"]);
    has(hint(|controls| controls.for_s = Some(0.5)), &["for 500 ms", "another --after and --for"]);
    has(hint(|controls| controls.functions = vec!["solve".into()]), &["inside solve", "that calls it"]);
    has(hint(|controls| controls.marked = true), &["--marked"]);
    let filtered = |controls: &mut numamma_findings::Controls| {
        (controls.objects, controls.left_out) = (vec!["grid".into()], 1200);
    };
    has(hint(filtered), &["at grid, 1 200 elsewhere", "without --object"]);
}

#[test]
fn numbers_that_are_none_do_not_show() {
    let mut findings = common::findings();
    findings.objects[0].cost.share = f64::NAN;
    findings.objects[0].cost.error = Some(f64::NAN);
    findings.objects[1].accesses.reads = f64::INFINITY;
    findings.objects[1].threads[0].cost_share = f64::NAN;
    for table in [By::Object, By::Site, By::Thread, By::Line] {
        let report = text(&findings, &by(table, 160));
        assert!(!report.contains("NaN") && !report.contains("inf "), "{report}");
    }
}

#[test]
fn one_object_of_one_thread_on_one_node() {
    let mut findings = common::findings();
    findings.objects = vec![common::object(0, "only", "static", 4096, 1.0, &[1.0])];
    findings.run.nodes = 1;
    let report = text(&findings, &by(By::Object, 100));
    assert!(report.contains("attributed to 1 object\n"), "{report}");
    let row = report.lines().find(|line| line.contains("only")).unwrap();
    assert!(row.contains("100.0 %") && !report.contains("Remote"), "{report}");
}

#[test]
fn the_rest_of_5000_objects_is_summed_up() {
    let mut findings = common::findings();
    findings.objects =
        (0..5000).map(|id| common::object(id, &format!("v{id}"), "static", 64, 0.0002, &[1.0])).collect();
    let report = text(&findings, &by(By::Object, 100));
    assert!(report.contains("… 4 980 objects more with 99.6 % of the cost (--top 0 shows all)"), "{report}");
    assert_eq!(text(&findings, &Options { top: Some(0), ..by(By::Object, 160) }).matches("static").count(), 5000);
}

#[test]
fn thousands_of_threads() {
    let mut findings = common::findings();
    findings.threads = (0..2000).map(common::thread).collect();
    findings.objects = vec![common::object(0, "shared", "heap", 1 << 20, 1.0, &[0.0005; 2000])];
    let report = text(&findings, &by(By::Object, 200));
    assert!(report.contains("2 000 (<1 ±1 % each)"), "{report}");
    let report = text(&findings, &by(By::Thread, 100));
    assert!(report.contains("… 1 980 threads more"), "{report}");
}

#[test]
fn reads_or_writes_alone() {
    let mut findings = common::findings();
    findings.objects[3].accesses.writes = 0.0;
    let options = Options { access: Access::Write, sort: Sort::Accesses, ..by(By::Object, 120) };
    assert!(!text(&findings, &options).contains("Writes"), "the error of an estimated number is not known");
    for object in &mut findings.objects {
        object.accesses = Accesses { error: Some(0.0), basis: None, ..object.accesses };
    }
    let report = text(&findings, &options);
    assert!(!report.contains("Reads") && report.contains("Writes"), "{report}");
    assert!(!report.contains(" ghost_cells  "), "an object without writes is not there: {report}");
    assert!(report.contains("Shown: writes only."));
}

#[test]
fn losses_are_always_named() {
    let report = text(&common::findings(), &by(By::Thread, 100));
    assert!(report.contains("1 204  ring full: the recorder could not keep up"));
}

#[test]
fn what_was_left_out_of_the_recording_is_said() {
    let mut findings = common::findings();
    findings.sampler.only = Some("write".into());
    findings.run.heap_tracked = false;
    findings.run.command = vec!["sh".into(), "-c".into(), "one\ntwo".into()];
    let report = text(&findings, &by(By::Object, 100));
    assert!(report.contains("1 000 Hz per thread · writes only · no allocations · overhead"), "{report}");
    assert!(report.starts_with("NumaMMA  sh -c $'one\\ntwo'\n"), "{report}");
    findings.samples.recorded = 1;
    findings.samples.without_access = 0;
    assert!(!report.contains("  kept "), "{report}");
    findings.sampler.controls = Controls {
        after_s: 2.0,
        for_s: Some(0.5),
        marked: true,
        functions: vec!["solve".into()],
        objects: vec!["grid".into()],
        ranges: vec!["0x1000-0x1fff".into()],
        left_out: 12_345,
        thinned: 4,
    };
    let report = text(&findings, &by(By::Object, 200));
    let kept = "from 2.00 s for 500 ms of the run · where the program says so · inside solve · \
                accesses to grid, 0x1000-0x1fff (12 345 samples left out) · thinned 4x";
    assert!(report.contains(kept), "{report}");
    assert!(text(&findings, &by(By::Object, 100)).contains("only 1 data sample,"));
}

#[test]
fn what_else_was_recorded_is_said() {
    let mut findings = common::findings();
    let said = |findings: &Findings| text(findings, &by(By::Object, 200));
    assert!(!said(&findings).contains("  windows ") && !said(&findings).contains("  trace "));
    let trace_windows =
        TraceWindows { taken: 1200, instructions: 5_880_000, stopped_s: 0.31, assumed: false, factor: Some(1.1) };
    findings.sampler.trace_windows = Some(trace_windows);
    let line = "  windows   1 200 of 4 900 instructions · threads stopped for 310 ms\n";
    assert!(said(&findings).contains(line), "{}", said(&findings));
    findings.sampler.trace_windows = Some(TraceWindows::default());
    assert!(said(&findings).contains("  windows   none, the program was too short or threads may not be traced\n"));
    let trace = Trace { most: 1000, accesses: 998, used_up: false, after_s: 0.0, for_s: None };
    findings.sampler.trace = Some(trace);
    assert!(said(&findings).contains("  trace     998 accesses one by one, in trace.parquet · from the start\n"));
    findings.sampler.trace = Some(Trace { accesses: 1000, used_up: true, after_s: 2.0, for_s: Some(0.5), ..trace });
    assert!(said(&findings).contains("trace.parquet · from 2.00 s · for 500 ms · as many as were wanted\n"));
}

#[test]
fn hints_follow_from_the_findings() {
    let mut findings = common::findings();
    let say = |findings: &Findings| warnings(findings).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let classic = say(&findings);
    assert!(
        classic.contains("coefficients (18.7 % of the cost): T0 touches its pages first (initialise main.cpp:88)"),
        "{classic}"
    );
    findings.objects[1].cost.share = 0.04;
    assert!(!say(&findings).contains("coefficients"), "it costs little");
    findings.objects[1].cost.share = 0.187;

    findings.samples.recorded = 300;
    findings.samples.without_access = 0;
    findings.samples.attributed = 200;
    findings.objects[0].cost.error = Some(0.006);
    assert!(!say(&findings).contains("--rate"), "shares are good to half a point");
    findings.objects[0].cost.error = Some(0.08);
    let few = say(&findings);
    assert!(few.starts_with("only 300 data samples"), "{few}");
    assert!(few.contains("raise --rate (now 1 000 Hz)"), "{few}");
    assert!(
        few.contains("only 66.7 % of the data accesses belong to a known object; main reason: kernel address"),
        "{few}"
    );
    findings.sampler.kind = "import".into();
    assert!(!say(&findings).contains("--rate"), "a file cannot be sampled more often");

    let helper = Process { pid: 9, parent: 1, command: "/bin/busybox".into(), tracked: false, samples: 30 };
    findings.processes.push(helper);
    assert!(say(&findings).contains("heap objects of /bin/busybox are unknown (10.0 % of the samples)"));
    assert!(say(&findings).contains("the recording library was not loaded there"));

    findings.run.heap_tracked = false;
    assert!(!say(&findings).contains("library"), "it was not to be loaded");
    findings.objects.push(common::object(9, "[heap]", "mmap", 1 << 20, 0.25, &[1.0]));
    findings.objects.last_mut().unwrap().site = None;
    let off = say(&findings);
    assert!(off.contains("[heap] stands for all objects of the heap (25.0 % of the cost)"), "{off}");
    assert!(off.contains("record without --no-heap"), "{off}");
}

#[test]
fn the_cost_of_recording_is_said_by_part() {
    let mut findings = common::findings();
    findings.sampler.overhead =
        Some(Overhead { thread_s: 10.0, ticks_s: 0.2, held_s: 0.0, hooks_s: 0.05, recorder_s: 0.12 });
    findings.sampler.overhead_estimate = 0.025;
    let said = text(&findings, &by(By::Object, 160));
    assert!(said.contains("overhead about 2.5 % (ticks 2.0 %, hooks 0.5 %; recorder 120 ms of CPU)"), "{said}");
}

#[test]
fn hooks_that_take_most_of_the_time_have_a_remedy_of_their_own() {
    let mut findings = common::findings();
    findings.sampler.overhead =
        Some(Overhead { thread_s: 10.0, ticks_s: 0.2, held_s: 0.0, hooks_s: 4.0, recorder_s: 0.12 });
    findings.sampler.overhead_estimate = 0.42;
    findings.samples.unattributed.insert("recorder".into(), 900);
    findings.samples.without_access += 900;
    let report = text(&findings, &by(By::Object, 400));
    assert!(
        report.contains(" allocations took 40.0 % of the threads' time: record without it (--no-heap)"),
        "{report}"
    );
    assert!(!report.contains("--rate or"), "{report}");
    assert!(report.contains("909 samples (1.9 %) at no data access, 900 samples (1.9 %) in the recorder's own code"));
    findings.run.heap_tracked = false;
    assert!(!text(&findings, &by(By::Object, 400)).contains("--no-heap)"), "{report}");
}

#[test]
fn what_a_missing_table_would_tell_is_not_zero() {
    let mut findings = common::findings();
    findings.missing = vec![MissingTable { table: "samples".into(), unknown: "costs and accesses".into() }];
    let report = text(&findings, &by(By::Object, 200));
    assert!(!report.contains("Cost") && !report.contains("Time"), "{report}");
    assert!(report.contains("so costs and accesses cannot be shown"), "{report}");
}

#[test]
fn a_recording_that_was_cut_is_not_told_to_sample_more_often() {
    let mut findings = common::findings();
    findings.run = Run { exit: None, wall_s: 0.0, threads: 0, ..findings.run };
    findings.samples = Samples { recorded: 0, attributed: 0, ..Samples::default() };
    let report = text(&findings, &by(By::Object, 200));
    assert!(report.contains("the recorder was killed before it had written samples"), "{report}");
    assert!(!report.contains("raise --rate") && !report.contains("0 threads"), "{report}");
}

#[test]
fn false_sharing_is_a_hint() {
    let mut findings = common::findings();
    let text_of = "false sharing: 4 threads each write their own bytes of one cache line (64 B); pad each to 64 bytes";
    findings.objects[3].line_sharing =
        Some(LineSharing { cost_share: 0.06, text: text_of.into(), ..Default::default() });
    let report = text(&findings, &by(By::Object, 200));
    assert!(report.contains(&format!("ghost_cells (6.0 % of the cost): {text_of}")), "{report}");
}

#[test]
fn the_matrix_shows_what_the_threads_of_the_object_are_said_to_have() {
    let mut findings = common::findings();
    let pages = &mut findings.objects[0].detail.as_mut().expect("its pages").pages;
    for page in pages.iter_mut() {
        page.cost_by_thread = [(3, 0.001)].into();
    }
    let options = Options { object: Some("#0".into()), ..by(By::Object, 100) };
    let report = text(&findings, &options);
    assert!(report.contains("Cost by page and thread") && report.contains("T3 100 %"), "{report}");
    assert!(!report.contains(" accesses)"), "{report}");
}
