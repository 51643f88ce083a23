//! Ranges of functions, with and without symbols.

use std::collections::BTreeSet;

use numamma_symbols::{Module, RangeSource};

use crate::support::{Workshop, have, nm, run, system_library, tool};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((cold, noinline)) static void complain(int x) { fprintf(stderr, "too much: %d\n", x); abort(); }
__attribute__((noinline)) static int hidden(int x) { return x * 3 + 1; }
__attribute__((noinline)) int visible(int x) {
    if (x > 1000) complain(x);
    return hidden(x) + 2;
}
int main(int argc, char **argv) { printf("%d\n", visible(argc)); return 0; }
"#;

/// Every range must begin at its function and stop before the next, in every byte of it.
fn agrees_with_nm(module: &Module, symbols: &[crate::support::NmSymbol]) -> usize {
    let functions: Vec<_> =
        symbols.iter().filter(|symbol| "tTwWi".contains(symbol.letter) && symbol.size > 0).collect();
    let starts: BTreeSet<u64> = functions.iter().map(|symbol| symbol.address).collect();
    for symbol in &functions {
        let bounds = module.function_bounds(symbol.address).unwrap_or_else(|| panic!("{symbol:?}"));
        assert_eq!(bounds.start, symbol.address, "{symbol:?}");
        let next = starts.range(symbol.address + 1..).next().copied().unwrap_or(u64::MAX);
        assert!(bounds.end > bounds.start && bounds.end <= next, "{symbol:?} {bounds:x?}");
        let size = bounds.end - bounds.start;
        let middle = module.function_bounds(bounds.start + size / 2).unwrap();
        assert_eq!(middle, bounds);
        let code = module.text_at(bounds.start, size as usize).unwrap();
        assert_eq!(code.len() as u64, size);
    }
    functions.len()
}

#[test]
fn system_libraries_agree_with_nm() {
    if !have(&["nm"]) {
        return;
    }
    for name in ["libstdc++.so.6", "libm.so.6", "libc.so.6"] {
        if let Some(path) = system_library(name) {
            let module = Module::open(&path).unwrap();
            assert!(agrees_with_nm(&module, &nm(&path, &["-D"])) > 100, "{name}");
        }
    }
}

#[test]
fn unwind_tables_stand_in_for_symbols() {
    if !have(&["gcc", "nm", "strip"]) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("f.c", PROGRAM, "f", &["-O2", "-freorder-blocks-and-partition"]);
    let symbols = nm(&program, &[]);
    let whole = Module::open(&program).unwrap();
    assert!(agrees_with_nm(&whole, &symbols) >= 3);
    let cold = symbols.iter().find(|symbol| symbol.name == "visible.cold").expect("gcc made no cold part");
    let hot = symbols.iter().find(|symbol| symbol.name == "visible").unwrap();
    assert_eq!(whole.function_bounds(cold.address).unwrap().start, cold.address);
    assert_eq!(whole.function_bounds(hot.address).unwrap().end, hot.address + hot.size);

    tool("strip", [&program]);
    let stripped = Module::open(&program).unwrap();
    for symbol in
        symbols.iter().filter(|symbol| ["hidden", "visible", "visible.cold", "main"].contains(&symbol.name.as_str()))
    {
        let bounds = stripped.function_bounds(symbol.address + symbol.size - 1).unwrap();
        assert_eq!((bounds.start, bounds.end), (symbol.address, symbol.address + symbol.size), "{symbol:?}");
        assert_eq!(bounds.source, RangeSource::Unwind);
    }
    assert!(stripped.frames_at(hot.address).is_empty());
}

#[test]
fn files_without_section_headers_still_have_functions() {
    if !have(&["gcc", "nm", "strip"]) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("f.c", PROGRAM, "f", &["-O2"]);
    let symbols = nm(&program, &[]);
    tool("strip", [&program]);
    let mut bytes = std::fs::read(&program).unwrap();
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let module = Module::from_bytes("f", bytes).unwrap();
    let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
    let bounds = module.function_bounds(hidden.address + 1).unwrap();
    assert_eq!((bounds.start, bounds.end), (hidden.address, hidden.address + hidden.size));
    assert!(module.needed().iter().any(|name| name.starts_with("libc.so")));
    assert_eq!(module.data_at(hidden.address).unwrap().name, "[code of f]");
}

