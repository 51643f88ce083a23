//! `docs/REPORT.md` names every field and every column that a report can hold.

mod common;

use std::collections::BTreeSet;

use numamma_report::{By, Format, Options, render};
use serde_json::Value;

const DOCS: &str = include_str!("../../../docs/REPORT.md");

fn written(by: By, object: Option<&str>, format: Format) -> String {
    let mut out = Vec::new();
    let options = Options { by, object: object.map(String::from), format, ..Options::default() };
    render(&common::findings(), &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Names of all fields; maps whose keys are data have none.
fn fields(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        Value::Object(map) => {
            for (key, value) in map {
                into.insert(key.clone());
                if !["unattributed", "nodes", "cpus", "by_thread", "cost_by_thread"].contains(&key.as_str())
                    || value.is_array()
                {
                    fields(value, into);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_json_field_is_described() {
    let mut names = BTreeSet::new();
    for by in [By::Object, By::Page, By::Node] {
        fields(&serde_json::from_str(&written(by, Some("Grid"), Format::Json)).unwrap(), &mut names);
    }
    assert!(names.len() > 60);
    // What stands between backquotes, taken apart: `first_touch[].pages` names two fields.
    let spans = DOCS.split('`').skip(1).step_by(2);
    let described: BTreeSet<&str> =
        spans.flat_map(|span| span.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    for name in names {
        assert!(described.contains(name.as_str()), "{name}");
    }
}

#[test]
fn every_csv_table_is_described() {
    for by in [By::Object, By::Site, By::Thread, By::Page, By::Node, By::Line] {
        let columns = written(by, None, Format::Csv).lines().next().unwrap().replace(',', ", ");
        assert!(DOCS.contains(&format!("| `{by}` | `{columns}` |")), "--by {by}: {columns}");
    }
}
