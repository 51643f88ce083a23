//! Compiles what runs elsewhere: the plug-in inside QEMU, and the first program of the guest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const FLAGS: &[&str] = &["-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-Werror"];

// The interface of QEMU, the knowledge of which instructions it takes apart and the model of caches are those of the exact sampler.
const EXACT: &str = "../inject/exact/plugin";
const CACHES: &str = "../inject/exact/caches";
const WIRE: &str = "../inject/wire/include";

fn main() {
    for path in ["plugin", "guest", "include", "build.rs", EXACT, CACHES, WIRE, "../inject/exact/count/lock.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (plugin, init) = (out.join("libnumamma_lab.so"), out.join("init"));
    println!("cargo:rustc-env=NUMAMMA_LAB_PLUGIN={}", plugin.display());
    println!("cargo:rustc-env=NUMAMMA_LAB_INIT={}", init.display());
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") {
        fs::write(&plugin, b"").and_then(|()| fs::write(&init, b"")).expect("empty files can be written");
        return;
    }
    // Not -z defs: QEMU itself has the functions that the plug-in calls.
    let mut command = compiler(&["-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wl,-z,now"]);
    command.args(["-I", EXACT, "-I", CACHES, "-I", WIRE]).args(["plugin/plugin.c", "plugin/count.c"]);
    command.arg(Path::new(EXACT).join("code.c")).arg(Path::new(CACHES).join("caches.c"));
    run(command.arg("-o").arg(&plugin)).expect("the plug-in compiles");
    // A system without a static C library can build all but this: the lab says so when it is asked to run.
    let mut command = compiler(&["-static"]);
    command.args(["guest/init.c", "guest/command.c", "guest/mounts.c", "guest/check.c"]);
    if let Err(error) = run(command.arg("-o").arg(&init)) {
        println!("cargo:warning=the lab will not run: {error}");
        fs::write(&init, b"").expect("an empty file can be written");
    }
}

fn compiler(flags: &[&str]) -> Command {
    let mut command = cc::Build::new().cargo_metadata(false).opt_level(2).get_compiler().to_command();
    command.args(FLAGS).args(flags).args(["-I", "include"]);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
