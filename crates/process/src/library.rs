//! The injected library on disk: one binary is all a user installs, so it is written to a private place for each
//! recording and removed afterwards.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The library in a private directory; removed when dropped.
#[derive(Debug)]
pub struct Library {
    dir: PathBuf,
}

/// Begins the names of our directories; the recorder's process id follows.
const PREFIX: &str = "numamma-";

/// File names in them. The session and the plug-in know the library by its name.
const LIBRARY: &str = "libnumamma.so";
const PLUGIN: &str = "libnumamma_exact.so";

impl Library {
    /// Writes the library. The directory is only ours to write, but readable: a program that changes its user can still
    /// load it.
    pub fn write() -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for parent in candidates() {
            sweep(&parent);
            match Self::write_in(&parent) {
                Ok(library) => return Ok(library),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn write_in(parent: &Path) -> io::Result<Self> {
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        // A directory of that name is a left-over of a dead recorder with our process id, or somebody's trap: never used.
        let dir = (0..100)
            .map(|n| if n == 0 { dir.clone() } else { dir.with_extension(n.to_string()) })
            .find_map(|dir| match DirBuilder::new().mode(0o755).create(&dir) {
                Ok(()) => Some(Ok(dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                Err(error) => Some(Err(error)),
            })
            .ok_or(io::ErrorKind::AlreadyExists)??;
        let library = Self { dir };
        library.add(LIBRARY, numamma_preload::LIBRARY)?;
        Ok(library)
    }

    fn add(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Writes the emulator's plug-in beside it; returns its path.
    pub fn write_plugin(&self) -> io::Result<PathBuf> {
        self.add(PLUGIN, numamma_exact::PLUGIN)
    }

    /// Path of the library.
    pub fn path(&self) -> PathBuf {
        self.dir.join(LIBRARY)
    }

    /// What has it loaded: variables and their values.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        // First: what the user preloads comes behind, as the program's own allocator does.
        let mut preload = self.path().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        // A program under AddressSanitizer that some child of the command runs: its runtime insists on coming first, and would
        // end it for our sake. It works behind us.
        let mut sanitizer = std::env::var_os("ASAN_OPTIONS").unwrap_or_default();
        if !sanitizer.is_empty() {
            sanitizer.push(":");
        }
        sanitizer.push("verify_asan_link_order=0");
        vec![("LD_PRELOAD".into(), preload), ("ASAN_OPTIONS".into(), sanitizer)]
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Where a library may lie: it must not be mounted noexec, which the loader finds out only in the program, so places that
/// usually are (/dev/shm) come last.
fn candidates() -> Vec<PathBuf> {
    let mut places = vec![std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp"), "/dev/shm".into()];
    places.retain(|place| !is_noexec(place));
    places
}

fn is_noexec(place: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(place.as_os_str().as_bytes()) else { return true };
    let mut info = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a valid C string and room for the answer, which is read only if the call succeeded.
    unsafe { libc::statvfs(path.as_ptr(), info.as_mut_ptr()) != 0 || info.assume_init().f_flag & libc::ST_NOEXEC != 0 }
}

/// Removes what recorders that were killed have left.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('.').next()?.parse::<i32>().ok())
        else {
            continue;
        };
        // SAFETY: signal 0 only asks whether the process exists.
        let gone = unsafe { libc::kill(pid, 0) } != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        // Only what holds nothing but our library: others may use such a name.
        let ours = fs::read_dir(entry.path()).is_ok_and(|files| {
            files.flatten().all(|file| [LIBRARY, PLUGIN].iter().any(|name| file.file_name() == *name))
        });
        if gone && ours {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
