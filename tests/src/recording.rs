//! A recording that many tests look at.

use std::fs;
use std::path::PathBuf;

use crate::{Run, build};

/// Records `seconds` of the triad under a name that only one test program uses: it lies beside the test programs and is
/// made anew every time. The caller has the machine to itself or does not care.
pub fn of_triad(name: &str, seconds: &str) -> PathBuf {
    let dataset = build::scratch().join(name).with_extension("numamma");
    let _ = fs::remove_dir_all(&dataset);
    let triad = build::workload("triad").expect("the triad");
    Run::record(&dataset)
        .arg(triad)
        .arg(seconds)
        .env("OMP_NUM_THREADS", "2")
        .env("OMP_WAIT_POLICY", "passive")
        .run()
        .success();
    dataset
}
