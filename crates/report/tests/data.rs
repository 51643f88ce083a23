//! JSON and CSV: what scripts rely on.

mod common;

use numamma_findings::{Accesses, Findings};
use numamma_report::{Access, By, Format, Options, Sort, render};
use serde_json::Value;

fn written(findings: &Findings, options: &Options) -> String {
    let mut out = Vec::new();
    render(findings, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json(findings: &Findings, options: Options) -> Value {
    serde_json::from_str(&written(findings, &Options { format: Format::Json, ..options })).unwrap()
}

fn csv(findings: &Findings, options: Options) -> Vec<Vec<String>> {
    let text = written(findings, &Options { format: Format::Csv, ..options });
    text.lines().map(split).collect()
}

/// The fields of a line without quoted line ends.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// Every path of the stable core, as a JSON pointer.
const CORE: &str = "/version /run/command /run/wall_s /run/threads /run/exit /sampler/kind /sampler/rate_hz /sampler/period \
    /sampler/overhead_estimate /samples/recorded /samples/attributed /samples/unattributed/kernel_address \
    /losses/0/kind /losses/0/count /losses/0/remedy /objects/0/id /objects/0/name /objects/0/kind \
    /objects/0/site/function /objects/0/site/file /objects/0/site/line /objects/0/site/stack/0 /objects/0/instances \
    /objects/0/bytes /objects/0/pages /objects/0/samples /objects/0/cost/seconds /objects/0/cost/share \
    /objects/0/cost/error /objects/0/accesses/reads /objects/0/accesses/writes /objects/0/accesses/share \
    /objects/0/accesses/error /objects/0/remote/reads /objects/0/remote/writes /objects/0/remote/share \
    /objects/0/threads/0/thread /objects/0/threads/0/cost_share /objects/0/threads/0/access_share \
    /objects/0/first_touch/0/thread /objects/0/first_touch/0/function /objects/0/first_touch/0/file \
    /objects/0/first_touch/0/line /objects/0/first_touch/0/pages /objects/0/pattern/kind \
    /objects/0/pattern/block_bytes /objects/0/pattern/period_bytes /objects/0/pattern/confidence";

#[test]
fn the_stable_core_is_there() {
    let mut findings = common::findings();
    findings.objects[0].accesses = Accesses { error: Some(0.0), basis: None, ..findings.objects[0].accesses };
    let report = json(&findings, Options::default());
    for path in CORE.split_whitespace() {
        assert!(report.pointer(path).is_some_and(|value| !value.is_null()), "{path}");
    }
    assert_eq!(report["objects"].as_array().unwrap().len(), 6);
    assert!(report["objects"][0].get("page_table").is_none(), "pages are only there when asked for");
    assert!(report["objects"][0].get("detail").is_none());
}

#[test]
fn one_object_carries_its_pages() {
    let report = json(&common::findings(), Options { object: Some("Grid".into()), ..Options::default() });
    assert_eq!(report["objects"].as_array().unwrap().len(), 1);
    let object = &report["objects"][0];
    assert_eq!(object["page_bytes"], 4096);
    assert_eq!(object["page_basis"], "offset");
    let page = &object["page_table"][0];
    assert_eq!(page["page"], 0);
    assert_eq!(page["node"], 0);
    assert_eq!(page["owner"], 0);
    assert_eq!(page["samples"], 70);
    assert_eq!(page["by_thread"]["1"], 20.0);
    assert_eq!(page["first_touch_thread"], 0);
    assert_eq!(object["page_table"].as_array().unwrap().len() as u64, common::PAGES);
    assert_eq!(object["timeline"][0]["thread"], 0);
    assert_eq!(object["timeline_of"], 28_948);
    assert_eq!(report["threads"].as_array().unwrap().len(), 4, "the rest of the report stays");
}

#[test]
fn json_has_a_number_where_one_is_documented() {
    let mut findings = common::findings();
    let object = &mut findings.objects[0];
    object.cost.share = f64::NAN;
    object.cost.error = Some(f64::INFINITY);
    object.remote.share = f64::NAN;
    object.threads[0].access_share = Some(f64::NAN);
    object.pattern.confidence = f64::NAN;
    let detail = object.detail.as_mut().unwrap();
    detail.pages[0].by_thread.insert(0, f64::NAN);
    detail.points[0].t = f64::NEG_INFINITY;
    findings.run.wall_s = f64::NAN;
    findings.sampler.rate_hz = f64::NAN;
    findings.threads[0].reads = Some(f64::NAN);
    findings.lines[0].cost.seconds = f64::NAN;
    let report = json(&findings, Options { object: Some("#0".into()), ..Options::default() });
    let object = &report["objects"][0];
    let zero = ["/cost/share", "/remote/share", "/pattern/confidence", "/page_table/0/by_thread/0", "/timeline/0/t"];
    for path in zero {
        assert_eq!(object.pointer(path).unwrap(), 0.0, "{path}");
    }
    assert!(object["cost"]["error"].is_null(), "an error that is no number is no error");
    assert!(report["threads"][0]["reads"].is_null(), "a count that is no number is no count");
    for path in ["/run/wall_s", "/sampler/rate_hz", "/lines/0/cost/seconds"] {
        assert_eq!(report.pointer(path).unwrap(), 0.0, "{path}");
    }
}

#[test]
fn sort_access_and_top_apply_to_the_list_that_by_names() {
    let mut findings = common::findings();
    findings.objects[4].accesses.reads = 1e9;
    findings.objects[5].accesses.writes = 0.0;
    let options = Options { sort: Sort::Accesses, top: Some(2), ..Options::default() };
    let ids = |report: &Value| -> Vec<u64> {
        report["objects"].as_array().unwrap().iter().map(|object| object["id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&json(&findings, options.clone())), [4, 0]);
    let written = Options { access: Access::Write, top: None, ..options.clone() };
    assert_eq!(ids(&json(&findings, written)), [0, 1, 2, 3, 4]);
    let threads = json(&findings, Options { by: By::Thread, ..options });
    assert_eq!(threads["threads"].as_array().unwrap().len(), 2);
    assert_eq!(threads["objects"].as_array().unwrap().len(), 6);
}

#[test]
fn pages_and_nodes_are_lists_of_their_own() {
    let pages = json(&common::findings(), Options { by: By::Page, top: Some(3), ..Options::default() });
    assert_eq!(pages["pages"].as_array().unwrap().len(), 3);
    assert_eq!(pages["pages"][0]["object"], 0);
    assert_eq!(pages["pages"][0]["samples"], 76);
    let nodes = json(&common::findings(), Options { by: By::Node, ..Options::default() });
    assert_eq!(nodes["nodes"][0]["node"], 0);
    assert_eq!(nodes["nodes"][0]["pages"], 512);
    assert!(nodes["nodes"][1]["node"].is_null());
}

#[test]
fn an_empty_run_is_still_a_report() {
    let report = json(&Findings::default(), Options::default());
    assert_eq!(report["objects"], Value::Array(vec![]));
    assert!(report["run"]["exit"].is_null());
    assert_eq!(csv(&Findings::default(), Options::default()).len(), 1);
}

#[test]
fn every_table_is_rectangular() {
    for by in [By::Object, By::Site, By::Thread, By::Page, By::Node, By::Line] {
        let table = csv(&common::findings(), Options { by, ..Options::default() });
        assert!(table.len() > 1, "{by}");
        assert!(table.iter().all(|row| row.len() == table[0].len()), "{by}: {table:?}");
    }
}

#[test]
fn csv_of_objects() {
    let text = written(&common::findings(), &Options { format: Format::Csv, top: Some(2), ..Options::default() });
    assert_eq!(text.lines().count(), 3);
    let table = csv(&common::findings(), Options { top: Some(2), ..Options::default() });
    let value = |row: usize, column: &str| &table[row][table[0].iter().position(|name| name == column).unwrap()];
    assert_eq!(value(1, "name"), "Grid<double>::allocate(unsigned long) /home/ada/src/stencil/grid.hpp:57");
    assert_eq!(value(1, "cost_share"), "0.612");
    assert_eq!(value(1, "bytes"), "2097152");
    assert_eq!(value(1, "first_touch_thread"), "0");
    assert_eq!(value(2, "module"), "stencil");
    assert_eq!(value(2, "file"), "", "a variable has no call site");
}

#[test]
fn csv_of_one_object_is_its_pages() {
    let table = csv(&common::findings(), Options { object: Some("Grid".into()), ..Options::default() });
    assert_eq!(table.len() as u64, 1 + common::PAGES);
    assert_eq!(table[0][..3], ["object", "name", "page"]);
    assert_eq!(table[1][13..], ["0=56 1=20", ""], "no model says what reaches memory");
}

#[test]
fn threads_of_one_object_have_their_part_of_it() {
    let table =
        csv(&common::findings(), Options { by: By::Thread, object: Some("ghost".into()), ..Options::default() });
    assert_eq!(table.len(), 5);
    let share = table[0].iter().position(|name| name == "cost_share").unwrap();
    assert_eq!((table[1][0].as_str(), table[1][share].as_str()), ("1", "0.5"));
}
