//! A C header against what Rust says of it: a C program prints what the compilers make of the header.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What Rust says of a header: `sizeof STRUCTURE`, `offsetof STRUCTURE FIELD` and `value CONSTANT` by name.
pub struct Mirror {
    file: &'static str,
    facts: BTreeMap<String, u64>,
}

impl Mirror {
    pub fn new(file: &'static str, facts: BTreeMap<String, u64>) -> Self {
        Self { file, facts }
    }

    pub fn header(&self) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(self.file))
            .expect("read the header")
    }

    /// The header is C and C++; both compilers must agree.
    pub fn agrees(&self) {
        let mut program =
            format!("#include <{}>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{{\n", self.file);
        for name in self.facts.keys() {
            let words: Vec<&str> = name.split(' ').collect();
            let value = match words[..] {
                ["sizeof", structure] => format!("sizeof(struct {structure})"),
                ["offsetof", structure, field] => format!("offsetof(struct {structure}, {field})"),
                ["value", constant] => constant.to_owned(),
                _ => panic!("{name}"),
            };
            writeln!(program, "    printf(\"{name}=%llu\\n\", (unsigned long long)({value}));")
                .expect("write to a string");
        }
        program.push_str("    return 0;\n}\n");

        let folder = tempfile::tempdir().expect("a temporary directory");
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        for (compiler, name, standard) in [("gcc", "layout.c", "-std=c11"), ("g++", "layout.cpp", "-std=c++17")] {
            let source = folder.path().join(name);
            std::fs::write(&source, &program).expect("write the program");
            let binary = folder.path().join("layout");
            let output = Command::new(compiler)
                .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
                .args([&include, &source, Path::new("-o"), &binary])
                .output()
                .expect("run the compiler");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let printed =
                String::from_utf8(Command::new(&binary).output().expect("run the program").stdout).expect("text");
            let c: BTreeMap<String, u64> = printed
                .lines()
                .map(|line| line.split_once('=').expect("name=value"))
                .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
                .collect();
            assert_eq!(self.facts, c);
        }
    }

    /// Every field and constant of the header is known, but for those that are texts.
    pub fn is_whole(&self, texts: &[&str]) {
        let mut structure = None;
        let (mut constants, mut fields) = (0, 0);
        for line in self.header().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["struct", name, "{"] => structure = Some(name),
                ["};"] => structure = None,
                ["#define", name, ..] if texts.contains(&name) => {}
                ["#define", name, ..] => {
                    constants += 1;
                    assert!(self.facts.contains_key(&format!("value {name}")), "{name}");
                }
                [name, "=", ..] if name.starts_with("NMM_") => {
                    constants += 1;
                    assert!(self.facts.contains_key(&format!("value {name}")), "{name}");
                }
                [kind, .., last] if structure.is_some() && (kind.ends_with("_t") || kind == "struct") => {
                    let declared = line.split(';').next().unwrap_or(last);
                    let names = declared.trim_start().split_once(' ').map_or("", |(_, names)| names);
                    let names = if kind == "struct" {
                        names.trim_start().split_once(' ').map_or("", |(_, n)| n)
                    } else {
                        names
                    };
                    for field in names.split(',').map(|name| name.trim().split('[').next().unwrap_or_default()) {
                        fields += 1;
                        let name = format!("offsetof {} {field}", structure.unwrap_or_default());
                        assert!(self.facts.contains_key(&name), "{name}");
                    }
                }
                _ => {}
            }
        }
        let offsets = self.facts.keys().filter(|name| name.starts_with("offsetof")).count();
        let values = self.facts.keys().filter(|name| name.starts_with("value")).count();
        assert_eq!((fields, constants), (offsets, values), "every field and constant of the header was recognised");
    }
}
