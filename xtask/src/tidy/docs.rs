//! Documents name files that exist.

use super::Fault;
use crate::tree::Tree;

const EXTENSIONS: [&str; 16] =
    ["rs", "toml", "md", "c", "h", "cpp", "f90", "ts", "tsx", "mjs", "json", "css", "html", "png", "sh", "py"];

/// What is built is not in the tree.
const BUILT: [&str; 3] = ["target/", "web/dist/", "workloads/build/"];

pub fn check(tree: &Tree) -> Vec<Fault> {
    let is_doc = |path: &str| path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    let documents = tree.texts().filter(|(path, _)| is_doc(path));
    documents.flat_map(|(path, text)| check_document(tree, path, text)).collect()
}

fn check_document(tree: &Tree, path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let quoted = quoted(line).filter_map(as_file);
            let gone = quoted.chain(linked(line)).filter(|name| !exists(tree, path, name));
            faults.extend(gone.map(|name| Fault::new(path, index + 1, format!("there is no {name}"))));
        }
    }
    faults
}

/// The texts between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A text that is a file of this project: folders, a known extension, nothing to fill in.
fn as_file(text: &str) -> Option<&str> {
    let text = text.split_once(':').map_or(text, |(file, _)| file);
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let (_, extension) = text.rsplit_once('.')?;
    let is_ours = is_name && text.contains('/') && !text.starts_with('/') && EXTENSIONS.contains(&extension);
    is_ours.then_some(text)
}

/// The targets of `[links](target)` and pictures inside the project.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        let file = target.split('#').next().unwrap_or_default();
        (!file.is_empty() && !file.contains(':')).then_some(file)
    })
}

/// From the root, or from the document's own folder.
fn exists(tree: &Tree, document: &str, name: &str) -> bool {
    let name = name.trim_start_matches("./");
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = match name.strip_prefix("../") {
        Some(up) => up.to_owned(),
        None => format!("{folder}/{name}"),
    };
    BUILT.iter().any(|built| name.starts_with(built)) || tree.has(name) || tree.has(&beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let files = [("docs/A.md", text), ("docs/B.md", ""), ("src/x.rs", ""), ("docs/p.png", "")];
        super::super::shown(&check(&Tree::of(&files)))
    }

    #[test]
    fn files_that_exist_may_be_named() {
        for text in ["`src/x.rs`", "`src/x.rs:12`", "[b](B.md#part)", "![p](p.png)", "[x](../src/x.rs)", "[s](../src)"]
        {
            assert_eq!(faults(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_files() {
        for text in [
            "`a/b`",
            "`x.rs`",
            "`/etc/x.json`",
            "`DIR/*.toml`",
            "[w](https://x.y/z.md)",
            "[h](#part)",
            "`target/x.html`",
            "```\n`no/x.rs`\n```",
        ] {
            assert_eq!(faults(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn files_that_are_gone_are_found() {
        assert_eq!(faults("x\nsee `src/y.rs`\n"), ["docs/A.md:2: there is no src/y.rs"]);
        assert_eq!(faults("[c](C.md)"), ["docs/A.md:1: there is no C.md"]);
    }
}
