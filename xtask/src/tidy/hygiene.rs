//! Length of files, leftovers of work in progress, white space, compiled files.

use super::Fault;
use crate::code::has_word;
use crate::tree::Tree;

const LONGEST: usize = 900;

/// How ELF files and archives of them begin.
const COMPILED: [&[u8]; 2] = [b"\x7fELF", b"!<arch>\n"];

const SOURCES: [&str; 12] = ["rs", "c", "h", "cpp", "f90", "ts", "tsx", "mjs", "css", "md", "py", "toml"];

/// Written in halves so that this file does not break its own rule.
const LEFTOVERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 3] = [concat!("unimple", "mented!"), concat!("to", "do!"), concat!("db", "g!")];

pub fn check(tree: &Tree) -> Vec<Fault> {
    let ours = |path: &str| !is_captured(path);
    let compiled = tree.files().filter(|(_, bytes)| COMPILED.iter().any(|magic| bytes.starts_with(magic)));
    let compiled = compiled.map(|(path, _)| Fault::new(path, 0, "a compiled file"));
    tree.texts()
        .filter(|(path, _)| ours(path))
        .flat_map(|(path, text)| check_file(path, text))
        .chain(compiled)
        .collect()
}

/// Captures of other programs' output, and lists that programs write.
fn is_captured(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| part == "fixtures")
        || matches!(name, "Cargo.lock" | "package-lock.json")
        || [".csv", ".svg", ".patch", ".out"].iter().any(|end| name.ends_with(end))
}

fn check_file(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let length = text.lines().count();
    if SOURCES.contains(&extension) && length > LONGEST {
        faults.push(Fault::new(path, 0, format!("{length} lines, more than {LONGEST}: split it")));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push(Fault::new(path, length, "the last line does not end"));
    }
    let may_have_tabs = path.rsplit('/').next() == Some("Makefile");
    for (index, line) in text.lines().enumerate() {
        let mut fault = |message: String| faults.push(Fault::new(path, index + 1, message));
        for word in LEFTOVERS.iter().filter(|word| has_word(line, word)) {
            fault(format!("{word} left over"));
        }
        if extension == "rs" {
            for word in MACROS.iter().filter(|word| calls(line, word)) {
                fault(format!("{word} left over"));
            }
        }
        if line.contains('\t') && !may_have_tabs {
            fault("tab".to_owned());
        }
        // Also catches carriage returns: lines() keeps those that stand alone.
        if line.ends_with(char::is_whitespace) {
            fault("white space at the end".to_owned());
        }
    }
    faults
}

fn calls(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        super::super::shown(&check(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn clean_files_pass() {
        assert!(faults("a.rs", "fn main() {}\n").is_empty());
        assert!(faults("a.rs", "").is_empty());
        assert!(faults("Makefile", "all:\n\techo\n").is_empty());
        assert!(faults("tests/fixtures/a.txt", "tab\t \n").is_empty());
        assert!(faults("a.sh", &format!("mktemp /tmp/{}\n", "X".repeat(6))).is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        for word in LEFTOVERS {
            assert_eq!(faults("a.c", &format!("/* {word}: x */\n")), [format!("a.c:1: {word} left over")]);
        }
        for word in MACROS {
            assert_eq!(faults("a.rs", &format!("x;\n{word}()\n")), [format!("a.rs:2: {word} left over")]);
        }
    }

    #[test]
    fn white_space_is_checked() {
        assert_eq!(faults("a.md", "a \n"), ["a.md:1: white space at the end"]);
        assert_eq!(faults("a.rs", "\ta\n"), ["a.rs:1: tab"]);
        assert_eq!(faults("a.rs", "a"), ["a.rs:1: the last line does not end"]);
    }

    #[test]
    fn compiled_files_are_found() {
        assert_eq!(faults("step", "\x7fELF\0"), ["step: a compiled file"]);
        assert_eq!(faults("a.a", "!<arch>\n"), ["a.a: a compiled file"]);
    }

    #[test]
    fn long_files_are_split() {
        assert_eq!(faults("a.rs", &"x\n".repeat(901)).len(), 1);
        assert!(faults("a.rs", &"x\n".repeat(900)).is_empty());
        assert!(faults("package-lock.json", &"x\n".repeat(9000)).is_empty());
    }
}
