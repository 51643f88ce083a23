//! The stable core of the JSON report: every field that is promised, with its type and its range. Scripts rely on it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use numamma_tests::{Run, recording, turns};
use serde_json::Value;

fn recorded() -> &'static Path {
    static RECORDING: OnceLock<PathBuf> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let _turn = turns::alone();
        recording::of_triad("json_contract", "1.0")
    })
}

fn json(args: &[&str]) -> Value {
    let run = Run::report(recorded()).args(["--format", "json"]).args(args).run().success();
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run}"))
}

/// What a field must be.
#[derive(Clone, Copy, Debug)]
enum Is {
    Count,
    Number,
    Share,
    Error,
    Text,
    List,
    Map,
}

#[track_caller]
fn has(value: &Value, fields: &[(&str, Is)]) {
    for (path, is) in fields {
        let field =
            path.split('.').fold(value, |v, name| v.get(name).unwrap_or_else(|| panic!("no field {path} in {value}")));
        let fits = match is {
            Is::Count => field.as_u64().is_some(),
            Is::Number => field.as_f64().is_some_and(f64::is_finite),
            Is::Share => field.as_f64().is_some_and(|f| (-1e-9..=1.0 + 1e-9).contains(&f)),
            Is::Error => field.is_null() || field.as_f64().is_some_and(|f| f >= 0.0),
            Is::Text => field.is_string(),
            Is::List => field.is_array(),
            Is::Map => field.is_object(),
        };
        assert!(fits, "{path} should be {is:?}: {field}");
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("{name} is a list: {value}"))
}

#[test]
fn head() {
    let report = json(&[]);
    assert_eq!(report["version"], 1);
    has(
        &report,
        &[("run.command", Is::List), ("run.wall_s", Is::Number), ("run.threads", Is::Count), ("run.exit", Is::Count)],
    );
    assert!(list(&report["run"], "command")[0].as_str().unwrap().ends_with("triad"));
    assert_eq!(report["run"]["threads"], 2);
    assert_eq!(report["run"]["exit"], 0);
    let wall = report["run"]["wall_s"].as_f64().unwrap();
    assert!((0.8..20.0).contains(&wall), "run.wall_s is {wall}");

    has(&report, &[("sampler.kind", Is::Text), ("sampler.rate_hz", Is::Number), ("sampler.period", Is::Count)]);
    has(&report, &[("sampler.overhead_estimate", Is::Share)]);
    let overhead = ["thread_s", "ticks_s", "held_s", "hooks_s", "recorder_s"];
    overhead.iter().for_each(|part| has(&report, &[(&format!("sampler.overhead.{part}"), Is::Number)]));
    let part = |name: &str| report["sampler"]["overhead"][name].as_f64().expect("a number");
    // Two threads: the clock has counted what they ran for, and each sample has cost something.
    assert!((0.2 * wall..2.5 * wall).contains(&part("thread_s")), "{}", report["sampler"]);
    assert!(part("ticks_s") > 0.0 && part("held_s") == 0.0 && part("recorder_s") > 0.0, "{}", report["sampler"]);
    let total = (part("ticks_s") + part("held_s") + part("hooks_s")) / part("thread_s");
    assert!((total - report["sampler"]["overhead_estimate"].as_f64().expect("a share")).abs() < 1e-6);
    assert!(["clock", "pebs", "ibs", "spe", "exact", "import"].contains(&report["sampler"]["kind"].as_str().unwrap()));

    has(
        &report,
        &[("samples.recorded", Is::Count), ("samples.attributed", Is::Count), ("samples.unattributed", Is::Map)],
    );
    let samples = &report["samples"];
    let unattributed: u64 =
        samples["unattributed"].as_object().unwrap().values().map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(samples["recorded"].as_u64().unwrap(), samples["attributed"].as_u64().unwrap() + unattributed);
    has(&report, &[("losses", Is::List)]);
    for loss in list(&report, "losses") {
        has(loss, &[("kind", Is::Text), ("count", Is::Count), ("remedy", Is::Text)]);
    }
}

