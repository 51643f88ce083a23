//! The model of caches keeps those of threads coherent.

use std::path::Path;
use std::process::Command;

#[test]
fn who_may_write_to_a_line_holds_it_alone() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coherence.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coherence");
    let flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"];
    let built = Command::new("cc").args(flags).arg(&program).arg(&source).status().expect("a C compiler");
    assert!(built.success());
    let run = Command::new(&program).output().expect("it was built");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "0\n");
}
