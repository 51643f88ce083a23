//! Guests that have booted before. A snapshot is taken before the guest uses any file of the host, so it fits every command.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::cache::Cache;
use crate::failure::{self, Failure, lab};
use crate::guest::{Guest, QEMU};

/// Where the snapshot of such a guest is or will be: its name stands for all that the guest's memory depends on.
pub fn place(cache: &Cache, arguments: &[OsString], files: [&Path; 2]) -> Result<PathBuf, Failure> {
    let mut hasher = DefaultHasher::new();
    let version = Command::new(QEMU).arg("--version").stderr(Stdio::null()).output();
    let version = version.map_err(|_| Failure::Lab(format!("{QEMU} is not installed: run lab/setup")))?;
    (version.stdout, arguments).hash(&mut hasher);
    for file in files {
        fs::read(file).map_err(failure::file("read", file))?.hash(&mut hasher);
    }
    Ok(cache.snapshots().join(format!("{:016x}", hasher.finish())))
}

/// Keeps a guest that has booted; it is gone afterwards.
pub fn take(mut guest: Guest, to: &Path, cache: &Cache) -> Result<(), Failure> {
    let unfinished = cache.unfinished(to);
    guest.order("migrate-set-parameters", json!({ "max-bandwidth": 100_000_000_000_u64 }))?;
    guest.order("migrate", json!({ "uri": format!("exec:cat > {}", quoted(&unfinished)) }))?;
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let state = guest.order("query-migrate", json!({}))?;
        match state["status"].as_str() {
            Some("completed") => break,
            Some("failed" | "cancelled") => {
                return lab(format!("no snapshot: {}; use --no-snapshot", state["error-desc"]));
            }
            _ if Instant::now() > until => return lab("no snapshot after 120 s; use --no-snapshot"),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
    guest.end();
    fs::rename(&unfinished, to).map_err(failure::file("make", to))?;
    cache.thin_out();
    Ok(())
}

/// What QEMU needs to be told to go on from a snapshot; which counts as used from now.
pub fn resume(from: &Path) -> [OsString; 2] {
    if let Ok(file) = File::open(from) {
        let _ = file.set_modified(SystemTime::now()); // only its age is at stake
    }
    ["-incoming".into(), format!("exec:cat {}", quoted(from)).into()]
}

/// For a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
