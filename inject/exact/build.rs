//! Compiles the plug-in and the library of hooks with the C compiler that cargo would use and hands them to `src/lib.rs` as files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
    // Each access looks at its thread's counters: a call of __tls_get_addr would double what that takes.
    "-ftls-model=initial-exec",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-Wl,-z,now",
    "-Wl,--build-id",
];

// Not -z defs: QEMU itself has the functions that the plug-in calls.
const PLUGIN: &[&str] = &["-Wl,-soname,libnumamma_exact.so"];

const HOOKS: &[&str] = &[
    // Who needs ThreadSanitizer's runtime gets this one: the loader knows libraries by this name, and loads no second.
    "-Wl,-soname,libtsan.so.2",
    "-Wl,-z,defs",
    "-Wl,-z,relro",
    "-Wl,--as-needed",
    "-Wl,--hash-style=gnu",
    "-fno-builtin",
    // cc wants one in every function, and hooks are short.
    "-fomit-frame-pointer",
    "-fcf-protection=none",
    // A handler, or a destructor at the end of a thread, may come at any instruction of ours and unwind.
    "-fexceptions",
    "-fasynchronous-unwind-tables",
    // Atomics of 16 bytes.
    "-mcx16",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for path in ["caches", "count", "plugin", "hooks", "../wire/include", "../preload/base", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    for (variable, folder, flags) in
        [("NUMAMMA_EXACT_PLUGIN", "plugin", PLUGIN), ("NUMAMMA_EXACT_HOOKS", "hooks", HOOKS)]
    {
        let library = out.join(format!("{folder}.so"));
        println!("cargo:rustc-env={variable}={}", library.display());
        if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") {
            fs::write(&library, b"").expect("an empty file can be written");
            continue;
        }
        compile(&["caches", "count", folder], flags, &library);
    }
}

fn compile(folders: &[&str], flags: &[&str], library: &Path) {
    let mut sources: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder of this crate"))
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let mut command = compiler();
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        command.arg("-Wl,--strip-debug");
    }
    // dlsym is in a library of its own before glibc 2.34.
    command.args(FLAGS).args(flags).args(&sources).arg("-ldl").arg("-o").arg(library);
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The compiler that cargo would use, or that of `NUMAMMA_INJECT_CC`, for an older C library than this system's (`make dist`).
fn compiler() -> Command {
    println!("cargo:rerun-if-env-changed=NUMAMMA_INJECT_CC");
    if let Some(path) = env::var_os("NUMAMMA_INJECT_CC") {
        return Command::new(path);
    }
    let compiler = cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler();
    let mut command = compiler.to_command();
    if compiler.is_like_gnu() {
        // Hooks of equal code stay apart. Clang never merges them.
        command.arg("-fno-ipa-icf");
    }
    command
}
