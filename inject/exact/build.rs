//! Compiles the plug-in with the C compiler that cargo would use and hands it to `src/lib.rs` as a file.

use std::path::PathBuf;
use std::{env, fs};

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
    // Each access looks at its thread's counters: a call of __tls_get_addr would double what that takes.
    "-ftls-model=initial-exec",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
];

// Not -z defs: QEMU itself has the functions that the plug-in calls.
const LINK_FLAGS: &[&str] = &["-shared", "-Wl,-soname,libnumamma_exact.so", "-Wl,-z,now", "-Wl,--build-id"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let plugin = out.join("libnumamma_exact.so");
    println!("cargo:rerun-if-changed=plugin");
    println!("cargo:rerun-if-changed=../wire/include");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=NUMAMMA_EXACT_PLUGIN={}", plugin.display());
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") {
        fs::write(&plugin, b"").expect("an empty file can be written");
        return;
    }
    let mut sources: Vec<PathBuf> = fs::read_dir("plugin")
        .expect("plugin/ is there")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let mut command = cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler().to_command();
    command.args(FLAGS).args(LINK_FLAGS).args(&sources).arg("-o").arg(&plugin);
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
