//! From what the user typed to functions in files.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use numamma_symbols::origin::is_it;
use numamma_symbols::{Module, NamedFunction};

use super::exits::exits;
use super::{Probe, ProbeKind, missing};
use crate::error::RecordError;

/// The probes for `asked`, each `FUNCTION` or `FILE:FUNCTION`. Without a file it is one of `executable`, else of the
/// libraries that are loaded with it.
///
/// # Errors
/// If there is no such function in the files.
pub fn find(asked: &[String], executable: &Path) -> Result<Vec<Probe>, RecordError> {
    let mut libraries: Option<Vec<PathBuf>> = None;
    let own = own_code(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default());
    let mut probes = Vec::new();
    for (number, text) in asked.iter().enumerate() {
        let (file, name) = split(text);
        let number = number as u16;
        let before = probes.len();
        match file {
            Some(file) => {
                let module = open(file).map_err(|why| RecordError::NoFunction { asked: text.clone(), why })?;
                add(&mut probes, file, &module, name, number);
            }
            None => {
                let module = open(executable).map_err(|why| RecordError::NoFunction {
                    asked: text.clone(),
                    why: format!("{why}; name the file with it, as in /usr/lib/libx.so:{name}"),
                })?;
                add(&mut probes, executable, &module, name, number);
                if probes.len() == before {
                    for library in libraries.get_or_insert_with(|| loaded_with(&module, executable)) {
                        if let Ok(module) = open(library) {
                            add(&mut probes, library, &module, name, number);
                        }
                    }
                }
            }
        }
        if probes.len() == before {
            let place = match file {
                Some(file) => file.display().to_string(),
                None => format!("{} and its libraries", executable.display()),
            };
            let module = open(file.unwrap_or(executable));
            let why = module.map_or_else(|why| why, |module| missing::why(&module, name, &place));
            return Err(RecordError::NoFunction { asked: text.clone(), why });
        }
        // Probes are in all processes: each record would make the recorder come by and cause the next.
        if let Some(probe) = probes[before..].iter().find(|probe| own.contains(&probe.file)) {
            let why = format!(
                "{} is a library that NumaMMA itself needs; name a function that calls it",
                probe.file.display()
            );
            return Err(RecordError::NoFunction { asked: text.clone(), why });
        }
    }
    Ok(probes)
}

/// Files whose code is in a process's memory map, without those that are only data.
fn own_code(maps: &str) -> Vec<PathBuf> {
    let is_code = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
    let path = |line: &str| line.find('/').map(|at| PathBuf::from(&line[at..]));
    maps.lines().filter(is_code).filter_map(path).collect()
}

/// `FILE:FUNCTION`, where a file has a slash: function names have colons of their own.
fn split(asked: &str) -> (Option<&Path>, &str) {
    let name = asked.rfind('/').and_then(|slash| Some(slash + asked[slash..].find(':')?));
    match name {
        Some(colon) if colon + 1 < asked.len() => (Some(Path::new(&asked[..colon])), &asked[colon + 1..]),
        _ => (None, asked),
    }
}

fn open(path: &Path) -> Result<Module, String> {
    Module::open(path).map_err(|error| error.to_string())
}

/// Adds the probes of all functions of that name in a module: C++ has several, compilers make copies.
fn add(probes: &mut Vec<Probe>, file: &Path, module: &Module, name: &str, number: u16) {
    // As the kernel will call it.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let functions = module.functions_named(|found| is_meant(found, name));
    let (cold, whole): (Vec<&NamedFunction>, Vec<&NamedFunction>) = functions.iter().partition(|f| f.cold);
    for function in whole {
        let of_it = cold.iter().filter(|part| part.name == function.name).chain([&function]);
        let parts: Rc<[Range<u64>]> = of_it.map(|part| part.start..part.end).collect();
        let leaving: Vec<_> = parts
            .iter()
            .filter_map(|part| Some((module.text_at(part.start, (part.end - part.start) as usize)?, part.start)))
            .flat_map(|(bytes, start)| exits(bytes, start, &parts))
            .collect();
        // It does nothing but return or jump: nobody is ever inside.
        if leaving.iter().any(|(at, _)| *at == function.start) {
            continue;
        }
        let here = [(function.start, ProbeKind::Enter)].into_iter();
        let all = here.chain(leaving.into_iter().map(|(at, exit)| (at, ProbeKind::Leave(exit))));
        probes.extend(all.filter_map(|(at, kind)| {
            let (file, parts) = (file.clone(), Rc::clone(&parts));
            Some(Probe { file, offset: module.file_offset(at)?, at, parts, function: number, kind })
        }));
    }
}

/// True if a function is the one that the user means, or an instance of the template.
pub fn is_meant(found: &str, name: &str) -> bool {
    // gfortran appends an underscore to what is in no module.
    is_it(found, name) || found.strip_suffix('_') == Some(name) || is_instance(found, name)
}

