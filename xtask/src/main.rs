//! Checks of the source tree that the compiler does not make: `cargo run -p xtask -- tidy`.

#![forbid(unsafe_code)]

mod code;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        eprintln!("usage: cargo run -p xtask -- tidy");
        return ExitCode::from(2);
    }
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
