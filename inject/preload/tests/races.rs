//! The ring's code with real threads and signals, under the compilers' checkers of data races, addresses and undefined behaviour.
//! What the threads may do in theory is in `model.rs`; the whole library under a checker is in `library.rs`.

mod common;

use std::process::Command;

use common::{Bench, text};

/// Builds and runs `model/threads.c`, which counts what it wrote and read.
fn runs_clean_under(checkers: &str) {
    let bench = Bench::new();
    let program = bench.path("threads");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/threads.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-O1", "-g", "-pthread", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]);
    let output =
        compiler.arg(format!("-fsanitize={checkers}")).arg(source).arg("-o").arg(&program).arg("-lrt").output();
    let output = output.expect("run gcc");
    assert!(output.status.success(), "{}", text(&output));
    // The checkers' maps of memory do not stand all of the kernel's random addresses.
    let output = Command::new("setarch").arg("-R").arg(&program).output().expect("run setarch");
    assert!(output.status.success(), "{checkers}: {}", text(&output));
    let emitted = text(&output).lines().next().and_then(|line| line.strip_prefix("emitted ")?.parse::<u64>().ok());
    assert!(emitted >= Some(240_000), "{}", text(&output));
}

#[test]
fn no_data_race() {
    runs_clean_under("thread");
}

#[test]
fn no_wrong_address_and_nothing_undefined() {
    runs_clean_under("address,undefined");
}
