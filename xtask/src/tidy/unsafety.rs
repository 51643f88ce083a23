//! Where `unsafe` may stand, and what must stand above it.

use super::Fault;
use crate::code::{Line, has_word, lines};
use crate::tree::Tree;

/// The mirror of the C contract, what programs in Rust call, perf events, the emulator, the recorder, what starts programs, the system calls of
/// `symbols` and of `measure`, and tests.
const MAY: [&str; 9] = [
    "inject/wire/",
    "inject/annotate/",
    "crates/perf/",
    "crates/emulator/",
    "crates/record/",
    "crates/process/",
    "crates/symbols/src/elf/mapping.rs",
    "crates/measure/src/system.rs",
    "tests/",
];

pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        faults.extend(check_file(path, text));
        if is_crate_root(path) && must_forbid(path) && !forbids(text) {
            faults.push(Fault::new(path, 0, "lacks #![forbid(unsafe_code)]"));
        }
    }
    faults
}

fn may(path: &str) -> bool {
    MAY.iter().any(|prefix| path.starts_with(prefix)) || path.contains("/tests/")
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// A crate with one file that may cannot forbid it for all.
fn must_forbid(root: &str) -> bool {
    let folder = root.trim_end_matches("lib.rs").trim_end_matches("main.rs");
    !may(root) && !MAY.iter().any(|place| place.starts_with(folder))
}

fn forbids(text: &str) -> bool {
    lines(text).iter().any(|line| line.code.replace(' ', "").contains("#![forbid(unsafe_code)]"))
}

fn check_file(path: &str, text: &str) -> Vec<Fault> {
    let lines = lines(text);
    let mut faults = Vec::new();
    for index in 0..lines.len() {
        if !has_word(&lines[index].code, "unsafe") {
            continue;
        }
        if !may(path) {
            faults.push(Fault::new(path, index + 1, "unsafe outside its places"));
        } else if opens_block(&lines, index) && !is_explained(&lines, index) {
            faults.push(Fault::new(path, index + 1, "unsafe without a SAFETY comment above"));
        }
    }
    faults
}

/// Blocks and implementations assert something; functions, traits and externs only require it.
fn opens_block(lines: &[Line], index: usize) -> bool {
    let next = lines.get(index + 1).map_or("", |line| line.code.trim());
    let code = &lines[index].code;
    code.split("unsafe").skip(1).any(|rest| {
        let rest = rest.trim_start();
        rest.starts_with('{') || rest.starts_with("impl") || (rest.is_empty() && next.starts_with('{'))
    })
}

/// On the same line, or above it within the same statement and the comment that precedes that.
fn is_explained(lines: &[Line], index: usize) -> bool {
    let says = |line: &Line| line.comment.contains("SAFETY");
    if says(&lines[index]) {
        return true;
    }
    for line in lines[..index].iter().rev() {
        let code = line.code.trim();
        if says(line) {
            return true;
        }
        let is_blank = code.is_empty() && line.comment.is_empty();
        if is_blank || code.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        super::super::shown(&check(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn places_are_few() {
        let text = "fn f() {\n    // SAFETY: x\n    unsafe { g() }\n}\n";
        assert!(faults("crates/record/src/x.rs", text).is_empty());
        assert!(faults("crates/trace/tests/x.rs", text).is_empty());
        assert_eq!(faults("crates/trace/src/x.rs", text), ["crates/trace/src/x.rs:3: unsafe outside its places"]);
        assert!(faults("crates/trace/src/x.rs", "// unsafe\nlet x = \"unsafe\";\n").is_empty());
    }

    #[test]
    fn blocks_are_explained() {
        let path = "crates/record/src/x.rs";
        let bare = ["unsafe { g() }", "unsafe impl Send for X {}", "let x =\n    unsafe { g() };"];
        for text in bare {
            assert_eq!(faults(path, text).len(), 1, "{text}");
        }
        let explained = [
            "// SAFETY: a\n// b\nunsafe { g() }",
            "// SAFETY: a\nlet x =\n    unsafe { g() };",
            "let x = unsafe { g() }; // SAFETY: a",
            "unsafe fn f();",
            "unsafe extern \"C\" {}",
        ];
        for text in explained {
            assert!(faults(path, text).is_empty(), "{text}");
        }
        assert_eq!(faults(path, "// SAFETY: a\nunsafe { g() };\nunsafe { h() }").len(), 1, "one comment, one block");
        assert_eq!(faults(path, "// SAFETY: a\n\nunsafe { g() }").len(), 1, "a gap");
    }

    #[test]
    fn other_crates_forbid_it() {
        assert_eq!(faults("crates/trace/src/lib.rs", "").len(), 1);
        assert!(faults("crates/trace/src/lib.rs", "#![forbid(unsafe_code)]\n").is_empty());
        assert_eq!(faults("crates/trace/src/lib.rs", "// #![forbid(unsafe_code)]\n").len(), 1);
        assert!(faults("crates/record/src/lib.rs", "").is_empty());
        assert!(faults("crates/symbols/src/lib.rs", "").is_empty(), "one of its files may");
    }
}
