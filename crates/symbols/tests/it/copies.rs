//! Copy relocations: the library defines the variable, the executable has it.

use numamma_symbols::Module;

use crate::support::{PRINTER, Said, Workshop, have};

#[test]
fn a_copied_variable_belongs_to_the_executable() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let library = workshop.compile(
        "shared.c",
        "double table[500] = {1}; double own[500] = {2}; double *where(void) { return own; }",
        "libshared.so",
        &["-shared", "-fPIC", "-g"],
    );
    let source = format!(
        "{PRINTER} extern double table[500]; double *where(void);
         int main(void) {{ print_maps(); SHOW(\"table\", table); SHOW(\"own\", where()); return 0; }}"
    );
    for flags in [["-no-pie", "-fno-pie"], ["-pie", "-fPIE"]] {
        let all = [&flags[..], &["-L.", "-lshared"]].concat();
        let program = workshop.compile("user.c", &source, "user", &all);
        let said = Said::by(&program);
        let executable = Module::open(&program).unwrap();
        let shared = Module::open(&library).unwrap();
        let bias = said.bias(&executable, &program);

        let [copy] = executable.copied_variables() else {
            panic!("{:?}", executable.copied_variables());
        };
        assert_eq!((copy.name.as_str(), copy.address + bias, copy.size), ("table", said.at("table"), 4000));
        let in_executable = executable.data_at(said.at("table") - bias).unwrap();
        assert_eq!((in_executable.name.as_str(), in_executable.size), ("table", 4000));
        assert!(in_executable.copied);
        assert_eq!(in_executable.section, ".bss");

        let in_library = shared.variables().find(|variable| variable.name == "table").unwrap();
        assert!(!in_library.copied);
        assert!(shared.is_copied_away(in_library, &executable));
        let own = shared.data_at(said.at("own") - said.bias(&shared, &library)).unwrap();
        assert_eq!(own.name, "own");
        assert!(!shared.is_copied_away(own, &executable));
        assert!(!executable.is_copied_away(in_executable, &executable));
    }
}
