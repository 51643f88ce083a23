//! Compiles the in-process library with the C compiler that cargo would use and hands it to `src/lib.rs` as a file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const FOLDERS: [&str; 5] = ["base", "emit", "hooks", "place", "unwind"];

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
    // Our frame is where unwinding starts.
    "-fno-omit-frame-pointer",
    // Only hooks are exported.
    "-fvisibility=hidden",
    // __tls_get_addr may allocate, and would call us.
    "-ftls-model=initial-exec",
    // Cancellation unwinds through the thread trampoline.
    "-fexceptions",
    "-fasynchronous-unwind-tables",
    // The compiler must not take our malloc for its malloc, nor add calls to newer libc entry points.
    "-fno-builtin",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fcf-protection=none",
];

const LINK_FLAGS: &[&str] = &[
    "-shared",
    "-Wl,-soname,libnumamma_preload.so",
    // No lazy binding: its resolver is no place to be in from within malloc.
    "-Wl,-z,now",
    "-Wl,-z,relro",
    "-Wl,-z,defs",
    "-Wl,--as-needed",
    "-Wl,--hash-style=gnu",
    "-Wl,--build-id",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libnumamma_preload.so");

    let mut sources = Vec::new();
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
        sources.extend(c_files(Path::new(folder)));
    }
    println!("cargo:rerun-if-changed=../wire/include");
    println!("cargo:rerun-if-changed=build.rs");

    let x86 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let mut command = compiler();
    command.args(FLAGS.iter().filter(|flag| x86 || !flag.starts_with("-fcf-protection")));
    command.args(LINK_FLAGS).args(&sources).arg("-o").arg(&library);
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        command.arg("-Wl,--strip-debug");
    }
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
    println!("cargo:rustc-env=NUMAMMA_PRELOAD_LIBRARY={}", library.display());
}

/// The compiler that cargo would use, or that of `NUMAMMA_INJECT_CC`, for an older C library than this system's (`make dist`).
fn compiler() -> Command {
    println!("cargo:rerun-if-env-changed=NUMAMMA_INJECT_CC");
    match env::var_os("NUMAMMA_INJECT_CC") {
        Some(path) => Command::new(path),
        None => cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler().to_command(),
    }
}

fn c_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files
}
