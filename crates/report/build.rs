//! Embeds the web view (`web/dist/view.html`) if it has been built; otherwise `html::render` says so. Never calls npm.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it for build scripts"));
    let web = variable("CARGO_MANIFEST_DIR").join("../../web");
    let view = web.join("dist/view.html");
    // A path that does not exist would make cargo build this crate again every time: the folder above it tells as well
    // when the view appears. A source package of this crate alone has neither.
    let watched: &Path = [view.as_path(), web.as_path(), Path::new("build.rs")]
        .into_iter()
        .find(|path| path.exists())
        .expect("the last one exists");
    println!("cargo:rerun-if-changed={}", watched.display());
    println!("cargo:rerun-if-changed=build.rs");
    let page = fs::read(&view).unwrap_or_default();
    fs::write(variable("OUT_DIR").join("view.html"), page).expect("OUT_DIR can be written");
}
