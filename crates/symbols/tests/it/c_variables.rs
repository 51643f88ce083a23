//! Static variables of C, linked and described in many ways.

use std::collections::BTreeSet;

use numamma_symbols::{Extent, Module, VariableKind};

use crate::support::{NmSymbol, PRINTER, Subject, Workshop, have, nm, system_library, tool};

const PROGRAM: &str = r#"
struct point { double x, y; int tag; };
double first[1000], second[1000], third[1000];
static int hidden[64];
struct point points[10];
const char banner[] = "a constant text";
int original = 7;
extern int renamed __attribute__((alias("original")));
extern int __inner_name __attribute__((alias("original")));
__asm__(".data\n.globl untyped\nuntyped: .quad 1, 2, 3\n.globl after\n.type after, @object\n.size after, 8\nafter: .quad 4\n.text\n");
extern long untyped[], after;
static int *count_here(void) { static int counter[4]; return counter; }
static int *count_there(void) { static int counter[4]; return counter; }
int main(void) {
    print_maps();
    SHOW("first", first); SHOW("second", second); SHOW("third", third); SHOW("hidden", hidden + 63);
    SHOW("points", &points[3].y); SHOW("banner", banner); SHOW("original", &original);
    SHOW("untyped", untyped + 2); SHOW("after", &after);
    SHOW("count_here::counter", count_here()); SHOW("count_there::counter", count_there());
    SHOW("literal", "a literal that nothing names");
    return 0;
}
"#;

#[test]
fn all_kinds_of_c_variables() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{PROGRAM}");
    let ways: [(&str, &[&str]); 11] = [
        ("gcc", &["-pie", "-fPIE", "-gdwarf-5"]),
        ("gcc", &["-pie", "-fPIE", "-gdwarf-4"]),
        ("gcc", &["-no-pie", "-fno-pie", "-gdwarf-5"]),
        ("gcc", &["-no-pie", "-fno-pie", "-gdwarf-4", "-O2"]),
        ("gcc", &["-g", "-gz=zlib"]),
        ("gcc", &["-gdwarf-4", "-fdebug-types-section"]),
        ("gcc", &["-gdwarf-5", "-fdebug-types-section"]),
        ("gcc", &["-g", "-O2", "-fdata-sections", "-Wl,--gc-sections"]),
        ("gcc", &["-pie", "-fPIE"]),
        ("clang", &["-gdwarf-5"]),
        ("clang", &["-gdwarf-4", "-O1"]),
    ];
    for (compiler, flags) in ways {
        if !have(&[compiler]) {
            continue;
        }
        let program = workshop.compile_with(compiler, "c.c", &source, "c", flags);
        let subject = Subject::new(&program);
        let debug = flags.iter().any(|flag| flag.starts_with("-g"));
        let find = |name: &str| subject.find(name);

        for name in ["first", "second", "third"] {
            let variable = find(name);
            assert_eq!((variable.name.as_str(), variable.size), (name, 8000), "{flags:?}");
            assert_eq!(variable.address, subject.address(name));
            assert!(variable.writable && variable.section == ".bss", "{variable:?}");
        }
        assert_eq!(find("hidden").name, "hidden");
        // Without debug information nothing says which of the visible aliases the source defines.
        let original = &find("original").name;
        assert!(original == "original" || (!debug && original == "renamed"), "{original}");
        assert_eq!(find("banner").size, 16);
        assert!(!find("banner").writable);
        let literal = find("literal");
        assert_eq!(literal.kind, VariableKind::Section);
        assert_eq!(literal.name, "[.rodata of c]");

        let untyped = find("untyped");
        assert_eq!((untyped.name.as_str(), untyped.size, untyped.extent), ("untyped", 24, Extent::UpToNext));
        assert_eq!(find("after").extent, Extent::Stated);

        if !debug {
            assert!(find("count_here::counter").name.starts_with("counter."));
            continue;
        }
        for name in ["count_here::counter", "count_there::counter"] {
            assert_eq!(find(name).name, name, "{flags:?}");
            assert_eq!(find(name).address, subject.address(name));
        }
        let points = find("points");
        assert_eq!(points.type_name.as_deref(), Some("point [10]"));
        let element = points.element.as_ref().unwrap();
        assert_eq!((element.size, element.dimensions.as_slice()), (24, &[10][..]));
        let member = points.member_at(subject.address("points") - points.address).unwrap();
        assert_eq!((member.name.as_str(), member.offset, member.size), ("y", 8, 8));
        let (file, line) = points.declared.as_ref().unwrap();
        assert!(file.ends_with("/c.c"), "{file}");
        let expected = source.lines().position(|line| line.starts_with("struct point points")).unwrap() + 1;
        assert_eq!(*line as usize, expected);
    }
}

