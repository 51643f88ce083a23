//! Compiling, running, and asking the oracles.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use numamma_symbols::{Access, Mapping, Module, Variable};
use tempfile::TempDir;

/// A folder for one test's programs.
pub struct Workshop(TempDir);

impl Workshop {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Compiles `source` with GNU's compiler for the language that the ending of `file` says, to `output`.
    pub fn compile(&self, file: &str, source: &str, output: &str, flags: &[&str]) -> PathBuf {
        let compiler = match file.rsplit_once('.').unwrap().1 {
            "cpp" => "g++",
            "f90" => "gfortran",
            _ => "gcc",
        };
        self.compile_with(compiler, file, source, output, flags)
    }

    pub fn compile_with(&self, compiler: &str, file: &str, source: &str, output: &str, flags: &[&str]) -> PathBuf {
        let source = self.write(file, source);
        let output = self.path(output);
        // Flags last: libraries must follow what needs them.
        let mut command = Command::new(compiler);
        command.current_dir(self.0.path()).arg("-o").arg(&output).arg(source).args(flags);
        run(&mut command);
        output
    }
}

/// Runs a command that must succeed; returns what it wrote.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn tool(name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    run(Command::new(name).args(arguments))
}

/// True if the tools are installed; says which is not, past the test harness's capture.
pub fn have(tools: &[&str]) -> bool {
    tools.iter().all(|tool| {
        let found = Command::new(tool).arg("--version").output().is_ok();
        if !found {
            let _ = writeln!(std::io::stderr().lock(), "skipped: {tool} is not installed");
        }
        found
    })
}

/// A C function that prints the memory map and then, one a line, names and addresses; ends with the names it is given.
pub const PRINTER: &str = r#"
#include <stdio.h>
static void print_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (fgets(line, sizeof line, maps)) printf("map %s", line);
    fclose(maps);
}
#define SHOW(name, place) printf("at %s %lx\n", name, (unsigned long)(place))
"#;

/// What a program of ours said about itself.
pub struct Said {
    pub places: BTreeMap<String, u64>,
    maps: Vec<Map>,
}

struct Map {
    mapping: Mapping,
    path: String,
}

impl Said {
    pub fn by(program: &Path) -> Self {
        let folder = program.parent().unwrap();
        let output = run(Command::new(program).env("LD_LIBRARY_PATH", folder));
        let mut said = Self { places: BTreeMap::new(), maps: Vec::new() };
        for line in output.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["at", name, address] => {
                    let address = u64::from_str_radix(address, 16).unwrap();
                    said.places.insert(name.into(), address);
                }
                ["map", range, rights, offset, _, _, path] => said.maps.push(Map {
                    mapping: Mapping {
                        start: u64::from_str_radix(range.split('-').next().unwrap(), 16).unwrap(),
                        file_offset: u64::from_str_radix(offset, 16).unwrap(),
                        access: match rights.as_bytes() {
                            [_, _, b'x', _] => Access::Execute,
                            [_, b'w', ..] => Access::Write,
                            _ => Access::Read,
                        },
                    },
                    path: path.into(),
                }),
                _ => {}
            }
        }
        said
    }

    /// The bias of the module at `path`: by all lines of the map, and the executable ones must each agree.
    pub fn bias(&self, module: &Module, path: &Path) -> u64 {
        let path = path.canonicalize().unwrap();
        let maps: Vec<Mapping> =
            self.maps.iter().filter(|map| Path::new(&map.path) == path).map(|map| map.mapping).collect();
        assert!(!maps.is_empty(), "{} is not mapped", path.display());
        let bias = module.bias_for_mappings(&maps).unwrap();
        for map in maps.iter().filter(|map| map.access == Access::Execute) {
            let alone = module.bias_for_mapping(map.start, map.file_offset, map.access);
            assert_eq!(alone, Some(bias), "{map:x?}");
        }
        bias
    }

    pub fn at(&self, name: &str) -> u64 {
        *self.places.get(name).unwrap_or_else(|| panic!("the program did not print {name}"))
    }
}

/// A program that was run, what it said, and this crate's view of its file.
pub struct Subject {
    pub module: Module,
    pub said: Said,
    pub bias: u64,
}

impl Subject {
    pub fn new(program: &Path) -> Self {
        let module = Module::open(program).unwrap();
        let said = Said::by(program);
        let bias = said.bias(&module, program);
        Self { module, said, bias }
    }

    /// What the program printed under this name, as an address of the file.
    pub fn address(&self, name: &str) -> u64 {
        self.said.at(name) - self.bias
    }

    /// The variable there.
    pub fn find(&self, name: &str) -> &Variable {
        self.module.data_at(self.address(name)).unwrap_or_else(|| panic!("no variable at {name}"))
    }
}

/// A line of `nm -S`: address, size, type letter, name.
#[derive(Debug)]
pub struct NmSymbol {
    pub address: u64,
    pub size: u64,
    pub letter: char,
    pub name: String,
}

/// The sized symbols of a file; `extra` may be `-D`.
pub fn nm(path: &Path, extra: &[&str]) -> Vec<NmSymbol> {
    let mut command = Command::new("nm");
    command.arg("-S").arg("--defined-only").args(extra).arg(path);
    run(&mut command)
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, size, letter, name] = words[..] else {
                return None;
            };
            Some(NmSymbol {
                address: u64::from_str_radix(address, 16).ok()?,
                size: u64::from_str_radix(size, 16).ok()?,
                letter: letter.chars().next()?,
                name: name.split('@').next()?.into(),
            })
        })
        .collect()
}

/// The first library of this name among the usual folders.
pub fn system_library(name: &str) -> Option<PathBuf> {
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib/aarch64-linux-gnu"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
}
