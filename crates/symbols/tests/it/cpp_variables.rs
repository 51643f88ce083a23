//! Static variables of C++.

use numamma_symbols::VariableKind;

use crate::support::{PRINTER, Subject, Workshop, have};

const PROGRAM: &str = r#"
namespace outer { namespace inner { double grid[64]; } }
namespace { int anonymous[16]; }
namespace outer { static long local_to_file[8]; }
struct base { virtual ~base() {} static int member[12]; };
int base::member[12];
template <class T> struct holder { static T values[10]; };
template <class T> T holder<T>::values[10];
inline int shared_inline[6];
int *function(int x) { static int counter[5]; counter[0] += x; return counter; }
template <class T> T *generic() { static T kept[3]; return kept; }
extern "C" { int plain_c[4]; }
base object;
int main() {
    print_maps();
    SHOW("outer::inner::grid", outer::inner::grid);
    SHOW("(anonymous_namespace)::anonymous", anonymous);
    SHOW("outer::local_to_file", outer::local_to_file);
    SHOW("base::member", base::member);
    SHOW("holder<double>::values", holder<double>::values);
    SHOW("holder<float>::values", holder<float>::values);
    SHOW("shared_inline", shared_inline);
    SHOW("function(int)::counter", function(1));
    SHOW("generic<long>()::kept", generic<long>());
    SHOW("plain_c", plain_c);
    SHOW("object", &object);
    SHOW("vtable_for_base", *(void **)&object);
    return 0;
}
"#;

#[test]
fn names_are_those_of_the_source() {
    if !have(&["g++"]) {
        return;
    }
    let workshop = Workshop::new();
    let source = format!("{PRINTER}{PROGRAM}");
    let ways: [(&str, &[&str]); 7] = [
        ("g++", &["-gdwarf-5"]),
        ("g++", &["-gdwarf-4", "-no-pie", "-fno-pie", "-O2"]),
        ("g++", &["-g", "-fdebug-types-section"]),
        ("g++", &["-g", "-O2", "-flto"]),
        ("g++", &[]),
        ("clang++", &["-gdwarf-5"]),
        ("clang++", &["-gdwarf-4", "-O1"]),
    ];
    for (compiler, flags) in ways {
        if !have(&[compiler]) {
            continue;
        }
        let all = [&["-std=c++17"], flags].concat();
        let program = workshop.compile_with(compiler, "v.cpp", &source, "v", &all);
        let subject = Subject::new(&program);
        for printed in subject.said.places.keys() {
            let found = subject.find(printed);
            let bare = |name: &str| name.replace([' ', '_'], "");
            assert!(bare(&found.name) == bare(printed), "{flags:?}: {printed} is {}", found.name);
            assert_eq!(found.kind, VariableKind::Object);
        }
        let values = subject.find("holder<double>::values");
        assert_eq!((values.name.as_str(), values.size), ("holder<double>::values", 80));
        if !flags.is_empty() {
            assert_eq!(values.type_name.as_deref(), Some("double [10]"));
            assert!(values.declared.as_ref().unwrap().0.ends_with("v.cpp"));
        }
    }
}