#[test]
fn two_files_with_a_static_of_one_name() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let other = workshop.write("other.c", "static int table[25]; int *other(void) { return table; }");
    let source = format!(
        "{PRINTER} static int table[25]; int *other(void);
         int main(void) {{ print_maps(); SHOW(\"mine\", table); SHOW(\"others\", other()); return 0; }}"
    );
    for flags in [&["-g"][..], &["-g", "-O2", "-flto"], &[]] {
        let program = workshop.compile("mine.c", &source, "two", &[&[other.to_str().unwrap()], flags].concat());
        let subject = Subject::new(&program);
        let (mine, others) = (subject.find("mine"), subject.find("others"));
        assert_ne!(mine.address, others.address);
        for (variable, file) in [(mine, "mine.c"), (others, "other.c")] {
            assert_eq!((variable.name.as_str(), variable.size), ("table", 100), "{flags:?}");
            if !flags.is_empty() {
                assert!(variable.declared.as_ref().unwrap().0.ends_with(file));
            }
        }
    }
}

#[test]
fn stripped_files_name_what_others_can_see() {
    if !have(&["gcc", "strip"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{PROGRAM}");
    let program = workshop.compile("s.c", &source, "s", &["-pie", "-fPIE", "-rdynamic", "-g"]);
    tool("strip", [&program]);
    let subject = Subject::new(&program);
    assert!(subject.module.is_stripped() && !subject.module.has_debug_information());
    assert_eq!(subject.find("first").name, "first");
    let hidden = subject.find("hidden");
    assert_eq!((hidden.name.as_str(), hidden.kind), ("[.bss of s]", VariableKind::Section));
}

#[test]
fn debug_information_names_statics_whose_symbols_are_gone() {
    if !have(&["gcc", "strip"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{PROGRAM}");
    let program = workshop.compile("d.c", &source, "d", &["-pie", "-fPIE", "-g"]);
    // No tool removes the table alone; removing each symbol comes close.
    tool("objcopy", ["--strip-symbol=hidden", "--strip-symbol=first", program.to_str().unwrap()]);
    let subject = Subject::new(&program);
    for (name, size) in [("hidden", 256), ("first", 8000)] {
        let variable = subject.find(name);
        assert_eq!((variable.name.as_str(), variable.size), (name, size));
        assert_eq!(variable.symbol, "");
    }
}

#[test]
fn labels_of_the_tools_name_nothing() {
    if !have(&["gcc"]) {
        return;
    }
    const LABELS: &str = r#"
__asm__(".section .gcc_except_table,\"a\",@progbits\n.globl GCC_except_table1\nGCC_except_table1: .quad 1, 2\n"
        ".section .rodata\n.globl __offload_vars_end\n.type __offload_vars_end, @object\n"
        "__offload_vars_end: .quad 3, 4\n.text\n");
extern const long GCC_except_table1[], __offload_vars_end[];
int main(void) {
    print_maps();
    SHOW("exceptions", GCC_except_table1 + 1); SHOW("constants", __offload_vars_end + 1);
    return 0;
}
"#;
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{LABELS}");
    let subject = Subject::new(&workshop.compile("l.c", &source, "l", &["-pie", "-fPIE"]));
    for (what, section) in [("exceptions", "[.gcc_except_table of l]"), ("constants", "[.rodata of l]")] {
        let found = subject.find(what);
        assert_eq!((found.name.as_str(), found.kind), (section, VariableKind::Section));
    }
}

/// Each sized data symbol that `nm` lists must be found, under its own name or an alias's.
fn agrees_with_nm(module: &Module, symbols: &[NmSymbol]) -> usize {
    let mut checked = 0;
    let thread_local: BTreeSet<&str> = module
        .variables()
        .filter(|variable| variable.kind == VariableKind::ThreadLocal)
        .map(|variable| variable.symbol.as_str())
        .collect();
    let data = |symbol: &&NmSymbol| "bBdDrRvVuG".contains(symbol.letter) && symbol.size > 0;
    for symbol in symbols.iter().filter(data).filter(|symbol| !thread_local.contains(symbol.name.as_str())) {
        for address in [symbol.address, symbol.address + symbol.size - 1] {
            let found = module.data_at(address).unwrap_or_else(|| panic!("{symbol:?}"));
            if found.kind == VariableKind::Section {
                // `nm` prints some code and unwind labels with data letters; they are not objects.
                continue;
            }
            let aliases: Vec<&str> = symbols
                .iter()
                .filter(|other| other.address == found.address)
                .map(|other| other.name.as_str())
                .collect();
            assert!(aliases.contains(&found.symbol.as_str()), "{symbol:?} found {found:?}");
            assert!(found.address <= address && address < found.end(), "{symbol:?} found {found:?}");
            checked += 1;
        }
    }
    checked
}

#[test]
fn system_libraries_agree_with_nm() {
    if !have(&["nm"]) {
        return;
    }
    for name in ["libstdc++.so.6", "libm.so.6", "libc.so.6"] {
        let Some(path) = system_library(name) else {
            continue;
        };
        let module = Module::open(&path).unwrap();
        let checked = agrees_with_nm(&module, &nm(&path, &["-D"]));
        assert!(checked > 0, "{name}");
    }
}
