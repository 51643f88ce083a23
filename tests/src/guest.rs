//! Runs in the lab: guests of several nodes (`docs/LAB.md`).

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::run::Run;
use crate::{build, skip};

/// Most tests share one guest, so that it boots once.
pub const FOUR: [&str; 4] = ["--nodes", "4", "--dist", "ring"];

/// True if guests can be had here; what cannot is said.
pub fn applies(test: &str) -> bool {
    static FAULT: OnceLock<Option<String>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| {
        if !skip::installed("qemu-system-x86_64") {
            return Some("qemu-system-x86_64".to_owned());
        }
        let outcome = lab().args(FOUR).arg("--prepare").run();
        (outcome.shell_status() != 0).then(|| format!("a guest ({})", outcome.err().trim()))
    });
    if let Some(fault) = fault {
        skip::missing(test, fault);
    }
    fault.is_none()
}

/// `lab/run`, to be given its options.
pub fn lab() -> Run {
    // A cold start fetches a kernel and boots; only then does the time of the command begin.
    Run::new(build::root().join("lab/run")).limit(300)
}

/// What `--matrix` has written.
pub fn matrix(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("the matrix")).expect("JSON")
}
