//! Checks that the compiler does not make: of the source tree (`cargo run -p xtask -- tidy`), and of which C library a
//! built program needs (`cargo run -p xtask -- glibc FILE 2.28 2.17`).

#![forbid(unsafe_code)]

mod code;
mod glibc;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["glibc", file, newest, newest_within] => needed(file, newest, newest_within),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | glibc FILE NEWEST NEWEST_WITHIN");
            ExitCode::from(2)
        }
    }
}

/// Fails unless a program runs with C libraries that old.
fn needed(file: &str, newest: &str, newest_within: &str) -> ExitCode {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("glibc: cannot read {file}: {error}");
            return ExitCode::from(2);
        }
    };
    let (Some(program), Some(within)) = (glibc::version(newest), glibc::version(newest_within)) else {
        eprintln!("glibc: {newest} and {newest_within} are no versions, which are like 2.28");
        return ExitCode::from(2);
    };
    match glibc::check(&bytes, program, within) {
        Ok(faults) if faults.is_empty() => {
            let libraries = glibc::within(&bytes).count();
            println!("glibc: {file} needs at most {newest}, the {libraries} libraries in it {newest_within}");
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            faults.iter().for_each(|fault| println!("{file}: {fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("glibc: {file}: {error}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = match tree::Tree::load(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read the source tree: {error}");
            return ExitCode::from(2);
        }
    };
    let faults = tidy::check(&tree);
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => {
            println!("tidy: {} files in order", tree.files().count());
            ExitCode::SUCCESS
        }
        n => {
            eprintln!("tidy: {n} {}", if n == 1 { "fault" } else { "faults" });
            ExitCode::FAILURE
        }
    }
}
