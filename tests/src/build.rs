//! Where the binary under test, the workloads and the small helpers are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::turns::locked;

/// Root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the project")
}

/// A place for lock files and helpers, kept between runs.
pub fn scratch() -> PathBuf {
    let dir = profile_dir().join("numamma-tests");
    fs::create_dir_all(&dir).expect("a folder beside the test program");
    dir
}

/// `target/PROFILE`: tests lie in its `deps`, binaries in itself.
fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("path of this program");
    let dir = exe.parent().expect("a folder");
    if dir.ends_with("deps") { dir.parent().expect("target/PROFILE").to_owned() } else { dir.to_owned() }
}

/// The binary under test: `NUMAMMA_BIN`, else the one beside this program, brought up to date first.
pub fn numamma() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("NUMAMMA_BIN") {
            return fs::canonicalize(&path).unwrap_or_else(|e| panic!("NUMAMMA_BIN={}: {e}", path.display()));
        }
        let dir = profile_dir();
        let binary = dir.join("numamma");
        // Cargo sets CARGO for tests. Cargo itself knows best whether the binary is out of date.
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "-p", "numamma"]).current_dir(root());
            if dir.ends_with("release") {
                build.arg("--release");
            }
            let status = build.status().expect("cargo runs");
            assert!(status.success(), "`cargo build -p numamma` failed");
        }
        assert!(binary.is_file(), "{} does not exist: run `cargo build -p numamma`", binary.display());
        binary
    })
}

/// The folder with the built workloads.
pub fn workloads() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let sources = root().join("workloads");
        let _lock = locked(&scratch().join("workloads.lock"), libc::LOCK_EX);
        let made = Command::new("make").arg("--silent").arg("-C").arg(&sources).output().expect("make runs");
        assert!(made.status.success(), "make -C workloads: {}", String::from_utf8_lossy(&made.stderr));
        sources.join("build")
    })
}

/// A built workload, or `None` if this machine has no compiler for it.
pub fn workload(name: &str) -> Option<PathBuf> {
    let path = workloads().join(name);
    path.is_file().then_some(path)
}

/// Compiles `tests/helpers/NAME.c`.
pub fn helper(name: &str) -> PathBuf {
    let source = root().join("tests/helpers").join(name).with_extension("c");
    let binary = scratch().join(name);
    let _lock = locked(&scratch().join(format!("{name}.lock")), libc::LOCK_EX);
    let age = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
    let headers = ["inject/annotate/numamma.h", "lab/include/numamma_lab.h"].map(|header| root().join(header));
    let newer = |built| headers.iter().chain([&source]).any(|file| age(file).is_none_or(|written| written > built));
    if age(&binary).is_none_or(newer) {
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let status = Command::new(cc)
            .args(["-O2", "-g", "-pthread", "-Wall", "-Wextra", "-o"])
            .arg(&binary)
            .arg(&source)
            .status();
        assert!(status.is_ok_and(|s| s.success()), "cannot compile {}", source.display());
    }
    binary
}