#[test]
fn linkage_table_entries_are_named_after_their_targets() {
    if !have(&["gcc", "objdump"]) {
        return;
    }
    let workshop = Workshop::new();
    let ways: [&[&str]; 4] = [
        &["-Wl,-z,lazy"],
        &["-Wl,-z,now"],
        &["-no-pie", "-Wl,-z,lazy"],
        &["-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"],
    ];
    for flags in ways {
        let program = workshop.compile("p.c", PROGRAM, "p", flags);
        let module = Module::open(&program).unwrap();
        let listing = run(std::process::Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&program));
        let mut named = 0;
        for line in listing.lines() {
            let Some((address, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap();
            if name.ends_with("@plt") && !name.contains("+0x") {
                let found = module.function_name(address).unwrap();
                assert_eq!(found, name, "{flags:?}");
                let bounds = module.function_bounds(address + 3).unwrap();
                assert_eq!((bounds.start, bounds.source), (address, RangeSource::Plt));
                assert!(bounds.end - bounds.start <= 16);
                named += 1;
            }
        }
        assert!(named >= 3, "{flags:?}: {listing}");
    }
}

#[test]
fn hand_written_assembly() {
    if !have(&["gcc"]) {
        return;
    }
    let source = r#"
__asm__(".text\n.globl bare\nbare: nop\nnop\n.globl sized\n.type sized,@function\nsized: nop\nret\n.size sized,.-sized\n"
        ".type inside,@function\nouter: .type outer,@function\nnop\nnop\ninside: nop\n.size inside,1\nnop\nret\n.size outer,.-outer\n");
int main(void) { return 0; }
"#;
    let workshop = Workshop::new();
    let program = workshop.compile("a.c", source, "a", &[]);
    let module = Module::open(&program).unwrap();
    let all = tool("nm", [&program]);
    let at = |wanted: &str| {
        let line = all.lines().find(|line| line.ends_with(&format!(" {wanted}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let bounds = |address| module.function_bounds(address).unwrap();
    let bare = bounds(at("bare") + 1);
    assert_eq!((bare.start, bare.end, bare.source), (at("bare"), at("sized"), RangeSource::Guess));
    assert_eq!(bounds(at("outer")).end, at("inside"));
    assert_eq!(bounds(at("inside")).end, at("inside") + 1);
    let tail = bounds(at("inside") + 1);
    assert_eq!((tail.start, tail.end), (at("inside") + 1, at("outer") + 5));
    assert_eq!(module.function_name(tail.start).as_deref(), Some("outer"));
}

#[test]
fn functions_are_found_by_name_with_the_parts_that_compilers_make() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PROGRAM}int also(int x) __attribute__((alias(\"visible\")));\n");
    let program = workshop.compile("n.c", &source, "n", &["-O2", "-freorder-blocks-and-partition"]);
    let (module, file) = (Module::open(&program).unwrap(), std::fs::read(&program).unwrap());
    let found = module.functions_named(|name| name == "visible");
    let [hot, cold] = &found[..] else { panic!("{found:?}") };
    let (hot, cold) = if hot.cold { (cold, hot) } else { (hot, cold) };
    assert!(cold.cold && !hot.cold && hot.name == "visible" && cold.name == "visible", "{found:?}");
    for function in &found {
        let (offset, size) = (module.file_offset(function.start).unwrap() as usize, function.end - function.start);
        assert_eq!(module.text_at(function.start, size as usize).unwrap(), &file[offset..offset + size as usize]);
    }
    // Another name of the same function.
    let also = module.functions_named(|name| name == "also");
    assert_eq!(also.iter().map(|function| function.start).collect::<Vec<_>>(), [hot.start]);
    assert_eq!(module.functions_named(|name| name == "no_such"), []);
    assert!(module.interpreter().is_some_and(|path| path.is_absolute()));
}
