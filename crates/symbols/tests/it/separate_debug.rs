//! Debug information in a file of its own.

use numamma_symbols::{Module, VariableKind};

use crate::support::{Workshop, have, nm, tool};

const PROGRAM: &str = "static int hidden[40]; int *f(void) { static int counter[2]; return hidden + counter[0]; }
int main(void) { return *f(); }";

#[test]
fn by_debug_link_beside_the_program() {
    if !have(&["gcc", "objcopy", "strip", "nm"]) {
        return;
    }
    // With and without a build id: the link's checksum decides where there is none.
    for (folder, flag) in [("", "-Wl,--build-id=sha1"), (".debug", "-Wl,--build-id=none"), ("", "-Wl,--build-id=none")]
    {
        let workshop = Workshop::new();
        let program = workshop.compile("p.c", PROGRAM, "p", &["-g", flag]);
        let symbols = nm(&program, &[]);
        let at = |name: &str| symbols.iter().find(|symbol| symbol.name.starts_with(name)).unwrap().address;
        std::fs::create_dir_all(workshop.path(folder)).unwrap();
        let debug = workshop.path(folder).join("p.debug");
        tool("objcopy", ["--only-keep-debug".as_ref(), program.as_os_str(), debug.as_os_str()]);
        tool("strip", [&program]);
        let link = format!("--add-gnu-debuglink={}", debug.display());
        tool("objcopy", [link.as_ref(), program.as_os_str()]);

        let module = Module::open(&program).unwrap();
        assert_eq!(module.build_id().is_some(), flag.ends_with("sha1"));
        assert!(!module.is_stripped() && module.has_debug_information());
        assert_eq!(module.data_at(at("hidden")).unwrap().name, "hidden");
        assert_eq!(module.data_at(at("counter.")).unwrap().name, "f::counter");
        assert_eq!(module.frames_at(at("main"))[0].line, 2);

        // A file of another build under the same name is not believed.
        let other = workshop.compile("q.c", "int other; int main(void) { return other; }", "q", &["-g", flag]);
        tool("objcopy", ["--only-keep-debug".as_ref(), other.as_os_str(), debug.as_os_str()]);
        let module = Module::open(&program).unwrap();
        assert!(module.is_stripped());
        assert_eq!(module.data_at(at("hidden")).unwrap().kind, VariableKind::Section);
    }
}
