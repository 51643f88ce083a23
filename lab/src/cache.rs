//! What is kept between runs: kernels and snapshots. All of it can be made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::{self, Failure};
use crate::process;

/// Kept snapshots; each has 100 to 200 MiB.
const SNAPSHOTS: usize = 16;

/// The folder.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$XDG_CACHE_HOME/numamma-lab`, or the usual place of that.
    pub fn open() -> Result<Cache, Failure> {
        let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = given.or_else(usual).ok_or_else(|| Failure::Lab("set HOME or XDG_CACHE_HOME".to_owned()))?;
        let cache = Cache { root: base.join("numamma-lab") };
        fs::create_dir_all(cache.snapshots()).map_err(failure::file("make", &cache.root))?;
        cache.sweep();
        Ok(cache)
    }

    /// Where something is or will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where snapshots lie.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// A place beside `target` to make it in: it is moved when complete, so that nobody sees half of it.
    pub fn unfinished(&self, target: &Path) -> PathBuf {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        target.with_file_name(name)
    }

    /// Drops the snapshots that were not used for longest.
    pub fn thin_out(&self) {
        let age =
            |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut snapshots: Vec<PathBuf> =
            entries(&self.snapshots()).filter(|path| path.extension().is_none_or(|end| end != "part")).collect();
        snapshots.sort_by_key(|path| std::cmp::Reverse(age(path)));
        for old in snapshots.iter().skip(SNAPSHOTS) {
            let _ = fs::remove_file(old); // another run may have done so
        }
    }

    /// Removes what runs that were killed have left half-made.
    fn sweep(&self) {
        for path in entries(&self.root).chain(entries(&self.snapshots())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let maker = name.strip_suffix(".part").and_then(|name| name.rsplit_once('.')?.1.parse().ok());
            if maker.is_some_and(|maker| !process::exists(maker)) {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
