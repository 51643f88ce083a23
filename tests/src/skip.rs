//! A test that cannot run here says so where it is seen.

use std::io::Write;

/// Writes a line that the test runner does not swallow (it captures only what `print!` and `eprintln!` write).
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// A tool that a test needs is missing: a failure where programs are required, a visible skip elsewhere.
pub fn missing(test: &str, tool: &str) {
    assert!(
        std::env::var("NUMAMMA_REQUIRE_PROGRAMS").as_deref() != Ok("1"),
        "{test} needs {tool}, which is not installed (NUMAMMA_REQUIRE_PROGRAMS=1)"
    );
    skipped(test, &format!("{tool} is not installed"));
}

/// True if the shell would find `tool`.
pub fn installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// True if this is root, who may mount file systems and become someone else.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