/// True if `found` is an instance of the template `name`: `void grid::sweep<double>(double*)` of `sweep`. Those of functions are
/// demangled with what they return.
fn is_instance(found: &str, name: &str) -> bool {
    if !found.contains('<') || found.contains("operator") {
        return false;
    }
    let (mut plain, mut depth) = (String::new(), 0_usize);
    for (at, c) in found.char_indices() {
        match c {
            '(' if depth == 0 && !found[at..].starts_with("(anonymous namespace)") => break,
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let plain = plain.replace("(anonymous namespace)", "");
    let last = plain.rsplit(' ').next().unwrap_or_default();
    last.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// The libraries that the dynamic linker would load with a program, as it says itself. The program does not run.
fn loaded_with(module: &Module, executable: &Path) -> Vec<PathBuf> {
    let Some(linker) = module.interpreter() else { return Vec::new() };
    // With a slash, or the linker takes it for a library's name.
    let executable = std::path::absolute(executable).unwrap_or_else(|_| executable.to_owned());
    let listed = Command::new(linker)
        .arg("--list")
        .arg(executable)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    listed.lines().filter_map(library).collect()
}

/// The path in a line such as `libm.so.6 => /lib/libm.so.6 (0x00007f00)`, or `/opt/libx.so (0x00007f00)` where the program
/// names it so.
fn library(line: &str) -> Option<PathBuf> {
    let path = line.split_once("=> ").map_or(line, |(_, path)| path);
    let (path, _) = path.trim_start().rsplit_once(" (")?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_namespace() {
        assert_eq!(split("solve"), (None, "solve"));
        assert_eq!(split("grid::Pool::take"), (None, "grid::Pool::take"));
        assert_eq!(split("./libx.so:solve"), (Some(Path::new("./libx.so")), "solve"));
        assert_eq!(split("/usr/lib/libx.so.1:ns::f(int)"), (Some(Path::new("/usr/lib/libx.so.1")), "ns::f(int)"));
        assert_eq!(split("./libx.so:"), (None, "./libx.so:"));
    }

    #[test]
    fn all_instances_of_a_template_are_meant() {
        for found in [
            "void sweep<double>(double*, long)",
            "std::vector<int, std::allocator<int> > grid::sweep<int>(int)",
            "grid::Pool<std::pair<int, int> >::sweep(int)",
            "void (anonymous namespace)::sweep<float>()",
            "grid::sweep(int)",
        ] {
            assert!(is_meant(found, "sweep"), "{found}");
        }
        assert!(is_meant("void grid::sweep<double>(double*)", "grid::sweep"));
        assert!(is_meant("grid::Pool<int>::sweep(int)", "Pool::sweep"));
        for found in
            ["void resweep<int>(int)", "void call<sweep>(int)", "void take<int>(sweep)", "bool operator< <int>(sweep)"]
        {
            assert!(!is_meant(found, "sweep"), "{found}");
        }
    }

    #[test]
    fn the_linkers_list_is_read() {
        assert_eq!(library("\tlibm.so.6 => /lib/libm.so.6 (0x00007f0012340000)"), Some("/lib/libm.so.6".into()));
        assert_eq!(library("\t/opt/libx.so (0x00007f0012340000)"), Some("/opt/libx.so".into()));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(library("\tlibmissing.so => not found"), None);
    }

    #[test]
    fn a_function_has_an_entry_and_exits() {
        // A copy: what runs here is not watched.
        let dir = tempfile::tempdir().expect("a temporary folder");
        let copy = dir.path().join("copy");
        std::fs::copy(std::env::current_exe().expect("this program"), &copy).expect("a copy");
        let probes = find(&["watched_by_its_name".into()], &copy).expect("it is there");
        assert!(probes.iter().all(|probe| probe.file.ends_with("copy") && probe.function == 0), "{probes:?}");
        assert_eq!(probes.iter().filter(|probe| matches!(probe.kind, ProbeKind::Enter)).count(), 1);
        assert!(probes.iter().any(|probe| matches!(probe.kind, ProbeKind::Leave(_))), "{probes:?}");
        assert!(watched_by_its_name(std::hint::black_box(3)) > 3);
    }

    #[test]
    fn what_the_recorder_runs_on_is_not_watched() {
        let own = std::env::current_exe().expect("this program");
        // The second is found in a library.
        for asked in ["watched_by_its_name", "qsort"] {
            let error = find(&[asked.into()], &own).expect_err("it is our own").to_string();
            assert!(error.contains("itself needs"), "{error}");
        }
    }

    #[test]
    fn a_memory_map_names_its_code() {
        let maps = "00400000-00401000 r-xp 00000000 fe:00 12      /opt/a b\n\
                    00600000-00601000 r--p 00000000 fe:00 13      /opt/c\n7f00-7f01 r-xp 00000000 00:00 0   [vdso]\n";
        assert_eq!(own_code(maps), [PathBuf::from("/opt/a b")]);
    }

    #[inline(never)]
    fn watched_by_its_name(x: u64) -> u64 {
        std::hint::black_box(x * 3) + 1
    }

    #[test]
    fn what_is_not_there_is_refused_in_one_line() {
        let own = std::env::current_exe().expect("this program");
        for asked in ["no_such_function", "/nowhere/libx.so:f", "/etc/passwd:f"] {
            let error = find(&[asked.into()], &own).expect_err("it is not there").to_string();
            assert!(error.contains(asked) && !error.contains('\n'), "{error}");
        }
    }
}
