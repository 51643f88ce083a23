//! Every column and every kind of loss is described, in the code and in the document about the dataset.

use super::Fault;
use crate::tree::Tree;

const SCHEMA: &str = "crates/trace/src/schema.rs";
const LOSSES: &str = "crates/trace/src/losses.rs";
const DOCUMENT: &str = "docs/DATASET.md";

pub fn check(tree: &Tree) -> Vec<Fault> {
    let (schema, losses) = (tree.text(SCHEMA), tree.text(LOSSES));
    let mut faults = Vec::new();
    // Files that moved away would switch the rule off in silence.
    for (path, text) in [(SCHEMA, schema), (LOSSES, losses), (DOCUMENT, tree.text(DOCUMENT))] {
        if text.is_none() {
            faults.push(Fault::new(path, 0, "is not there"));
        }
    }
    if let (Some(schema), Some(losses), Some(document)) = (schema, losses, tree.text(DOCUMENT)) {
        faults.extend(check_schema(schema, document));
        faults.extend(check_losses(losses, document));
    }
    faults.sort();
    faults
}

/// One `column: type = "description",` of a table.
struct Column<'a> {
    table: &'a str,
    name: &'a str,
    doc: &'a str,
    line: usize,
}

fn check_schema(schema: &str, document: &str) -> Vec<Fault> {
    let columns = columns(schema);
    if columns.is_empty() {
        return vec![Fault::new(SCHEMA, 0, format!("no table found: teach {} its form", file!()))];
    }
    let mut faults = Vec::new();
    for Column { table, name, doc, line } in columns {
        if doc.trim().is_empty() {
            faults.push(Fault::new(SCHEMA, line, format!("column {table}.{name} has no description")));
        }
        match section(document, table) {
            None => faults.push(Fault::new(DOCUMENT, 0, format!("no heading for the table `{table}`"))),
            Some(text) if !text.contains(&format!("`{name}`")) => {
                faults.push(Fault::new(DOCUMENT, 0, format!("table `{table}`: column `{name}` is missing")));
            }
            Some(_) => {}
        }
    }
    faults
}

/// Tables are written `Row = "name" {`, a line for each column, `}`.
fn columns(schema: &str) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    let mut table = None;
    for (index, line) in schema.lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if line.starts_with("//") {
            continue;
        }
        match table {
            None => {
                let header = line.strip_suffix('{').and_then(|line| line.split_once(" = "));
                table = header.and_then(|(_, name)| name.trim().strip_prefix('"')?.strip_suffix('"'));
            }
            Some(_) if line.starts_with('}') => table = None,
            Some(table) => {
                let Some((name, rest)) = line.split_once(':') else {
                    continue;
                };
                let doc = rest.split_once("= \"").map_or("", |(_, doc)| doc.trim_end_matches(['"', ',', '\\']));
                columns.push(Column { table, name: name.trim(), doc, line: line_number });
            }
        }
    }
    columns
}

/// The part of a Markdown document below the heading that names `table` in backquotes.
fn section<'a>(document: &'a str, table: &str) -> Option<&'a str> {
    let mark = format!("`{table}`");
    let mut offset = 0;
    let mut start = None;
    for line in document.split_inclusive('\n') {
        if line.starts_with('#') {
            match start {
                Some(start) => return Some(&document[start..offset]),
                None if line.contains(&mark) => start = Some(offset + line.len()),
                None => {}
            }
        }
        offset += line.len();
    }
    start.map(|start| &document[start..])
}

fn check_losses(losses: &str, document: &str) -> Vec<Fault> {
    let kinds = kinds(losses);
    if kinds.is_empty() {
        return vec![Fault::new(LOSSES, 0, format!("no kind of loss found: teach {} its form", file!()))];
    }
    let mut faults = Vec::new();
    for (name, texts, line) in kinds {
        if texts.len() < 2 || texts.iter().any(|text| text.trim().is_empty()) {
            faults.push(Fault::new(LOSSES, line, format!("{name} needs a description and a remedy")));
        }
        if !document.contains(&format!("`{name}`")) {
            faults.push(Fault::new(DOCUMENT, 0, format!("the loss `{name}` is missing")));
        }
    }
    faults
}

/// Kinds are written `Variant = "name", "description", "remedy";`, on any number of lines.
fn kinds(losses: &str) -> Vec<(&str, Vec<&str>, usize)> {
    let Some((before, list)) = losses.split_once("\nloss_kinds! {") else {
        return Vec::new();
    };
    let list = list.split("\n}").next().unwrap_or_default();
    let mut line = before.matches('\n').count() + 2;
    let mut kinds = Vec::new();
    for entry in list.split_inclusive(";\n") {
        let blank = entry.len() - entry.trim_start().len();
        let at = line + entry[..blank].matches('\n').count();
        line += entry.matches('\n').count();
        let mut strings = entry.split('"').skip(1).step_by(2);
        if let Some(name) = strings.next() {
            kinds.push((name, strings.collect(), at));
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "table! {\n    /// Doc.\n    SampleRow = \"samples\" {\n        time: i64 = \"When.\",\n        cpu: i32 = \"\",\n    }\n}\n";
    const KINDS: &str = "//! x\n\nloss_kinds! {\n    Ring = \"ring_full\",\n        \"What; how.\",\n        \"Do.\";\n    Cut = \"cut\",\n        \"\", \"Do.\";\n}\n";
    const GOOD: &str = "# Dataset\n## `samples`\n| `time` | `cpu` |\n## Losses\n`ring_full` `cut`\n";

    fn faults(document: &str) -> Vec<String> {
        let tree = Tree::of(&[(SCHEMA, TABLES), (LOSSES, KINDS), (DOCUMENT, document)]);
        super::super::shown(&check(&tree))
    }

    #[test]
    fn descriptions_are_demanded_in_the_code() {
        assert_eq!(
            faults(GOOD),
            [
                "crates/trace/src/losses.rs:7: cut needs a description and a remedy",
                "crates/trace/src/schema.rs:5: column samples.cpu has no description",
            ]
        );
    }

    #[test]
    fn the_document_names_each_under_its_table() {
        let elsewhere = "# Dataset\n## `samples`\n`time`\n## Other\n`cpu` `cut`\n";
        let faults = faults(elsewhere);
        assert!(faults.contains(&format!("{DOCUMENT}: table `samples`: column `cpu` is missing")), "{faults:?}");
        assert!(faults.contains(&format!("{DOCUMENT}: the loss `ring_full` is missing")), "{faults:?}");
        assert!(!faults.iter().any(|fault| fault.contains("`time`")), "{faults:?}");
    }

    #[test]
    fn a_rule_that_finds_nothing_says_so() {
        assert_eq!(check(&Tree::default()).len(), 3);
        let tree = Tree::of(&[(SCHEMA, ""), (LOSSES, ""), (DOCUMENT, GOOD)]);
        assert!(super::super::shown(&check(&tree)).iter().all(|fault| fault.contains("teach")));
    }
}
