//! The injected library on disk: one binary is all a user installs, so it is written to a private place for each
//! recording and removed when nothing needs it any more.
//!
//! Who needs it: the recorder, which holds a lock on it, and every process that has it loaded, for what that executes looks for
//! it again. Processes may outlive the recorder (daemons do); then it is left to a later recorder to remove.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The library in a private directory; removed when dropped.
#[derive(Debug)]
pub struct Library {
    dir: PathBuf,
    /// Of the library itself, locked.
    _lock: File,
    hooks: bool,
    kept: bool,
}

/// Begins the names of our directories; where the recorder runs ([`whereabouts`]) and its process id follow.
const PREFIX: &str = "numamma-";

/// File names in them. The session and the plug-in know the library by its name.
const LIBRARY: &str = "libnumamma.so";
const PLUGIN: &str = "libnumamma_exact.so";
const HOOKS: &str = "libnumamma_hooks.so";

impl Library {
    /// Writes the library. The directory is only ours to write, but readable: a program that changes its user can still
    /// load it.
    pub fn write() -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for parent in candidates(std::env::temp_dir()) {
            sweep(&parent, &whereabouts());
            match Self::write_in(&parent) {
                Ok(library) => return Ok(library),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn write_in(parent: &Path) -> io::Result<Self> {
        let dir = parent.join(format!("{PREFIX}{}-{}", whereabouts(), std::process::id()));
        // A directory of that name is a left-over of a dead recorder with our process id, or somebody's trap: never used.
        let dir = (0..100)
            .map(|n| if n == 0 { dir.clone() } else { dir.with_extension(n.to_string()) })
            .find_map(|dir| match DirBuilder::new().mode(0o755).create(&dir) {
                Ok(()) => Some(Ok(dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                Err(error) => Some(Err(error)),
            })
            .ok_or(io::ErrorKind::AlreadyExists)??;
        // Under its name it is always locked: who sweeps does not take it for a left-over.
        let unfinished = add(&dir, "unfinished", numamma_preload::LIBRARY)?;
        let lock = File::open(&unfinished)?;
        // Where the file system knows no locks, the processes must tell.
        let _ = try_lock(&lock);
        fs::rename(&unfinished, dir.join(LIBRARY))?;
        Ok(Self { dir, _lock: lock, hooks: false, kept: false })
    }

    /// Writes the emulator's plug-in beside it; returns its path.
    pub fn write_plugin(&self) -> io::Result<PathBuf> {
        add(&self.dir, PLUGIN, numamma_exact::PLUGIN)
    }

    /// Writes the library of hooks beside it, to be loaded too, under the name of a version of ThreadSanitizer's runtime.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_hooks(&mut self, runtime: Option<&str>) -> io::Result<()> {
        let mut bytes = numamma_exact::HOOKS.to_vec();
        let name = numamma_exact::RUNTIME.as_bytes();
        if let Some(runtime) = runtime.filter(|runtime| runtime.len() == name.len())
            && let Some(at) = bytes.windows(name.len()).position(|window| window == name)
        {
            bytes[at..at + name.len()].copy_from_slice(runtime.as_bytes());
        }
        add(&self.dir, HOOKS, &bytes)?;
        self.hooks = true;
        Ok(())
    }

    /// Path of the library.
    pub fn path(&self) -> PathBuf {
        self.dir.join(LIBRARY)
    }

    /// What has it loaded: variables and their values.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        // First: what the user preloads comes behind, as the program's own allocator does.
        let mut preload = self.path().into_os_string();
        if self.hooks {
            preload.push(":");
            preload.push(self.dir.join(HOOKS));
        }
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

    /// Leaves it where it is: processes live on that have it in their environment.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn add(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, bytes)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Where a library may lie: it must not be mounted noexec, which the loader finds out only in the program, so places that
/// usually are (/dev/shm) come last.
fn candidates(temporary: PathBuf) -> Vec<PathBuf> {
    let mut places = vec![temporary, PathBuf::from("/tmp"), PathBuf::from("/var/tmp"), "/dev/shm".into()];
    // The loader splits LD_PRELOAD there, or expands it; and a relative path means another file after a change of directory.
    places.retain(|place| {
        place.is_absolute()
            && !place.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte))
            && !is_noexec(place)
    });
    places
}

fn is_noexec(place: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(place.as_os_str().as_bytes()) else { return true };
    let mut info = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a valid C string and room for the answer, which is read only if the call succeeded.
    unsafe { libc::statvfs(path.as_ptr(), info.as_mut_ptr()) != 0 || info.assume_init().f_flag & libc::ST_NOEXEC != 0 }
}

/// A word for this machine and this space of process ids. Others may see the same folder (a home on the network, one that is
/// mounted in containers): whether somebody there lives, we cannot know.
fn whereabouts() -> String {
    let mut hasher = DefaultHasher::new();
    for file in ["/etc/machine-id", "/proc/sys/kernel/hostname"] {
        fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// Takes the lock of who uses a library. False: somebody has it, or it cannot be had.
fn try_lock(file: &File) -> bool {
    // SAFETY: a system call on a descriptor of ours.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Removes what recorders of this place have left that were killed, or whose programs lived on, and that nobody needs now.
fn sweep(parent: &Path, whereabouts: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let ours = format!("{PREFIX}{whereabouts}-");
    for dir in entries.flatten().filter(|e| e.file_name().as_bytes().starts_with(ours.as_bytes())).map(|e| e.path()) {
        // Only what holds nothing but our library: others may use such a name.
        let is_ours = fs::read_dir(&dir).is_ok_and(|files| {
            files.flatten().all(|file| [LIBRARY, PLUGIN, HOOKS].iter().any(|name| file.file_name() == *name))
        });
        let library = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(dir.join(LIBRARY));
        if let Ok(library) = library
            && is_ours
            && try_lock(&library)
            && !is_mapped(&library)
        {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// True if a process has the file mapped. Of processes whose mappings we may not see, none is ours: the loader would not load
/// the library into a program with more rights.
fn is_mapped(file: &File) -> bool {
    let Ok(inode) = file.metadata().map(|info| info.ino().to_string()) else { return true };
    // One line of a process's mappings: range, rights, offset, device, inode, path. Inodes of other devices only make us
    // careful, and some file systems do not show the device that stat tells.
    let maps = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(4) == Some(&inode) && fields.next_back().is_some_and(|path| path.contains(LIBRARY))
    };
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let mut texts = processes.flatten().filter_map(|process| {
        process.file_name().to_str()?.parse::<u32>().ok()?;
        fs::read(process.path().join("maps")).ok()
    });
    texts.any(|text| String::from_utf8_lossy(&text).lines().any(maps))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as a recorder of `place` leaves it.
    fn left(parent: &Path, place: &str) -> PathBuf {
        let dir = parent.join(format!("{PREFIX}{place}-1"));
        fs::create_dir(&dir).expect("a folder");
        add(&dir, LIBRARY, numamma_preload::LIBRARY).expect("the library");
        dir
    }

    #[test]
    fn what_nobody_needs_is_swept() {
        let parent = tempfile::tempdir().expect("a folder");
        let (ours, others) = (left(parent.path(), "here"), left(parent.path(), "there"));
        let library = Library::write_in(parent.path()).expect("the library");
        let unknown = parent.path().join(format!("{PREFIX}here-2"));
        fs::create_dir(&unknown).expect("a folder");
        fs::write(unknown.join("results"), "").expect("a file");
        for place in ["here", &whereabouts()] {
            sweep(parent.path(), place);
        }
        assert!(!ours.exists(), "a left-over");
        assert!(others.exists(), "another machine's");
        assert!(unknown.exists(), "what is not ours");
        assert!(library.path().exists(), "it is in use");
        drop(library);
        assert_eq!(fs::read_dir(parent.path()).expect("the folder").count(), 2);
    }

    #[test]
    fn what_a_process_has_loaded_is_not_swept() {
        let parent = tempfile::tempdir().expect("a folder");
        let dir = left(parent.path(), "here");
        let mut sleep = std::process::Command::new("sleep");
        let mut process = sleep.arg("60").env("LD_PRELOAD", dir.join(LIBRARY)).spawn().expect("sleep");
        let maps = format!("/proc/{}/maps", process.id());
        while !fs::read_to_string(&maps).expect("its mappings").contains(LIBRARY) {
            std::thread::yield_now();
        }
        sweep(parent.path(), "here");
        let stayed = dir.exists();
        process.kill().expect("kill it");
        process.wait().expect("wait for it");
        sweep(parent.path(), "here");
        assert_eq!((stayed, dir.exists()), (true, false));
    }

    #[test]
    fn folders_that_the_loader_cannot_name_are_passed_over() {
        let parent = tempfile::tempdir().expect("a folder");
        for name in ["with space", "a:b", "$LIB"] {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            assert!(!candidates(folder.clone()).contains(&folder), "{name}");
        }
        assert!(!candidates("relative".into()).contains(&"relative".into()));
        let fine = parent.path().to_owned();
        assert_eq!(candidates(fine.clone()).first(), Some(&fine).filter(|fine| !is_noexec(fine)));
    }
}
