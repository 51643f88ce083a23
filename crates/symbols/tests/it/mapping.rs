//! From a process's memory map to the file's addresses, for every way of linking at hand.

use numamma_symbols::{Access, Module};

use crate::support::{PRINTER, Subject, Workshop, have};

const PROGRAM: &str = r#"
double grid[1000] = {1};
double zeros[100000];
int main(void) {
    print_maps();
    SHOW("grid", grid); SHOW("zeros", zeros + 99999); SHOW("main", main);
    return 0;
}
"#;

#[test]
fn bias_agrees_with_the_program() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{PROGRAM}");
    let ways: [&[&str]; 9] = [
        &["-pie", "-fPIE"],
        &["-no-pie", "-fno-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
        &["-pie", "-fPIE", "-Wl,-z,noseparate-code"],
        &["-no-pie", "-fno-pie", "-Wl,-z,noseparate-code"],
        &["-pie", "-fPIE", "-Wl,-z,norelro", "-Wl,-z,noseparate-code"],
        &["-pie", "-fPIE", "-Wl,-z,max-page-size=65536"],
        &["-pie", "-fPIE", "-Wl,-z,max-page-size=2097152", "-Wl,-z,now"],
    ];
    for flags in ways {
        let program = workshop.compile("program.c", &source, "program", flags);
        let subject = Subject::new(&program);
        let module = &subject.module;
        for name in ["grid", "zeros"] {
            assert_eq!(subject.find(name).name, name, "{flags:?}");
        }
        assert_eq!(module.function_name(subject.address("main")).unwrap(), "main", "{flags:?}");
        let (first, last) = module.extent().unwrap();
        assert!((first..last).contains(&subject.address("zeros")), "{flags:?}");
        assert_eq!(module.is_fixed(), subject.bias == 0, "{flags:?}");
        assert_eq!(module.is_static_executable(), flags[0].starts_with("-static"), "{flags:?}");
    }
}

#[test]
fn a_mapping_of_something_else_has_no_bias() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("a.c", "int main(void) { return 0; }", "a", &["-pie", "-fPIE"]);
    let module = Module::open(&program).unwrap();
    assert_eq!(module.bias_for_mapping(0x7000_0000_0000, 1 << 30, Access::Unknown), None);
    assert_eq!(module.bias_for_mapping(0x7000_0000_0123, 0, Access::Unknown), None);
    assert!(module.data_at(1 << 40).is_none());
    assert!(module.needed().iter().any(|name| name.starts_with("libc.so")));
    assert_eq!(module.soname(), None);
}

#[test]
fn an_executable_with_its_own_malloc_says_so() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let own = "#include <stddef.h>\nvoid *malloc(size_t n) { return 0; }\nint main(void) { return malloc(1) == 0; }";
    let without = Module::open(workshop.compile("a.c", "int main(void) { return 0; }", "a", &[])).unwrap();
    let with = Module::open(workshop.compile("b.c", own, "b", &[])).unwrap();
    assert!(!without.defines("malloc"));
    assert!(with.defines("malloc"));
    let sanitized = workshop.compile("c.c", "int main(void) { return 0; }", "c", &["-fsanitize=address"]);
    let needed = Module::open(sanitized).unwrap().needed().to_vec();
    assert!(needed[0].starts_with("libasan"), "{needed:?}");
}