#[test]
fn objects() {
    let report = json(&[]);
    let objects = list(&report, "objects");
    assert!(objects.len() >= 3, "{} objects", objects.len());
    let (mut cost, mut accesses, mut previous, mut all_stated) = (0.0, 0.0, f64::INFINITY, true);
    for object in objects {
        has(object, &[("id", Is::Count), ("name", Is::Text), ("kind", Is::Text), ("instances", Is::Count)]);
        has(object, &[("bytes", Is::Count), ("pages", Is::Count), ("samples", Is::Count)]);
        has(object, &[("cost.seconds", Is::Number), ("cost.share", Is::Share), ("cost.error", Is::Error)]);
        // A share has its error, or is not stated. Of estimated numbers the error is not known.
        let of = &object["accesses"];
        assert!(of["reads"].is_null() && of["writes"].is_null(), "{object}");
        assert_eq!(of["share"].is_number(), of["error"].is_number(), "{object}");
        if of["share"].is_number() {
            has(object, &[("accesses.share", Is::Share), ("accesses.error", Is::Error)]);
        }
        all_stated &= of["share"].is_number() || object["cost"]["share"].as_f64() < Some(0.01);
        has(object, &[("remote.reads", Is::Number), ("remote.writes", Is::Number), ("remote.share", Is::Share)]);
        has(object, &[("threads", Is::List), ("first_touch", Is::List)]);
        has(
            object,
            &[("pattern.kind", Is::Text), ("pattern.block_bytes", Is::Count), ("pattern.period_bytes", Is::Count)],
        );
        has(object, &[("pattern.confidence", Is::Share)]);
        let kind = object["kind"].as_str().unwrap();
        assert!(["heap", "static", "mmap", "stack", "tls", "annotated"].contains(&kind), "kind {kind}");
        assert!(kind != "heap" || object["site"].is_object(), "a heap object has a site: {object}");
        if object["site"].is_object() {
            has(
                &object["site"],
                &[("function", Is::Text), ("file", Is::Text), ("line", Is::Count), ("stack", Is::List)],
            );
            assert!(list(&object["site"], "stack").iter().all(Value::is_string));
        }
        let share_sum = |name: &str| {
            let shares = list(object, "threads").iter().map(|t| t[name].as_f64().expect("a share"));
            shares.sum::<f64>()
        };
        for thread in list(object, "threads") {
            has(thread, &[("thread", Is::Count), ("cost_share", Is::Share)]);
            // Of estimates no error is known by thread, so none is stated.
            let is_counted = thread["access_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share));
            assert!(is_counted || thread["access_share"].is_null(), "{thread}");
        }
        if object["samples"].as_u64() > Some(0) {
            assert!((share_sum("cost_share") - 1.0).abs() < 0.01, "threads' shares of cost make 1: {object}");
        }
        for touch in list(object, "first_touch") {
            has(touch, &[("thread", Is::Count), ("function", Is::Text), ("file", Is::Text)]);
            has(touch, &[("line", Is::Count), ("pages", Is::Count)]);
        }
        let share = object["cost"]["share"].as_f64().unwrap();
        assert!(share <= previous + 1e-12, "highest cost first");
        previous = share;
        cost += share;
        accesses += object["accesses"]["share"].as_f64().unwrap_or(0.0);
    }
    assert!(cost <= 1.0 + 1e-6 && cost > 0.9, "shares of cost make {cost}");
    assert!(accesses <= 1.0 + 1e-6 && (accesses > 0.9 || !all_stated), "shares of accesses make {accesses}");
    let ids: std::collections::BTreeSet<_> = objects.iter().map(|o| o["id"].as_u64()).collect();
    assert_eq!(ids.len(), objects.len(), "ids are unique");
}

/// The triad's three arrays live from its begin to its end, and are released there.
#[test]
fn sites_add_up() {
    let report = json(&["--by", "site"]);
    let wall = report["run"]["wall_s"].as_f64().unwrap();
    for name in ["a", "b", "c"] {
        let site = list(&report, "sites").iter().find(|site| site["variable"] == name);
        let site = site.unwrap_or_else(|| panic!("no site of {name}: {report}"));
        has(
            site,
            &[
                ("kind", Is::Text),
                ("site.function", Is::Text),
                ("site.via", Is::Text),
                ("site.stack", Is::List),
                ("lifetime.min_s", Is::Number),
                ("lifetime.mean_s", Is::Number),
                ("lifetime.max_s", Is::Number),
                ("nodes", Is::Map),
            ],
        );
        assert_eq!((site["count"].as_u64(), site["freed"].as_u64()), (Some(1), Some(1)), "{site}");
        assert_eq!((site["bytes"].as_u64(), site["peak_bytes"].as_u64()), (Some(16 << 20), Some(16 << 20)), "{site}");
        let lived = site["lifetime"]["mean_s"].as_f64().unwrap();
        let object = &list(&report, "objects")[site["object"].as_u64().unwrap() as usize];
        // Its threads cannot have used it for longer than it was there.
        let used = object["cost"]["seconds"].as_f64().unwrap() / report["run"]["threads"].as_f64().unwrap();
        assert!(
            used > 0.0 && lived > used && lived <= wall,
            "lived {lived} s of {wall} s, used for {used} s by each thread"
        );
        assert_eq!(site["lifetime"]["min_s"], site["lifetime"]["max_s"], "there was one: {site}");
        assert_eq!(object["name"], name);
        assert_eq!(object["nodes"], site["nodes"]);
    }
}

/// Enough samples give an error of the cost, and a small one.
#[test]
fn errors_are_stated() {
    let report = json(&[]);
    for object in list(&report, "objects").iter().filter(|o| o["samples"].as_u64() > Some(200)) {
        let error = object["cost"]["error"].as_f64();
        assert!(error.is_some_and(|e| e > 0.0 && e < 0.1), "cost.error of {}: {error:?}", object["name"]);
    }
}

#[test]
fn page_table_of_an_object() {
    let report = json(&[]);
    let name = list(&report, "objects")[0]["name"].as_str().unwrap().to_owned();
    let report = json(&["--object", &name]);
    let object = list(&report, "objects").iter().find(|o| o["name"] == name.as_str()).expect("the object itself");
    has(object, &[("page_bytes", Is::Count), ("page_table", Is::List)]);
    assert_eq!(object["page_bytes"], 4096);
    let table = list(object, "page_table");
    assert!(table.len() > 500, "{} pages", table.len());
    let mut previous = None;
    let mut samples = 0;
    for page in table {
        has(page, &[("page", Is::Count), ("samples", Is::Count), ("by_thread", Is::Map)]);
        for (name, may_be) in
            [("node", "null or a number"), ("owner", "null or a thread"), ("first_touch_thread", "null or a thread")]
        {
            let field = page.get(name).unwrap_or_else(|| panic!("no field {name} in {page}"));
            assert!(field.is_null() || field.is_i64(), "{name} should be {may_be}: {page}");
        }
        let by_thread = page["by_thread"].as_object().unwrap();
        assert!(by_thread.iter().all(|(t, n)| t.parse::<usize>().is_ok() && n.is_number()), "{page}");
        if page["samples"].as_u64() > Some(0) {
            // `owner` is the thread with most accesses.
            let most = by_thread.values().filter_map(Value::as_f64).fold(0.0, f64::max);
            let owners = by_thread[&page["owner"].as_u64().expect("an owner").to_string()].as_f64().unwrap();
            assert!(owners >= most - 1e-9, "{page}");
        }
        let number = page["page"].as_u64();
        assert!(number > previous, "pages ascend: {page}");
        previous = number;
        samples += page["samples"].as_u64().unwrap();
    }
    assert_eq!(Some(samples), object["samples"].as_u64(), "the pages' samples are the object's");
    assert!(table.iter().any(|p| p["node"].is_i64()), "no page's node is known");
}

/// A page table costs time and room: only who asks gets one.
#[test]
fn no_page_table_unless_asked_for() {
    let report = json(&[]);
    assert!(list(&report, "objects").iter().all(|o| o.get("page_table").is_none_or(Value::is_null)));
}

/// The same dataset gives the same bytes: reports can be compared and kept.
#[test]
fn reports_are_reproducible() {
    let run = || Run::report(recorded()).args(["--format", "json"]).run().success().stdout;
    assert!(run() == run());
}
