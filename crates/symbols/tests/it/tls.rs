//! Thread-local variables, and where their block lies.

use numamma_symbols::{Module, VariableKind};

use crate::support::{PRINTER, Said, Workshop, have};

#[test]
fn thread_local_variables_are_found_by_offset() {
    if !have(&["gcc"]) || !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return;
    }
    let workshop = Workshop::new();
    for align in [1, 16, 64, 256] {
        let source = format!(
            "{PRINTER}
             __thread int started = 5; __thread double zeros[100]; static __thread char small;
             __thread __attribute__((aligned({align}))) char aligned[3] = {{1}};
             int plain[3];
             int main(void) {{
                 print_maps();
                 SHOW(\"thread\", __builtin_thread_pointer());
                 SHOW(\"started\", &started); SHOW(\"zeros\", zeros + 99); SHOW(\"small\", &small); SHOW(\"aligned\", aligned);
                 return 0;
             }}"
        );
        for flags in [&["-g", "-gdwarf-5"][..], &["-g", "-gdwarf-4", "-no-pie"], &["-static"], &[]] {
            let program = workshop.compile("tls.c", &source, "tls", flags);
            let module = Module::open(&program).unwrap();
            let said = Said::by(&program);
            let block = module.tls_block().unwrap();
            assert!(block.size >= 808, "{block:?}");
            let start = said.at("thread").wrapping_add_signed(block.executable_offset);
            for name in ["started", "zeros", "small", "aligned"] {
                let variable = module
                    .tls_variable_at(said.at(name).wrapping_sub(start))
                    .unwrap_or_else(|| panic!("{name}, {flags:?}, align {align}, {block:?}"));
                assert_eq!((variable.name.as_str(), variable.kind), (name, VariableKind::ThreadLocal));
                assert!(matches!(variable.section.as_str(), ".tdata" | ".tbss"), "{variable:?}");
                if flags.contains(&"-g") {
                    assert!(variable.declared.is_some(), "{variable:?}");
                }
            }
            assert!(module.tls_variable_at(block.size).is_none());
            // `.tbss` has addresses that other sections have too: it must not claim theirs.
            let plain = module.variables().find(|variable| variable.name == "plain").unwrap();
            assert_eq!(module.data_at(plain.address).unwrap().name, "plain");
        }
    }
}
