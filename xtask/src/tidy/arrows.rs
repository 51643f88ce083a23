//! Which crate may depend on which. Nouns are vocabulary, verbs are stages: a verb depends on nouns, never the
//! reverse, and two verbs meet only at a noun.

use toml::{Table, Value};

use super::Fault;
use crate::tree::Tree;

const NOUNS: [&str; 12] = [
    "topology", "trace", "symbols", "findings", "plan", "perf", "process", "wire", "preload", "exact", "annotate",
    "emulator",
];
const VERBS: [&str; 9] = ["record", "attribute", "analyze", "advise", "compare", "report", "serve", "apply", "measure"];

/// The pipeline's ends: they put the stages together, or know of none.
const ENDS: [&str; 4] = ["numamma", "numamma-benches", "numamma-tests", "numamma-lab"];

/// Verbs that need another one: the analysis counts what the attribution found, sample by sample, and a table of
/// findings in between would be as long as the recording.
const BETWEEN_VERBS: [(&str, &str); 1] = [("analyze", "attribute")];

/// Dependencies that few crates keep from all others.
const QUARANTINED: [(&str, &[&str]); 4] = [
    ("arrow-array", &["trace"]),
    ("arrow-schema", &["trace"]),
    ("parquet", &["trace"]),
    ("iced-x86", &["record", "emulator"]),
];

pub fn check(tree: &Tree) -> Vec<Fault> {
    let manifests = tree.texts().filter(|(path, _)| path.ends_with("/Cargo.toml"));
    manifests.flat_map(|(path, text)| check_manifest(path, text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Fault> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Fault::new(path, 0, format!("cannot be parsed: {error}"))],
    };
    let package = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    let Some(package) = package else {
        return vec![Fault::new(path, 0, "has no package name")];
    };
    let mut dependencies = Vec::new();
    collect(&manifest, &mut dependencies);
    let faults = dependencies.iter().filter_map(|dependency| fault(package, dependency));
    let mut faults: Vec<Fault> = faults.map(|message| Fault::new(path, 0, message)).collect();
    let name = short(package);
    if !ENDS.contains(&package) && package != "xtask" && !NOUNS.contains(&name) && !VERBS.contains(&name) {
        faults.push(Fault::new(path, 0, format!("{package} is neither a noun nor a verb: enter it in {}", file!())));
    }
    faults
}

/// The crates named by any dependency table, those of targets and of tests included.
fn collect(table: &Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let Value::Table(value) = value else { continue };
        if key.ends_with("dependencies") {
            let real_name = |(name, spec): (&String, &Value)| {
                let renamed = spec.get("package").and_then(Value::as_str);
                renamed.unwrap_or(name).to_owned()
            };
            found.extend(value.iter().map(real_name));
        } else {
            collect(value, found);
        }
    }
}

fn short(package: &str) -> &str {
    package.strip_prefix("numamma-").unwrap_or(package)
}

fn fault(package: &str, dependency: &str) -> Option<String> {
    let (from, to) = (short(package), short(dependency));
    if let Some((_, keepers)) = QUARANTINED.iter().find(|(name, _)| *name == dependency)
        && !keepers.contains(&from)
    {
        return Some(format!("{package} depends on {dependency}, which only {} may name", keepers.join(" and ")));
    }
    if ENDS.contains(&package) {
        return None;
    }
    if ENDS.contains(&dependency) {
        return Some(format!("{package} depends on {dependency}, which nothing may"));
    }
    let to_verb = dependency.starts_with("numamma-") && VERBS.contains(&to);
    if to_verb && NOUNS.contains(&from) {
        Some(format!("the noun {from} depends on the verb {to}"))
    } else if to_verb && !BETWEEN_VERBS.contains(&(from, to)) {
        Some(format!("{from} depends on {to}: two verbs meet only at a noun"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(manifest: &str) -> Vec<String> {
        super::super::shown(&check(&Tree::of(&[("crates/x/Cargo.toml", manifest)])))
    }

    fn manifest(package: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{package}\"\n[dependencies]\n{dependencies}\n")
    }

    #[test]
    fn verbs_use_nouns() {
        let nouns = "numamma-trace.workspace = true\nnumamma-symbols = { path = \"../symbols\" }";
        assert!(faults(&manifest("numamma-record", nouns)).is_empty());
        assert!(faults(&manifest("numamma-analyze", "numamma-attribute.workspace = true")).is_empty());
        assert!(faults(&manifest("numamma", "numamma-record.workspace = true")).is_empty());
    }

    #[test]
    fn the_reverse_is_a_fault() {
        let verb = "numamma-record.workspace = true";
        assert!(faults(&manifest("numamma-trace", verb))[0].contains("noun trace depends on the verb record"));
        assert!(faults(&manifest("numamma-report", verb))[0].contains("two verbs"));
        assert!(faults(&manifest("numamma-report", "numamma.workspace = true"))[0].contains("nothing may"));
        assert!(faults(&manifest("xtask", verb))[0].contains("two verbs"));
    }

    #[test]
    fn every_kind_of_dependency_counts() {
        for table in ["dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let text = format!("[package]\nname = \"numamma-report\"\n[{table}]\nparquet = \"60\"\n");
            assert!(faults(&text)[0].contains("only trace"), "{table}");
        }
        let renamed = manifest("numamma-report", "columns = { package = \"arrow-array\", version = \"60\" }");
        assert!(faults(&renamed)[0].contains("depends on arrow-array"));
        assert!(faults(&manifest("numamma-trace", "arrow-array.workspace = true")).is_empty());
    }

    #[test]
    fn new_crates_must_be_entered() {
        assert!(faults(&manifest("numamma-glue", ""))[0].contains("neither a noun nor a verb"));
        assert!(faults("[package")[0].contains("cannot be parsed"));
    }
}
